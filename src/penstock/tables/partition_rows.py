"""Rows of one partition, batch after batch: complete, or with an error that says what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

import pyarrow as pa

from penstock.core.errors import NoSuchLog, NoSuchQueue, OffsetOutOfRange
from penstock.core.ports import Buffer
from penstock.log.arrow import record_batch
from penstock.log.batch import HEADER_BYTES, below_offset, from_offset, next_offset, read_header
from penstock.log.outside import DirectoryReader
from penstock.log.reading.cuts import LogCut
from penstock.log.reading.joined import join
from penstock.log.view import has_native, viewed_places
from penstock.tables.errors import BeyondEnd, Trimmed
from penstock.tables.rows import RowMaker

# Spark and Flight take batches of this size at full speed and ones of 1,000 at half: facts.md, bench/tables.
BATCH_ROWS = 10_000
# What is held of large rows, and of compressed batches once they are not: one batch, or neighbours of this together.
GROUP_BYTES = 16 << 20
_READ_BYTES = 4 << 20

_COUNT_AND_COMPRESSION = Struct("<20xI6xB")
_UINT32 = Struct("<I")


@dataclass(frozen=True, slots=True)
class PartitionSource:
    """Where a reading gets its batches; `number` None: nothing was put into this partition yet."""

    reader: DirectoryReader
    number: int | None
    queue: str
    partition: int

    def cut(self) -> LogCut | None:
        """NoSuchQueue if it was deleted meanwhile."""
        try:
            return None if self.number is None else self.reader.cut(self.number)
        except NoSuchLog:
            raise NoSuchQueue(self.queue) from None

    def batches(self, offset: int) -> list[Buffer]:
        """Some from the one that holds or follows `offset` on, none at the end. Trimmed below the start."""
        if self.number is None:
            return []
        try:
            return self.reader.read(self.number, offset, _READ_BYTES)
        except OffsetOutOfRange as error:
            raise Trimmed(self.queue, self.partition, offset, error.start) from None
        except NoSuchLog:
            raise NoSuchQueue(self.queue) from None

    def beyond(self, stop: int, end: int) -> BeyondEnd:
        return BeyondEnd(self.queue, self.partition, stop, end)


class Reading(Iterator[pa.RecordBatch]):
    """Batches of at most `batch_rows` rows, of about so many where there are as many and they are not large."""

    def __init__(
        self, source: PartitionSource, maker: RowMaker, start: int, stop: int, batch_rows: int, skip_trimmed: bool
    ) -> None:
        self.schema = maker.schema
        self.start, self.stop = start, stop
        self.skipped: list[tuple[int, int]] = []
        """ranges of offsets that were gone, where that is no error"""
        self._source, self._maker, self._batch_rows = source, maker, batch_rows
        self._skip_trimmed = skip_trimmed
        self._batches = self._read()

    @property
    def skipped_offsets(self) -> int:
        return sum(stop - start for start, stop in self.skipped)

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def _read(self) -> Iterator[pa.RecordBatch]:
        for group in self._groups():
            stored = _columns(group, self._maker.stored)
            if self._maker.lacks_properties(stored):
                stored = stored.append_column("properties", _columns(group, ["properties"]).column(0))
            for at in range(0, stored.num_rows, self._batch_rows):
                yield self._maker.rows(stored.slice(at, self._batch_rows))

    def _groups(self) -> Iterator[list[Buffer]]:
        """Neighbours of at most so many rows and bytes together, or one alone."""
        group: list[Buffer] = []
        group_rows = group_bytes = 0
        for data in self._stored_batches():
            rows, size = _rows_and_bytes(data)
            if group and (group_rows + rows > self._batch_rows or group_bytes + size > GROUP_BYTES):
                yield group
                group, group_rows, group_bytes = [], 0, 0
            group.append(data)
            group_rows += rows
            group_bytes += size
        if group:
            yield group

    def _stored_batches(self) -> Iterator[Buffer]:
        """Checked batches with rows in start..stop."""
        offset = self.start
        while offset < self.stop:
            try:
                found = self._batches_from(offset)
            except Trimmed as trimmed:
                if not self._skip_trimmed:
                    raise Trimmed(trimmed.queue, trimmed.partition, offset, min(trimmed.start, self.stop)) from None
                self.skipped.append((offset, min(trimmed.start, self.stop)))
                offset = trimmed.start
                continue
            if not found:
                return
            following = next_offset(found[-1])
            yield from _within(found, offset, self.stop)
            offset = following

    def _batches_from(self, offset: int) -> list[Buffer]:
        """Empty if there is none before `stop`, which is told from a broker that died or starts just now."""
        while True:
            before = self._source.cut()
            if before is None or before.end < self.stop:
                raise self._source.beyond(self.stop, 0 if before is None else before.end)
            if found := self._source.batches(offset):
                return found
            after = self._source.cut()
            if after is not None and after.end >= self.stop and after.start_number == before.start_number:
                return []


def _columns(group: list[Buffer], names: list[str]) -> pa.RecordBatch:
    """Of log/arrow.py, with properties as readers see them."""
    if "properties" not in names or not any(map(has_native, group)):
        return _stored(group, names)
    stored = _stored(group, names if "native" in names else [*names, "native"])
    at = names.index("properties")
    shown = _shown(stored.column(at), stored.column("native"))
    return pa.RecordBatch.from_arrays(
        [shown if number == at else stored.column(number) for number in range(len(names))],
        schema=pa.schema([stored.schema.field(number) for number in range(len(names))]),
    )


def _stored(group: list[Buffer], names: list[str]) -> pa.RecordBatch:
    return record_batch(group[0], names, verify=False) if len(group) == 1 else join(group, names)


def _shown(properties: pa.Array, native: pa.Array) -> pa.Array:
    ends, data = viewed_places(*_bytes_and_places(properties), *_bytes_and_places(native))
    return pa.Array.from_buffers(pa.binary(), len(native), [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _bytes_and_places(column: pa.Array) -> tuple[Buffer, memoryview]:
    """Of one that is no part of another."""
    _, places_buffer, data = column.buffers()
    places = memoryview(places_buffer).cast("b").cast("i")[: len(column) + 1]
    return b"" if data is None else memoryview(data).cast("B"), places


def _within(batches: list[Buffer], start: int, stop: int) -> list[Buffer]:
    """Only the first may hold offsets below `start`, and only the last ones any from `stop` on."""
    while batches and read_header(batches[-1]).base_offset >= stop:
        batches.pop()
    if batches and next_offset(batches[-1]) > stop:
        batches[-1] = below_offset(batches[-1], stop)
    if batches and read_header(batches[0]).base_offset < start:
        batches[0] = from_offset(batches[0], start)
    return batches


def _rows_and_bytes(data: Buffer) -> tuple[int, int]:
    """Uncompressed. One is always counted: of batches without rows there may be many."""
    count, compression = _COUNT_AND_COMPRESSION.unpack_from(data)
    return count or 1, _UINT32.unpack_from(data, HEADER_BYTES)[0] if compression else len(data)
