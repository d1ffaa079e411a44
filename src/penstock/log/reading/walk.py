"""Batches of one segment in order, from an offset or a time on: the same over a mapped file and one that is read."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from penstock.core.errors import CorruptBatch, LogDamaged
from penstock.core.ports import Buffer, File
from penstock.core.types import FilePosition
from penstock.kernels.folded import INDEX_STEP_BYTES
from penstock.log.batch import Batch, check_crc, next_offset, read_header
from penstock.log.segments.index import Run, places, position_before_offset, position_before_time
from penstock.log.segments.segments import SparseIndex

MIN_WINDOW_BYTES, MAX_WINDOW_BYTES = INDEX_STEP_BYTES, 1 << 20


class StoredBatch(NamedTuple):
    """A batch as its header has it, and its bytes, whose checksum has not been looked at."""

    position: int
    first: int
    records: int
    max_timestamp: int
    data: memoryview


class LearnedIndex:
    """An index of a file that has none, filled by those who walk over it. Any thread."""

    def __init__(self) -> None:
        self.index = SparseIndex()
        self._lock = threading.Lock()

    def learn(self, batch: StoredBatch, timestamp_before: int) -> None:
        positions = self.index.positions
        if positions and batch.position - positions[-1] < INDEX_STEP_BYTES:
            return
        with self._lock:
            if not positions or batch.position - positions[-1] >= INDEX_STEP_BYTES:
                self.index.add(batch.first, batch.position, timestamp_before)


class SegmentBytes(Protocol):
    """The first `size` bytes of a segment, and what is known of the places of batches in them."""

    @property
    def log(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def learned(self) -> LearnedIndex | None: ...

    def window(self, position: int, size: int) -> memoryview:
        """The bytes from a position on; fewer than `size` where the file ends too early."""
        ...

    def entry_before_offset(self, offset: int) -> tuple[int, int] | None:
        """Offset and position of a batch that begins at or before the offset, the nearest that is known."""
        ...

    def entry_before_time(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and position of a batch before which all records are older."""
        ...


class FileBytes:
    """A segment that may still grow or that is not synced: read, never mapped. One thread; close it."""

    def __init__(
        self, log: str, path: str, size: int, file: File, indexes: list[SparseIndex], learned: LearnedIndex | None
    ) -> None:
        """`indexes` in the order in which they are asked."""
        self.log, self.path, self.size, self.learned = log, path, size, learned
        self._file, self._indexes = file, indexes

    def window(self, position: int, size: int) -> memoryview:
        return memoryview(self._file.read(FilePosition(position), size))

    def entry_before_offset(self, offset: int) -> tuple[int, int] | None:
        found = ((index, position_before_offset(index, offset)) for index in self._indexes)
        return self._entry(found)

    def entry_before_time(self, timestamp: int) -> tuple[int, int] | None:
        found = ((index, position_before_time(index, timestamp)) for index in self._indexes)
        return self._entry(found)

    def _entry(self, found: Iterable[tuple[SparseIndex, int]]) -> tuple[int, int] | None:
        for index, at in found:
            # The keeper may take entries back meanwhile; what is gone is not needed then either.
            if 0 <= at < len(index.positions) and index.positions[at] < self.size:
                return index.offsets[at], index.positions[at]
        return None

    def close(self) -> None:
        self._file.close()


def window_for(max_bytes: int) -> int:
    return min(max(max_bytes, MIN_WINDOW_BYTES), MAX_WINDOW_BYTES)


def walk(source: SegmentBytes, position: int = 0, window_bytes: int = MAX_WINDOW_BYTES) -> Iterator[StoredBatch]:
    """Every batch from a position on, where one must begin. LogDamaged if there is none before `size` is reached."""
    timestamp_before = 0 if position == 0 else None
    while position < source.size:
        window = source.window(position, min(_whole_batch(source, position, window_bytes), source.size - position))
        begun = position
        for place in places(window, 0, len(window)):
            data = window[place.position : place.position + place.bytes]
            batch = StoredBatch(begun + place.position, place.first, place.records, place.max_timestamp, data)
            if source.learned is not None and timestamp_before is not None:
                source.learned.learn(batch, timestamp_before)
            yield batch
            position, timestamp_before = batch.position + place.bytes, place.max_timestamp
        if position == begun:
            raise _damaged(source, position, _why_not_a_batch(window))


