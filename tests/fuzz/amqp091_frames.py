"""Mutated frames of AMQP 0.9.1 through scanner, tables, encoder and codec, each placed against a page that must not be
touched: a read outside the buffer ends the process. What the kernels say is held against the codec, frame by frame.
`python -m tests.fuzz.amqp091_frames --count 1000000 --seed 1`"""

from __future__ import annotations

import argparse
import random
import sys
from array import array

from tests.fuzz.kernels_fuzz import GuardedPages, Tally
from tests.support.amqp091_wire import Limits, frame, header, publish, read_stream, settled

import penstock.kernels
from penstock.codecs.amqp091.assembly import Assembly, fault_at
from penstock.codecs.amqp091.decode import Decoder, Frame
from penstock.codecs.amqp091.encode import HEARTBEAT, method_frame
from penstock.codecs.amqp091.errors import AmqpError
from penstock.codecs.amqp091.kinds import Sender
from penstock.codecs.amqp091.methods import METHODS, BasicAck, BasicNack, BasicPublish, BasicReject
from penstock.codecs.amqp091.properties import Properties
from penstock.codecs.amqp091.state import Connection, State
from penstock.codecs.amqp091.wire import table_of
from penstock.core.errors import InvalidArgument
from penstock.kernels import amqp_columns as names
from penstock.kernels import amqp_deliver, amqp_tables
from penstock.kernels.amqp_scan import Scanner

ROOM, SEEDS = 12, 300
FRAME_MAX = 4096
_NUMBERS = (0, 1, 2, 3, 8, 10, 20, 40, 50, 60, 80, 90, 120, 0x41, 0x44, 0x46, 0x49, 0x53, 0x54, 0x56, 0x6C)
TELLING_BYTES = (*_NUMBERS, 0x74, 0x78, 0x7F, 0x80, 0xC3, 0xCE, 0xE2, 0xF4, 0xFF)
KEYS = ("", "q", "a.b.c", "größe", "日本", "k" * 100)
HEADERS: tuple[dict[str, object], ...] = (
    {},
    {"key": "value", "n": 1, "big": 2**40, "yes": True, "none": None},
    {"x-death": [{"queue": "q", "count": 3, "routing-keys": ["a", "b"]}], "key": b"bytes"},
    {"deep": {"deep": {"deep": {"deep": [1.5, [2, [3]]]}}}, "key": -1},
)


def seed_stream(rng: random.Random) -> bytes:
    return b"".join(seed_part(rng) for _ in range(rng.randint(1, 8)))


def seed_part(rng: random.Random) -> bytes:
    what, channel = rng.random(), rng.randint(1, 3)
    if what < 0.05:
        return HEARTBEAT
    if what < 0.25:
        tag = rng.choice((1, 300, 2**32, 2**63, 2**64 - 1))
        method = rng.choice((BasicAck(tag, True), BasicNack(tag, False, True), BasicReject(tag, False)))
        return settled(channel, method)
    if what < 0.35:
        return method_frame(rng.choice((0, channel)), rng.choice(list(METHODS.values()))())
    if what < 0.45:
        begun = method_frame(1, BasicPublish(routing_key="k"))
        return begun + rng.choice((header(5) + frame(3, 1, b"ab") + frame(3, 1, b"cde"), HEARTBEAT + header(0)))
    return publish(rng.randbytes(rng.randint(0, 300)), _properties(rng), channel, rng.choice(KEYS), rng.choice(KEYS))


def _properties(rng: random.Random) -> Properties:
    def some(value: object) -> object:
        return value if rng.random() < 0.5 else None

    values: dict[str, object] = {
        "content_type": some("text/plain"),
        "headers": some(table_of(rng.choice(HEADERS))),
        "delivery_mode": some(2),
        "priority": some(5),
        "correlation_id": some("c"),
        "reply_to": some("amq.rabbitmq.reply-to"),
        "expiration": some("60000"),
        "timestamp": some(1_700_000_000),
        "user_id": some("guest"),
        "cluster_id": some(""),
    }
    return Properties(**values)  # type: ignore[arg-type]  # of the types they have


def mutate_stream(rng: random.Random, data: bytes) -> bytes:
    """Up to four changes: a byte, a length, a cut, a piece left out or doubled."""
    out = bytearray(data)
    for _ in range(rng.randint(0, 4)):
        if len(out) < 12:
            break
        place, what = rng.randrange(len(out) - 8), rng.random()
        if what < 0.7:
            out[place] = rng.choice(TELLING_BYTES) if rng.random() < 0.8 else rng.randrange(256)
        elif what < 0.8:
            out[place : place + 4] = rng.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 4088, 4089)).to_bytes(4, "big")
        elif what < 0.9:
            del out[place:]
        elif what < 0.95:
            del out[place : place + rng.randint(1, 4)]
        else:
            out[place:place] = out[place : place + rng.randint(1, 60)]
    return bytes(out)


def try_stream(data: memoryview, limits: Limits) -> int:
    """Scan as a connection does and hold it against the codec; the reply code with which it ended, 0 for none."""
    scanner, at, plain = Scanner(ROOM), 0, bytes(data)
    while True:
        scanner.scan(data, at, len(data), limits.frame_max, limits.max_body, limits.assembling)
        seen = read_stream(plain[at:], limits, ROOM)
        assert (scanner.rows, scanner.why, scanner.reason) == (len(seen.rows), seen.why, seen.reason)
        assert (scanner.position, scanner.size) == (at + seen.position, seen.size)
        ask(data, scanner)
        if scanner.why == names.BAD_FRAME:
            assert fault_at(plain, scanner.position, len(plain), limits.frame_max).fault.reply == scanner.reason
        if scanner.why in (names.NEEDS_BYTES, names.BAD_FRAME):
            return scanner.reason
        at = scanner.position + (scanner.size if scanner.why == names.OTHER_FRAME else 0)


