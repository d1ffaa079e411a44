"""Mutated batches, frames and packets through the kernels, each placed against a page that must not be touched: a read
outside the buffer ends the process. `python -m tests.fuzz.kernels_fuzz --count 1000000 --seed 1`"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import random
import struct
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from tests.fuzz.packets import mutate_stream, seed_stream, some_limits, try_regions, try_stream
from tests.support.amqp091 import Native, Typed

import penstock.kernels
from penstock.core.errors import CorruptBatch, CorruptFrame
from penstock.core.types import Compression
from penstock.kernels import amqp_native, amqp_view
from penstock.kernels import batch as kernel
from penstock.kernels import headers as header_kernel
from penstock.kernels.crc import crc32c, first_bad
from penstock.kernels.frames import entries
from penstock.log.arrow import record_batch
from penstock.log.batch import HEADER_BYTES, MAX_BODY_BYTES, Batch, build, seal
from penstock.log.columns import Columns
from penstock.log.reading.joined import join
from penstock.queues.properties import decode_user_properties
from penstock.tables.rows import headers

PAGE = mmap.PAGESIZE
ROOM_PAGES = 4
PROT_NONE = 0
TELLING_INT32 = (0, 1, -1, 2, 7, 8, 2**31 - 1, -(2**31), 2**31 - 8, 1 << 24, (1 << 24) + 1, 1 << 30)


class GuardedPages:
    """Memory between two forbidden pages; a buffer put there touches the one before or the one behind it."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, (ROOM_PAGES + 2) * PAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (0, ROOM_PAGES + 1):
            if libc.mprotect(ctypes.c_void_p(address + page * PAGE), ctypes.c_size_t(PAGE), PROT_NONE):
                raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, data: bytes, at_end: bool) -> memoryview:
        """A view of a copy of `data`, valid until the next call."""
        start = (ROOM_PAGES + 1) * PAGE - len(data) if at_end else PAGE
        view = memoryview(self._map)[start : start + len(data)]
        view[:] = data
        return view


@dataclass(slots=True)
class Tally:
    accepted: int = 0
    refused: int = 0
    by_reason: dict[str, int] = field(default_factory=dict)

    def refuse(self, reason: str) -> None:
        self.refused += 1
        self.by_reason[reason] = self.by_reason.get(reason, 0) + 1


def seed_batch(rng: random.Random) -> bytes:
    count = rng.randint(1, 9)

    def column(longest: int) -> list[bytes] | None:
        return [rng.randbytes(rng.randint(0, longest)) for _ in range(count)] if rng.random() < 0.5 else None

    columns = Columns.of(
        [rng.randbytes(rng.randint(0, 30)) for _ in range(count)],
        keys=column(12),
        topics=[rng.choice([b"a", b"a/b", b"c"]) for _ in range(count)] if rng.random() < 0.5 else None,
        properties=column(20),
        native=column(9),
        expiry=[rng.randint(0, 2**63 - 1) for _ in range(count)] if rng.random() < 0.3 else None,
    )
    times = array("i", sorted(rng.choices(range(100), k=count))) if rng.random() < 0.3 else None
    offsets = array("i", sorted(rng.sample(range(100), count + 1))) if rng.random() < 0.3 else None
    batch = build(columns, rng.choice(list(Compression)), times, offsets)
    seal(batch, rng.randint(0, 2**40), rng.randint(0, 9), 1000, 1000 + (times[-1] if times else 0))
    return bytes(batch)


def seed_entries(rng: random.Random) -> bytes:
    out = bytearray()
    for _ in range(rng.randint(1, 6)):
        data = rng.randbytes(rng.randint(0, 60))
        out += struct.pack("<QIB3x", rng.randint(0, 2**63 - 1), len(data), rng.choice([1, 2]))
        out += data + bytes(-len(data) % 8)
    return bytes(out)


def seed_native(rng: random.Random) -> bytes:
    def text() -> bytes | None:
        return rng.randbytes(rng.randint(0, 9)) if rng.random() < 0.5 else None

    inner = Typed("F", [(b"n", Typed("d", 1.5)), (b"s", Typed("S", b"\0x"))])
    values = [Typed("S", b"text"), Typed("I", -1), Typed("x", b"\xff"), Typed("A", [Typed("V"), inner]), inner]
    headers = [(rng.choice([b"a", b"x-payload-format", b""]), rng.choice(values)) for _ in range(rng.randint(0, 5))]
    return Native(text(), text(), headers, 2, 0, text(), text(), text(), text(), 5, text(), text()).stored()


