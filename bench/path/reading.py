"""Reading a log to Arrow, checksums verified and every column summed, against memcpy and against rows in Python."""

from __future__ import annotations

import asyncio
import mmap
import operator
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bench.measure import Benchmark, Comparison, Run, Series, Target, interleaved, seconds
from bench.path.load import append_batches, full_columns
from bench.path.raw import drop_from_cache
from bench.process import BenchmarkFailed
from penstock.core.ports import Buffer
from penstock.core.types import LogName
from penstock.log.arrow import table
from penstock.log.batch import next_offset
from penstock.log.names import log_name
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.shard import Shard

_READ_BYTES = 8 << 20
_LOG = log_name("read")
# Rows in Python are that slow that a part of a smaller log, all of it sealed, has to do. The target is held against
# batches as `append` writes them; a bulk load makes larger ones.
_ROW_BATCHES = (500, 5000)
_TARGET_ROWS = 500
_ROW_RECORDS, _ROW_BYTES = 50_000, 12 << 20
# A pass over the part takes a ms by Arrow and 60 by rows; both are repeated for this long. The first one after others
# finds cold caches and is not counted.
_PART_SECONDS = 0.1

_HEADER = struct.Struct("<4sIQIIIHBBqqQHHI")
_INT32, _INT64 = struct.Struct("<i"), struct.Struct("<q")


def run(settings: Run) -> list[Comparison]:
    directory, count = settings.directory / "data", settings.size(4000, 80)
    asyncio.run(_fill(directory, count))
    cold = interleaved(
        settings.rounds, {"arrow": partial(_cold_arrow, directory), "memcpy": partial(_cold_memcpy, directory)}
    )
    with asyncio.Runner() as runner, _opened(runner, directory) as (shard, log):
        whole = _stored_bytes(runner, shard, log)
        calls: dict[str, Callable[[], float]] = {
            "arrow": lambda: seconds(lambda: runner.run(_sum_log(shard, log))),
            "memcpy": partial(_memcpy_seconds, whole, bytearray(whole)),
            "memcpy, cached": partial(_memcpy_seconds, whole, bytearray(_READ_BYTES)),
        }
        warm = interleaved(settings.rounds, calls)
        rows = [_against_rows(settings, shard, records) for records in _ROW_BATCHES]
    return [*_comparisons(cold, warm, len(whole)), *rows]


def _against_rows(settings: Run, shard: Shard, records: int) -> Comparison:
    """Batches of so many records, read to Arrow and by rows."""
    log = shard.log(_rows_log(records))
    part = partial(shard.reader.read, log, 0, _ROW_BYTES)
    found = part()
    _check_sums(found)
    samples = interleaved(
        settings.rounds,
        {
            "arrow": lambda: _part_seconds(part, _sums_by_arrow),
            "rows": lambda: _part_seconds(part, _sums_by_rows),
        },
    )
    size = sum(len(data) for data in found)
    return Comparison(
        Series(f"to Arrow, warm, batches of {records} records", samples["arrow"], bytes=size),
        Series("rows decoded in Python", samples["rows"], bytes=size),
        target=Target(">=", 50) if records == _TARGET_ROWS else None,
    )


def _rows_log(records: int) -> LogName:
    return log_name("rows", str(records))


def _comparisons(cold: dict[str, tuple[float, ...]], warm: dict[str, tuple[float, ...]], size: int) -> list[Comparison]:
    def series(name: str, samples: tuple[float, ...]) -> Series:
        return Series(name, samples, bytes=size)

    return [
        Comparison(
            series("to Arrow, warm", warm["arrow"]),
            series("memcpy, in memory", warm["memcpy"]),
            target=Target(">=", 0.2),
        ),
        Comparison(
            series("to Arrow, warm", warm["arrow"]),
            series("memcpy into one buffer of 8 MiB", warm["memcpy, cached"]),
        ),
        Comparison(
            series("to Arrow, cold", cold["arrow"]),
            series("memcpy out of mapped files, as cold", cold["memcpy"]),
            target=Target(">=", 0.2),
        ),
    ]


