"""Rows of one partition, batch after batch: complete, or with an error that says what is missing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

import pyarrow as pa

from penstock.core.errors import NoSuchLog, NoSuchQueue, OffsetOutOfRange
from penstock.core.ports import Buffer
from penstock.log.arrow import table as arrow_table
from penstock.log.batch import HEADER_BYTES, Batch, next_offset, read_header
from penstock.log.cuts import LogCut
from penstock.log.outside import DirectoryReader
from penstock.tables.errors import BeyondEnd, Trimmed
from penstock.tables.rows import RowMaker

# Spark and Flight take batches of this size at full speed and ones of 1,000 at half: facts.md, bench/tables.
BATCH_ROWS = 10_000
# What is held of large rows, and of compressed batches once they are not: at least one batch, at most twice this.
PART_BYTES = 16 << 20
_READ_BYTES = 4 << 20

_COMPRESSION_AT = 30
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
        gathered = _Gathered(self._batch_rows)
        for part, size in self._parts():
            gathered.add(part, size)
            for stored in gathered.take_full():
                yield self._maker.rows(stored)
        for stored in gathered.take_all():
            yield self._maker.rows(stored)

    def _parts(self) -> Iterator[tuple[pa.Table, int]]:
        """Stored columns of a few batches at a time, with the bytes that they hold."""
        for batches in self._pieces():
            for part, size in _bounded(batches):
                stored = arrow_table(part, self._maker.stored, verify=False)
                yield self._within(part, stored), size

    def _pieces(self) -> Iterator[list[Buffer]]:
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
            offset = next_offset(found[-1])
            while found and read_header(found[-1]).base_offset >= self.stop:
                found.pop()
            yield found

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

    def _within(self, batches: list[Buffer], stored: pa.Table) -> pa.Table:
        """Without rows of the first and the last batch that lie outside."""
        skip = drop = 0
        if batches and read_header(batches[0]).base_offset < self.start:
            skip = bisect_left(Batch.parse(batches[0], verify=False).offsets(), self.start)
        if batches and next_offset(batches[-1]) > self.stop:
            last = Batch.parse(batches[-1], verify=False)
            drop = len(last) - bisect_left(last.offsets(), self.stop)
        return stored.slice(skip, max(0, stored.num_rows - skip - drop)) if skip or drop else stored


class _Gathered:
    """Parts until they make a batch. Small stored batches are joined, large ones are cut and not copied."""

    def __init__(self, batch_rows: int) -> None:
        self._batch_rows = batch_rows
        self._parts: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, part: pa.Table, size: int) -> None:
        self._parts.append(part)
        self._rows += part.num_rows
        self._bytes += size

    def take_full(self) -> Iterator[pa.RecordBatch]:
        """Whole batches; what is left waits for more, unless it is large."""
        if self._bytes >= PART_BYTES:
            yield from self.take_all()
        elif self._rows >= self._batch_rows:
            whole = pa.concat_tables(self._parts)
            full_rows = self._rows - self._rows % self._batch_rows
            rest = whole.slice(full_rows)
            self._parts, self._rows, self._bytes = [rest], rest.num_rows, rest.nbytes
            yield from _cut(whole.slice(0, full_rows), self._batch_rows)

    def take_all(self) -> Iterator[pa.RecordBatch]:
        parts, self._parts, self._rows, self._bytes = self._parts, [], 0, 0
        if parts:
            yield from _cut(pa.concat_tables(parts), self._batch_rows)


def _cut(whole: pa.Table, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for at in range(0, whole.num_rows, batch_rows):
        yield from whole.slice(at, batch_rows).combine_chunks().to_batches()


def _bounded(batches: list[Buffer]) -> Iterator[tuple[list[Buffer], int]]:
    """Neighbours of no more than PART_BYTES together once they are uncompressed, or one alone."""
    part: list[Buffer] = []
    part_bytes = 0
    for data in batches:
        size = _UINT32.unpack_from(data, HEADER_BYTES)[0] if data[_COMPRESSION_AT] else len(data)
        if part and part_bytes + size > PART_BYTES:
            yield part, part_bytes
            part, part_bytes = [], 0
        part.append(data)
        part_bytes += size
    if part:
        yield part, part_bytes