def mutate(rng: random.Random, data: bytes, first: int) -> bytes:
    """One to four changes behind `first`: a byte, a telling int32 at a multiple of 4, a cut, a repeated piece."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if len(out) < first + 16:
            break
        place = rng.randrange(first, len(out) - 8)
        what = rng.random()
        if what < 0.4:
            out[place] = rng.randrange(256)
        elif what < 0.9:
            struct.pack_into("<i", out, place & -4, rng.choice(TELLING_INT32))
        elif what < 0.95:
            del out[place & -8 :]
        else:
            out += out[place & -8 : (place & -8) + 64]
    return bytes(out)


def with_right_lengths(rng: random.Random, batch: bytes) -> bytes:
    """Most mutants get a header that fits, so that they reach the columns; flags and count change now and then."""
    out = bytearray(batch)
    if len(out) >= HEADER_BYTES and rng.random() < 0.9:
        del out[len(out) & -8 :]
        struct.pack_into("<I", out, 16, len(out) - HEADER_BYTES)
        if rng.random() < 0.1:
            out[28] = rng.randrange(256)
        if rng.random() < 0.1:
            struct.pack_into("<I", out, 20, rng.choice((0, 1, 2, 10, 100, MAX_BODY_BYTES // 4, 2**32 - 1)))
        struct.pack_into("<I", out, 4, crc32c(out, 0, 8))
    return bytes(out)


def try_batch(data: memoryview) -> None:
    found = array("q", bytes(400))
    first_bad(data, found, kernel.scan(data, 0, len(data), found))
    batch = Batch.parse(data)
    rows = list(batch)
    picked = batch.columns()
    assert [row.value for row in rows] == [
        bytes(picked.source[a:b]) for a, b in zip(picked.value.starts, picked.value.ends, strict=True)
    ]


def try_arrow(data: memoryview) -> None:
    """Every value is looked at; a mutant is taken or refused just as by Batch.parse."""
    try:
        rows = list(Batch.parse(data))
    except CorruptBatch:
        rows = None
    found = record_batch(data)
    assert rows is not None
    found.validate(full=True)
    assert found["offset"].to_pylist() == [row.offset for row in rows]
    assert found["expiry"].to_pylist() == [row.expiry for row in rows]
    for name in ("key", "value", "topic", "properties", "native"):
        assert found[name].to_pylist() == [getattr(row, name) or b"" for row in rows]


def without_dates(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A mutant's timestamp may be far beyond what Python's dates hold."""
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def try_joined(data: memoryview) -> None:
    """Twice the same, as one; its properties taken apart, whatever they are."""
    once_wrapped = without_dates(record_batch(data)).to_pylist()
    found = join([data, data])
    found.validate(full=True)
    assert without_dates(found).to_pylist() == once_wrapped + once_wrapped
    headers(found["properties"]).validate(full=True)


def try_properties(data: memoryview) -> None:
    """In one row, right against the page that must not be touched."""
    places, sizes = memoryview(array("i", [0, len(data)])), array("q", [0, 0])
    assert header_kernel.measure(data, places, sizes) >= 0
    assert sizes[1] <= len(data)


def try_native(data: memoryview) -> None:
    """As a row's native properties, and as PROPERTIES to be told to AMQP: both make what can be read."""
    starts, ends, made = array("i", [0]), array("i", [len(data)]), array("i", [0, 0])
    view = amqp_view.view(b"", None, None, data, starts, ends, made)
    decode_user_properties(bytes(view))
    told = b"\x91" + amqp_native.natives(data, starts, ends, None, None, None, None, None, made)
    assert amqp_view.wrong(told, starts, array("i", [len(told)])) == -1


def try_body(data: memoryview, rng: random.Random) -> None:
    """The columns alone, with flags and count that need not fit them."""
    layout = array("q", bytes(128))
    kernel.lay_out(data, 0, len(data), rng.choice((0, 1, 2, 3, 9, 2**32 - 1)), rng.randrange(256), layout)


def try_entries(data: memoryview, rng: random.Random) -> None:
    out = array("q", bytes(32 * rng.randint(0, 8)))
    for row in range(entries(data, 0, len(data), out)):
        assert 0 <= out[4 * row + 2] <= out[4 * row + 3] <= len(data)


def once_packets(rng: random.Random, pages: GuardedPages, streams: list[tuple[int, bytes]], tally: Tally) -> None:
    version, stream = rng.choice(streams)
    placed = pages.place(mutate_stream(rng, stream), rng.random() < 0.7)
    limits = some_limits(rng, version)
    try_regions(placed, limits, rng)
    if reason := try_stream(placed, limits):
        tally.refuse(f"packet {reason:#x}")
    else:
        tally.accepted += 1


def once(
    rng: random.Random,
    pages: GuardedPages,
    seeds: list[bytes],
    natives: list[bytes],
    tables: list[bytes],
    tally: Tally,
) -> None:
    at_end = rng.random() < 0.7
    mutant = with_right_lengths(rng, mutate(rng, rng.choice(seeds), 8 if rng.random() < 0.2 else HEADER_BYTES))
    attempts: list[tuple[bytes, Callable[[memoryview], None]]] = [
        (mutant, try_batch),
        (mutant, try_arrow),
        (mutant, try_joined),
        (mutant[HEADER_BYTES:], try_properties),
        (mutate(rng, rng.choice(natives), 0), try_native),
        (mutant[HEADER_BYTES:], try_native),
        (mutant[HEADER_BYTES:], lambda view: try_body(view, rng)),
        (mutate(rng, rng.choice(tables), 0), lambda view: try_entries(view, rng)),
    ]
    for data, attempt in attempts:
        try:
            attempt(pages.place(data, at_end))
            tally.accepted += 1
        except (CorruptBatch, CorruptFrame) as fault:
            tally.refuse(fault.reason)


def run(count: int, seed: int) -> Tally:
    rng, pages, tally = random.Random(seed), GuardedPages(), Tally()
    seeds = [seed_batch(rng) for _ in range(200)]
    natives = [seed_native(rng) for _ in range(50)]
    tables = [seed_entries(rng) for _ in range(50)]
    streams = [seed_stream(rng) for _ in range(200)]
    for number in range(count):
        try:
            once(rng, pages, seeds, natives, tables, tally)
            once_packets(rng, pages, streams, tally)
        except Exception:
            print(f"failed at mutant {number} of --seed {seed}", file=sys.stderr)
            raise
    return tally


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=0)
    arguments = options.parse_args()
    tally = run(arguments.count, arguments.seed)
    build_name = "compiled" if penstock.kernels.compiled() else "pure"
    print(
        f"{build_name} kernels: {tally.accepted} accepted, {tally.refused} refused for {len(tally.by_reason)} reasons"
    )


if __name__ == "__main__":
    main()