async def _fill(directory: Path, count: int) -> None:
    async with await Shard.open(directory) as shard:
        log = await shard.create(_LOG)
        await append_batches(shard, log, full_columns(), count)
        for records in _ROW_BATCHES:
            log = await shard.create(_rows_log(records), LogSettings(segment_bytes=_ROW_BYTES + (2 << 20)))
            await append_batches(shard, log, full_columns(records), _ROW_RECORDS // records)


@contextmanager
def _opened(runner: asyncio.Runner, directory: Path) -> Iterator[tuple[Shard, Log]]:
    shard = runner.run(Shard.open(directory))
    try:
        yield shard, shard.log(_LOG)
    finally:
        runner.run(shard.close())


async def _sum_log(shard: Shard, log: Log) -> list[int]:
    sums, offset = [0] * 8, 0
    while offset < log.end:
        found = await shard.read(log, offset, _READ_BYTES)
        sums = list(map(operator.add, sums, _sums_by_arrow(found)))
        offset = next_offset(found[-1])
    return sums


def _part_seconds(part: Callable[[], list[Buffer]], sums: Callable[[list[Buffer]], list[int]]) -> float:
    sums(part())
    passes, begun = 0, time.perf_counter()
    while (taken := time.perf_counter() - begun) < _PART_SECONDS:
        sums(part())
        passes += 1
    return taken / passes


def _sums_by_arrow(found: list[Buffer]) -> list[int]:
    """Of each column: its sum, or the sum of the lengths where it holds bytes. Reading from files has verified the
    checksum, and so seen every byte, already."""
    return [_column_sum(column) for column in table(found, verify=False).columns]


def _column_sum(column: pa.ChunkedArray) -> int:
    if pa.types.is_dictionary(column.type):
        whole = column.combine_chunks()
        numbers = pc.take(pc.binary_length(whole.dictionary), whole.indices, boundscheck=False)
    elif pa.types.is_binary(column.type):
        numbers = pc.binary_length(column)
    else:
        numbers = column.cast(pa.int64())
    return int(pc.sum(numbers).as_py())


def _sums_by_rows(found: list[Buffer]) -> list[int]:
    """The same over a tuple a record, as a consumer in plain Python would; without the checksum."""
    sums = [0] * 8
    for data in found:
        for row in _rows(data):
            sums[0] += row[0]
            sums[1] += row[1]
            sums[2] += len(row[2])
            sums[3] += len(row[3])
            sums[4] += len(row[4])
            sums[5] += len(row[5])
            sums[6] += len(row[6])
            sums[7] += row[7]
    return sums


Row = tuple[int, int, bytes, bytes, bytes, bytes, bytes, int]


def _rows(data: Buffer) -> Iterator[Row]:
    """offset, timestamp, key, value, topic, properties, native, expiry of the batches that full_columns() makes."""
    header = _HEADER.unpack_from(data)
    base, count, timestamp = header[2], header[4], header[9]
    at = _HEADER.size
    expiries, at = at, at + 8 * count
    topics, at = at, at + (4 * count + 7 & ~7)
    dictionary, at = _entries(data, at + 8, _INT32.unpack_from(data, at)[0])
    keys, at = _entries(data, at, count)
    properties, at = _entries(data, at, count)
    natives, at = _entries(data, at, count)
    values, at = _entries(data, at, count)
    for i in range(count):
        topic = dictionary[_INT32.unpack_from(data, topics + 4 * i)[0]]
        expiry = _INT64.unpack_from(data, expiries + 8 * i)[0]
        yield base + i, timestamp, keys[i], values[i], topic, properties[i], natives[i], expiry


def _entries(data: Buffer, at: int, count: int) -> tuple[list[bytes], int]:
    """The entries of a variable-length column and the position behind it."""
    first = at + (4 * count + 4 + 7 & ~7)
    entries, start = [], 0
    for i in range(1, count + 1):
        end = _INT32.unpack_from(data, at + 4 * i)[0]
        entries.append(bytes(data[first + start : first + end]))
        start = end
    return entries, first + (start + 7 & ~7)


def _check_sums(found: list[Buffer]) -> None:
    by_rows, by_arrow = _sums_by_rows(found), _sums_by_arrow(found)
    if by_rows != by_arrow:
        raise BenchmarkFailed(f"rows give {by_rows}, Arrow gives {by_arrow}")


def _cold_arrow(directory: Path) -> float:
    drop_from_cache(directory)
    with asyncio.Runner() as runner, _opened(runner, directory) as (shard, log):
        return seconds(lambda: runner.run(_sum_log(shard, log)))


def _cold_memcpy(directory: Path) -> float:
    paths = _segments(directory)
    drop_from_cache(directory)
    room = memoryview(bytearray(max(path.stat().st_size for path in paths)))
    begun = time.perf_counter()
    for path in paths:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as whole:
            room[: len(whole)] = memoryview(whole)
    return time.perf_counter() - begun


def _segments(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*.seg") if _LOG in path.parent.name)


def _stored_bytes(runner: asyncio.Runner, shard: Shard, log: Log) -> bytearray:
    whole, offset = bytearray(), 0
    while offset < log.end:
        for data in runner.run(shard.read(log, offset, _READ_BYTES)):
            whole += data
            offset += _HEADER.unpack_from(data)[4]
    return whole


def _memcpy_seconds(source: bytearray, room: bytearray) -> float:
    """Into memory that has been written to before, over and over where it is smaller than the source."""
    into, whole = memoryview(room), memoryview(source)
    begun = time.perf_counter()
    for at in range(0, len(whole), len(into)):
        piece = whole[at : at + len(into)]
        into[: len(piece)] = piece
    return time.perf_counter() - begun


BENCHMARK = Benchmark("reading", "a log of all columns read to Arrow, checksums verified, every column summed", run)
