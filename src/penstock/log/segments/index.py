"""Finding a batch in a segment. Indexes are caches: what they say is checked against the segment, and they are rebuilt
from it where they are absent or wrong."""

from __future__ import annotations

import logging
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from penstock.core.ports import Disk
from penstock.core.types import FilePosition, LogNumber
from penstock.kernels.batch import scan
from penstock.kernels.crc import crc32c, first_bad
from penstock.kernels.folded import INDEX_STEP_BYTES
from penstock.log.journal.frames import Entry
from penstock.log.records import SegmentInfo
from penstock.log.segments.segments import SparseIndex
from penstock.log.upkeep.faults import Telling

telling = Telling(logging.getLogger("penstock.log.index"))

SUFFIX = ".idx"
MAGIC = b"PSTI"
_HEAD = struct.Struct("<4sIQQQQ")
"""magic, crc32c of all after it, base, end and bytes of the segment it is of, entries"""
_CRC_FROM = 8
_SCAN_ROWS = 128
_ROW_WORDS = 5
_COLUMNS = 3


class BatchPlace(NamedTuple):
    """Where a batch lies in its segment, from its header alone."""

    position: int
    first: int
    records: int
    max_timestamp: int
    bytes: int


class Run:
    """The batches of a buffer by their headers, as far as they fit into one scan, and how many have a good checksum."""

    __slots__ = ("count", "good", "rows")

    def __init__(self, data: memoryview) -> None:
        self.rows = array("q", bytes(8 * _ROW_WORDS * _SCAN_ROWS))
        self.count = scan(data, 0, len(data), self.rows)
        self.good = first_bad(data, self.rows, self.count)

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Of each good one: where it begins and ends, and the first offset behind its records, were they dense."""
        rows = self.rows
        for i in range(0, self.good * _ROW_WORDS, _ROW_WORDS):
            position = rows[i]
            yield position, position + rows[i + 4], rows[i + 1] + rows[i + 2]

    @property
    def bad_position(self) -> int | None:
        """Where the first one with a wrong checksum begins."""
        return self.rows[_ROW_WORDS * self.good] if self.good < self.count else None


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


def entries_below(log: LogNumber, data: memoryview, offset: int) -> Iterator[Entry]:
    """The batches of a segment before the first one at or above `offset`, to be written again. Each ends where the next
    begins: a hole that compaction left behind a batch counts with it."""
    held: BatchPlace | None = None
    for place in places(data, 0, len(data)):
        if held is not None:
            yield _entry(log, data, held, place.first)
        held = place if place.first < offset else None
        if held is None:
            return
    if held is not None:
        yield _entry(log, data, held, offset)


def _entry(log: LogNumber, data: memoryview, place: BatchPlace, end: int) -> Entry:
    batch = data[place.position : place.position + place.bytes]
    return Entry(log, batch, None, place.first, end, place.records, place.max_timestamp, place.max_timestamp)


def build_index(data: memoryview) -> SparseIndex:
    """As far as the bytes are batches."""
    index, timestamp = SparseIndex(), 0
    for place in places(data, 0, len(data)):
        if not index.positions or place.position - index.positions[-1] >= INDEX_STEP_BYTES:
            index.add(place.first, place.position, timestamp)
        timestamp = max(timestamp, place.max_timestamp)
    return index


def position_before_offset(index: SparseIndex, offset: int) -> int:
    """Index entry at or below the offset: its number, -1 if there is none. Safe beside the one who adds entries."""
    return bisect_right(index.offsets, offset, 0, len(index.positions)) - 1


def position_before_time(index: SparseIndex, timestamp: int) -> int:
    """The last index entry before which every record is older: its number, -1 if there is none."""
    return bisect_left(index.timestamps, timestamp, 0, len(index.positions)) - 1


def index_path(segment_path: str) -> str:
    return segment_path.removesuffix(".seg") + SUFFIX


def save_index(disk: Disk, segment_path: str, info: SegmentInfo, index: SparseIndex) -> None:
    """Beside its segment, not synced. One that does not begin with the segment (it was reopened) is not worth it."""
    if not index.positions or index.positions[0]:
        return
    path = index_path(segment_path)
    try:
        file = disk.create(path)
        try:
            file.write(FilePosition(0), [encode_index(info, index)])
        finally:
            file.close()
    except OSError as error:
        telling.warn("index", "index not saved, readers will rebuild it file=%s error=%s", path, error)


def load_index(disk: Disk, segment_path: str, info: SegmentInfo) -> SparseIndex | None:
    """None when it is absent, cut short, damaged, or of other bytes."""
    try:
        file = disk.open_read(index_path(segment_path))
    except FileNotFoundError:
        return None
    try:
        data = file.read(FilePosition(0), file.size())
    finally:
        file.close()
    return decode_index(data, info)


def encode_index(info: SegmentInfo, index: SparseIndex) -> bytes:
    columns = b"".join(column.tobytes() for column in (index.offsets, index.positions, index.timestamps))
    head = _HEAD.pack(MAGIC, 0, info.base, info.end, info.bytes, len(index.positions))
    whole = head[_CRC_FROM:] + columns
    return MAGIC + crc32c(whole).to_bytes(4, "little") + whole


def decode_index(data: bytes, info: SegmentInfo) -> SparseIndex | None:
    if len(data) < _HEAD.size:
        return None
    magic, crc, base, end, size, entries = _HEAD.unpack_from(data)
    if magic != MAGIC or (base, end, size) != (info.base, info.end, info.bytes) or crc32c(data[_CRC_FROM:]) != crc:
        return None
    if len(data) != _HEAD.size + _COLUMNS * 8 * entries or not entries:
        return None
    words = array("q")
    words.frombytes(data[_HEAD.size :])
    return SparseIndex(words[:entries], words[entries : 2 * entries], words[2 * entries :])
