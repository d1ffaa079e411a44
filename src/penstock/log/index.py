"""Finding a batch in a segment. Indexes are caches: what they say is checked against the segment, and they are rebuilt from it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.kernels.batch import scan
from penstock.log.segments import INDEX_STEP_BYTES, SparseIndex

_SCAN_ROWS = 1024
_ROW_WORDS = 5


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Where a batch lies in its segment, from its header alone."""

    position: int
    first: int
    records: int
    max_timestamp: int
    bytes: int


def places(data: memoryview, start: int, stop: int) -> Iterator[BatchPlace]:
    """The batches of data[start:stop] by their headers; ends at the first bytes that cannot be a batch."""
    rows = array("q", bytes(8 * _ROW_WORDS * _SCAN_ROWS))
    while start < stop:
        count = scan(data, start, stop, rows)
        for i in range(0, count * _ROW_WORDS, _ROW_WORDS):
            yield BatchPlace(rows[i], rows[i + 1], rows[i + 2], rows[i + 3], rows[i + 4])
        if count < _SCAN_ROWS:
            return
        last = (count - 1) * _ROW_WORDS
        start = rows[last] + rows[last + 4]


@dataclass(frozen=True, slots=True)
class Prefix:
    """The batches of a segment whose first offset is below a bound."""

    bytes: int
    records: int
    max_timestamp: int
    index: SparseIndex


def prefix_below(data: memoryview, stop: int, offset: int) -> Prefix:
    """Measure the part of a segment before the first batch at or above `offset`."""
    size = records = timestamp = 0
    index = SparseIndex()
    for place in places(data, 0, stop):
        if place.first >= offset:
            break
        add_to(index, place, timestamp)
        size = place.position + place.bytes
        records += place.records
        timestamp = max(timestamp, place.max_timestamp)
    return Prefix(size, records, timestamp, index)


def add_to(index: SparseIndex, place: BatchPlace, timestamp_before: int) -> None:
    if not index.positions or place.position - index.positions[-1] >= INDEX_STEP_BYTES:
        index.add(place.first, place.position, timestamp_before)