def try_regions(data: memoryview, limits: Limits, rng: random.Random) -> None:
    """Cut anywhere, with each piece a connection's: as if they were scanned one by one, and inside the buffer."""
    cuts = sorted(rng.choices(range(len(data) + 1), k=rng.randint(0, 5)))
    starts, stops = array("i", [0, *cuts]), array("i", [*cuts, len(data)])
    maxima, assembling = array("i", [limits.frame_max]) * len(starts), array("i", [limits.assembling]) * len(starts)
    together, alone = Scanner(ROOM), Scanner(ROOM)
    together.scan_regions(data, starts, stops, maxima, limits.max_body, assembling)
    ask(data, together)
    regions, whys = together.column(names.REGION), together.whys
    for region, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        alone.scan(data, start, stop, limits.frame_max, limits.max_body, limits.assembling)
        if whys[region] == names.ROWS_FULL:
            assert set(whys[region:]) <= {names.ROWS_FULL, names.NEEDS_BYTES}
            break
        assert regions.count(region) == alone.rows
        assert (whys[region], together.positions[region]) == (alone.why, alone.position)
        assert (together.sizes[region], together.reasons[region]) == (alone.size, alone.reason)


def ask(data: memoryview, scanner: Scanner) -> None:
    """Everything that is asked of rows afterwards."""
    picked = scanner.pick_rows(range(names.COLUMNS), array("i", _publishes(scanner)))
    count = len(picked[0])
    for row in range(count):
        cells = [column[row] for column in picked]
        order = [names.ROUTE_START, names.EXCHANGE_END, names.ROUTE_END, names.PROPS_START, names.HEADERS_START]
        order += [names.HEADERS_END, names.PROPS_END, names.BODY_START, names.BODY_END, names.ROW_END]
        places = [0, *[cells[number] for number in order], len(data)]
        assert places == sorted(places)
    out = [array("i", [0]) * count for _ in range(3)]
    amqp_tables.find(data, picked[names.HEADERS_START], picked[names.HEADERS_END], b"key", *out)
    amqp_tables.integers(data, out[0], out[1], array("q", [0]) * count)
    amqp_tables.decimal_texts(data, picked[names.EXPIRATION_AT], array("q", [0]) * count)
    columns = (names.ROUTE_START, names.ROUTE_END, names.PROPS_START, names.PROPS_END, names.BODY_START, names.BODY_END)
    spans = array("q", [picked[number][row] for row in range(count) for number in columns])
    amqp_deliver.returns(1, 312, b"NO_ROUTE", FRAME_MAX).encode(data, spans, data)


def _publishes(scanner: Scanner) -> list[int]:
    return [row for row, kind in enumerate(scanner.column(names.KIND)) if kind == names.PUBLISH]


def try_tables(data: memoryview, rng: random.Random) -> None:
    """Any part of it as a table, and as frames to be sent."""
    start = rng.randint(0, len(data))
    stop = rng.randint(start, len(data))
    amqp_tables.table_fault(data, start, stop)
    out = [array("i", [0]) for _ in range(3)]
    amqp_tables.find(data, array("i", [start]), array("i", [stop]), b"key", *out)
    words = array("q", [rng.choice((-1, 0, start, stop, len(data) + 1)) for _ in range(amqp_deliver.SPAN_WORDS)])
    try:
        amqp_deliver.deliveries(1, b"tag", FRAME_MAX).encode(data, words, data, 1)
    except InvalidArgument:
        return


def try_codec(data: bytes) -> None:
    """A server that reads all of it: it goes on, or ends with an error that it can tell."""
    decoder, assembly = Decoder(FRAME_MAX), Assembly(1 << 20, 1 << 20)
    connection = Connection(state=State.RUNNING)
    decoder.receive(data)
    try:
        while isinstance(one := decoder.next_frame(), Frame):
            received = assembly.take(one)
            if received is not None:
                connection.take(Sender.CLIENT, received.channel, received.method)
    except AmqpError as error:
        close = error.close()
        assert len(close.reply_text.encode()) <= 255
        assert method_frame(0, close)


def run(count: int, seed: int) -> Tally:
    rng, pages, tally = random.Random(seed), GuardedPages(), Tally()
    streams = [seed_stream(rng) for _ in range(SEEDS)]
    for number in range(count):
        mutant = mutate_stream(rng, rng.choice(streams))
        placed = pages.place(mutant, rng.random() < 0.7)
        limits = Limits(FRAME_MAX, rng.choice((100, 65_536)), rng.choice((0, 0, 0, 1, -1)))
        try:
            try_regions(placed, limits, rng)
            reason = try_stream(placed, limits)
            try_tables(placed, rng)
            try_codec(mutant)
        except Exception:
            print(f"failed at mutant {number} of --seed {seed}", file=sys.stderr)
            raise
        if reason:
            tally.refuse(str(reason))
        else:
            tally.accepted += 1
    return tally


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=0)
    arguments = options.parse_args()
    tally = run(arguments.count, arguments.seed)
    build_name = "compiled" if penstock.kernels.compiled() else "pure"
    reasons = ", ".join(f"{name}: {count}" for name, count in sorted(tally.by_reason.items()))
    print(f"{build_name} kernels: {tally.accepted} accepted, {tally.refused} refused ({reasons})")


if __name__ == "__main__":
    main()
