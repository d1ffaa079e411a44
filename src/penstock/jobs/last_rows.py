"""Which row of a partition is the last one of its key: keys are read first, whole rows only of what stays."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels import hashing

KEY_SCHEMA = pa.schema([("key", pa.binary()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])
KEY_COLUMNS = tuple(KEY_SCHEMA.names)
# Keys are put together when so many rows have come: fewer hash tables are made, and what waits takes some 50 MB.
_CHUNK_ROWS = 1 << 20
# Rows that are read for nothing where reading two ranges instead of one would cost more.
_SKIPPED_ROWS = 50_000


class LastRows:
    """Takes the keys of a partition in the order of their offsets; holds one row a key."""

    def __init__(self) -> None:
        self.unkeyed = 0
        self._chunks: list[pa.Table] = []
        self._rows = self._settled_rows = 0

    def take(self, keys: pa.RecordBatch) -> None:
        """A batch of KEY_COLUMNS."""
        column = keys.column("key")
        if column.null_count:
            self.unkeyed += column.null_count
            keys = keys.filter(column.is_valid())
        self._chunks.append(pa.Table.from_batches([keys]))
        self._rows += keys.num_rows
        # What was put together already is gone over again each time: not before as much has come once more.
        if self._rows > max(_CHUNK_ROWS, 2 * self._settled_rows):
            self._put_together()

    def result(self) -> pa.Table:
        """KEY_COLUMNS of the last row of each key, in no order."""
        self._put_together()
        return self._chunks[0] if self._chunks else KEY_SCHEMA.empty_table()

    def _put_together(self) -> None:
        if not self._chunks:
            return
        grouped = pa.concat_tables(self._chunks).group_by("key", use_threads=False)
        found = grouped.aggregate([("offset", "max"), ("timestamp", "max")])
        self._chunks = [found.rename_columns(KEY_COLUMNS).cast(KEY_SCHEMA).combine_chunks()]
        self._rows = self._settled_rows = found.num_rows


def homes(keys: pa.Table, partitions: int) -> pa.ChunkedArray:
    """The partition that each key belongs to now."""
    found: list[pa.Array] = []
    for chunk in keys.column("key").chunks:
        _, places, data = chunk.buffers()
        ends = array("i", memoryview(places).cast("b").cast("i")[chunk.offset : chunk.offset + len(chunk) + 1])
        numbers = array("i", bytes(4 * len(chunk)))
        source = b"" if data is None else memoryview(data).cast("B")
        hashing.partitions(source, ends[:-1], ends[1:], partitions, numbers)
        found.append(pa.Array.from_buffers(pa.int32(), len(chunk), [None, pa.py_buffer(numbers)]))
    return pa.chunked_array(found, pa.int32())


class PickedRows:
    """Some rows of a partition, by their offsets."""

    def __init__(self, offsets: pa.ChunkedArray) -> None:
        chunks = offsets.take(pc.sort_indices(offsets)).combine_chunks()
        self.offsets: pa.Array = chunks.chunk(0) if isinstance(chunks, pa.ChunkedArray) else chunks
        data = self.offsets.buffers()[1]
        self._words = memoryview(b"" if data is None else data).cast("b").cast("q")[: len(self.offsets)]

    def ranges(self) -> Iterator[tuple[int, int]]:
        """What has to be read to get them all: long stretches without any are left out."""
        if not len(self.offsets):
            return
        steps = pc.subtract(self.offsets.slice(1), self.offsets.slice(0, len(self.offsets) - 1))
        first = self._words[0]
        for at in pc.indices_nonzero(pc.greater(steps, _SKIPPED_ROWS)).to_pylist():
            yield first, self._words[at] + 1
            first = self._words[at + 1]
        yield first, self._words[-1] + 1

    def among(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of rows that come in order, those that are meant."""
        for batch in batches:
            if (marks := self._marks(batch)) is not None:
                yield batch.filter(marks)

    def except_among(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of rows that come in order, the others."""
        for batch in batches:
            marks = self._marks(batch)
            yield batch if marks is None else batch.filter(pc.invert(marks))

    def _marks(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Of each row whether it is meant; None if none is."""
        if not batch.num_rows:
            return None
        column = batch.column("offset")
        first, last = column[0].as_py(), column[-1].as_py()
        start, stop = bisect_left(self._words, first), bisect_left(self._words, last + 1)
        if start == stop:
            return None
        return pc.is_in(column, value_set=self.offsets.slice(start, stop - start))