def from_offset(source: SegmentBytes, offset: int, window_bytes: int = MAX_WINDOW_BYTES) -> Iterator[StoredBatch]:
    """The batches from the one that holds the offset on, or from the next one if none does."""
    found = walk(source, _start(source, source.entry_before_offset(offset)), window_bytes)
    held: StoredBatch | None = None
    for batch in found:
        if batch.first + batch.records > offset:
            if held is not None and batch.first > offset and end_of(source, held) > offset:
                yield held
            yield batch
            yield from found
            return
        held = batch
    if held is not None and end_of(source, held) > offset:
        yield held


def checked_runs(source: SegmentBytes, position: int, window_bytes: int) -> Iterator[tuple[memoryview, int]]:
    """Every batch from a position on, with the offset behind its records if they are dense; checksums are looked at in
    bulk. LogDamaged where one is wrong."""
    while position < source.size:
        window = source.window(position, min(_whole_batch(source, position, window_bytes), source.size - position))
        run = Run(window)
        stop = 0
        for start, stop, dense_end in run.ranges():
            yield window[start:stop], dense_end
        if run.bad_position is not None:
            raise _damaged(source, position + run.bad_position, "the checksum does not match")
        if not stop:
            raise _damaged(source, position, _why_not_a_batch(window))
        position += stop


def first_at_time(source: SegmentBytes, timestamp: int, start: int) -> int | None:
    """The first offset at or above `start` whose record is as young as that; None if there is none here."""
    entry = source.entry_before_time(timestamp)
    for batch in walk(source, _start(source, entry), MIN_WINDOW_BYTES):
        if (
            batch.max_timestamp >= timestamp
            and (found := first_row_at_time(checked(source, batch), timestamp, start)) is not None
        ):
            return found
    return None


def first_row_at_time(data: Buffer, timestamp: int, start: int) -> int | None:
    batch = Batch.parse(data, verify=False)
    timestamps, offsets = batch.timestamps(), batch.offsets()
    row = max(bisect_left(timestamps, timestamp), bisect_left(offsets, start))
    return offsets[row] if row < len(offsets) else None


def checked(source: SegmentBytes, batch: StoredBatch) -> memoryview:
    """Its bytes, when their checksum holds."""
    try:
        check_crc(batch.data)
    except CorruptBatch as error:
        raise _damaged(source, batch.position, error.reason) from error
    return batch.data


def end_of(source: SegmentBytes, batch: StoredBatch) -> int:
    """The first offset behind the batch's range."""
    return next_offset(checked(source, batch))


def _start(source: SegmentBytes, entry: tuple[int, int] | None) -> int:
    """Where to begin walking; LogDamaged if the index points at something else than it says."""
    if entry is None:
        return 0
    offset, position = entry
    try:
        header = read_header(source.window(position, 64))
    except CorruptBatch as error:
        raise _damaged(source, position, error.reason) from error
    if header.base_offset != offset:
        raise _damaged(source, position, f"a batch of offset {header.base_offset} where the index has {offset}")
    return position


def _whole_batch(source: SegmentBytes, position: int, window_bytes: int) -> int:
    """At least the batch that begins there, however large it is."""
    head = source.window(position, 64)
    try:
        return max(window_bytes, read_header(head).total_bytes)
    except CorruptBatch:
        return window_bytes


def _why_not_a_batch(window: memoryview) -> str:
    try:
        header = read_header(window)
    except CorruptBatch as error:
        return error.reason
    return f"the file ends inside a batch of {header.total_bytes} bytes"


def _damaged(source: SegmentBytes, position: int, reason: str) -> LogDamaged:
    return LogDamaged(source.log, source.path, position, reason)
