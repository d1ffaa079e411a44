"""Mutated MQTT packets for kernels_fuzz: what is scanned out of them lies inside the buffer, and what is asked of the
rows afterwards stays there too."""

from __future__ import annotations

import random
from array import array

from tests.support.mqtt_wire import Limits, acknowledgement, publish, read_stream, short, string, user_property

from penstock.kernels import mqtt_columns as names
from penstock.kernels import mqtt_rows
from penstock.kernels.mqtt_scan import Scanner

ROOM = 12
TELLING_BYTES = (0, 1, 2, 3, 8, 9, 0x0B, 0x23, 0x26, 0x2B, 0x30, 0x32, 0x40, 0x7F, 0x80, 0x81, 0xC3, 0xED, 0xF4, 0xFF)
TOPICS = (b"a", b"devices/cellar/temperature", "größe/°C".encode(), "日本/🌡".encode())


def seed_stream(rng: random.Random) -> tuple[int, bytes]:
    """Version and bytes."""
    version = rng.choice((4, 5))
    return version, b"".join(seed_packet(rng, version) for _ in range(rng.randint(1, 10)))


def seed_packet(rng: random.Random, version: int) -> bytes:
    what, packet_id = rng.random(), rng.randint(1, 65535)
    if what < 0.1:
        return b"\xc0\x00"
    if what < 0.3:
        return acknowledgement(rng.randint(4, 7), packet_id)
    if what < 0.4 and version == 5:
        return acknowledgement(4, packet_id, 0x10, user_property(b"k", b"v") + b"\x1f" + string(b"none"))
    payload = rng.randbytes(rng.randint(0, 200))
    carried = _properties(rng) if version == 5 else b""
    flags = rng.choice((0, 1, 2, 4, 0xA))
    return publish(version, rng.choice(TOPICS), payload, flags=flags, packet_id=packet_id, properties=carried)


def _properties(rng: random.Random) -> bytes:
    every = [
        b"\x01\x01",
        b"\x02" + rng.randbytes(4),
        b"\x03" + string(b"text/plain"),
        b"\x08" + string(rng.choice(TOPICS)),
        b"\x09" + string(rng.randbytes(rng.randint(0, 9))),
        b"\x23" + short(rng.randint(1, 20)),
        user_property(b"key", rng.choice(TOPICS)),
        user_property(b"key", b"v"),
    ]
    return b"".join(rng.sample(every, rng.randint(0, len(every))))


def mutate_stream(rng: random.Random, data: bytes) -> bytes:
    """Up to four changes: a byte, a cut, a piece left out or doubled."""
    out = bytearray(data)
    for _ in range(rng.randint(0, 4)):
        if not out:
            break
        place, what = rng.randrange(len(out)), rng.random()
        if what < 0.8:
            out[place] = rng.choice(TELLING_BYTES) if rng.random() < 0.8 else rng.randrange(256)
        elif what < 0.9:
            del out[place:]
        elif what < 0.95:
            del out[place : place + rng.randint(1, 4)]
        else:
            out[place:place] = out[place : place + rng.randint(1, 30)]
    return bytes(out)


def some_limits(rng: random.Random, version: int) -> Limits:
    """Mostly such that a packet reaches the columns."""
    if rng.random() < 0.8:
        return Limits(version, alias=65535)
    return Limits(rng.choice((4, 5)), rng.choice((80, 300)), rng.choice((0, 15)), rng.choice((0, 1, 2)))


def try_stream(data: memoryview, limits: Limits) -> int:
    """Scan as a connection does and hold it against the reference; the reason why it ended, 0 for none."""
    scanner, at, plain = Scanner(ROOM), 0, bytes(data)
    while True:
        scanner.scan(data, at, len(data), limits.version, limits.packet_bytes, limits.alias, limits.qos, limits.retain)
        seen = read_stream(plain[at:], limits, ROOM)
        assert (scanner.rows, scanner.why, scanner.reason) == (len(seen.rows), seen.why, seen.reason)
        assert (scanner.position, scanner.size) == (at + seen.position, seen.size)
        _ask(data, scanner)
        if scanner.why in (names.NEEDS_BYTES, names.BAD_PACKET):
            return scanner.reason
        at = scanner.position + (scanner.size if scanner.why == names.OTHER_PACKET else 0)


def try_regions(data: memoryview, limits: Limits, rng: random.Random) -> None:
    """Cut anywhere, with each piece a connection's: as if they were scanned one by one, and inside the buffer."""
    cuts = sorted(rng.choices(range(len(data) + 1), k=rng.randint(0, 5)))
    starts, stops = array("i", [0, *cuts]), array("i", [*cuts, len(data)])
    versions, aliases = array("i", [limits.version]) * len(starts), array("i", [limits.alias]) * len(starts)
    together, alone = Scanner(ROOM), Scanner(ROOM)
    together.scan_regions(data, starts, stops, versions, limits.packet_bytes, aliases, limits.qos, limits.retain)
    _ask(data, together)
    regions, whys = together.column(names.REGION), together.whys
    for region, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        alone.scan(data, start, stop, limits.version, limits.packet_bytes, limits.alias, limits.qos, limits.retain)
        if whys[region] == names.ROWS_FULL:
            assert set(whys[region:]) <= {names.ROWS_FULL, names.NEEDS_BYTES}
            break
        assert regions.count(region) == alone.rows
        assert (whys[region], together.positions[region]) == (alone.why, alone.position)
        assert (together.sizes[region], together.reasons[region]) == (alone.size, alone.reason)


def _ask(data: memoryview, scanner: Scanner) -> None:
    rows = scanner.rows
    topics, topic_ends = scanner.column(names.TOPIC_START), scanner.column(names.TOPIC_END)
    starts, ends = scanner.column(names.PROPERTIES_START), scanner.column(names.PROPERTIES_END)
    payloads, payload_ends = scanner.column(names.PAYLOAD_START), scanner.column(names.PAYLOAD_END)
    for a, b, c, d, e, f in zip(topics, topic_ends, starts, ends, payloads, payload_ends, strict=True):
        assert 0 <= a <= b <= c <= d <= e <= f <= len(data)
    numbers, firsts = array("i", [0]) * rows, array("i", [0]) * rows
    present, expiry_at = scanner.column(names.PRESENT), scanner.column(names.EXPIRY_AT)
    known, table = array("i", [-1]) * 65536, array("i", [rows]) * (6 * rows)
    mqtt_rows.group_topics(data, topics, topic_ends, scanner.column(names.ALIAS), known, rows, table, numbers, firsts)
    mqtt_rows.find_user_property(data, *_of_publishes(scanner, starts, ends), b"key", numbers, firsts)
    mqtt_rows.expiry_times(data, present, expiry_at, 0, array("q", [0]) * rows)
    mqtt_rows.drop_hop_by_hop(data, present, expiry_at, scanner.column(names.ALIAS_AT), starts)


def _of_publishes(scanner: Scanner, starts: array[int], ends: array[int]) -> tuple[array[int], array[int]]:
    rows = [row for row, head in enumerate(scanner.column(names.HEAD)) if head >> 4 == names.PUBLISH]
    return array("i", [starts[row] for row in rows]), array("i", [ends[row] for row in rows])
