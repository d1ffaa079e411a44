"""Sealed segments, mapped: they never change, so a view of them is good for as long as somebody holds it."""

from __future__ import annotations

import threading
from collections import OrderedDict

from penstock.core.errors import CorruptBatch, InvalidArgument
from penstock.core.ports import Disk
from penstock.log.batch import read_header
from penstock.log.reading.walk import LearnedIndex
from penstock.log.segments.index import build_index, load_index, position_before_offset, position_before_time
from penstock.log.segments.segments import SealedSegment, SparseIndex


class MappedBytes:
    """A sealed segment. Any thread. Its index is checked where it is used, and rebuilt from the segment once."""

    learned: LearnedIndex | None = None

    def __init__(self, log: str, segment: SealedSegment, data: memoryview, index: SparseIndex | None) -> None:
        self.log, self.segment, self.path, self.size = log, segment, segment.path, segment.info.bytes
        self._data = data[: self.size]
        self._rebuilt = index is None
        self._index = build_index(self._data) if index is None else index

    def window(self, position: int, size: int) -> memoryview:
        return self._data[position : position + size]

    def entry_before_offset(self, offset: int) -> tuple[int, int] | None:
        self._check(position_before_offset(self._index, offset))
        return self._entry(position_before_offset(self._index, offset))

    def entry_before_time(self, timestamp: int) -> tuple[int, int] | None:
        self._check(position_before_time(self._index, timestamp))
        return self._entry(position_before_time(self._index, timestamp))

    def _entry(self, at: int) -> tuple[int, int] | None:
        return (self._index.offsets[at], self._index.positions[at]) if at >= 0 else None

    def _check(self, at: int) -> None:
        if self._rebuilt or at < 0:
            return
        try:
            right = read_header(self._data, self._index.positions[at]).base_offset == self._index.offsets[at]
        except CorruptBatch:
            right = False
        if not right:
            self._index, self._rebuilt = build_index(self._data), True


class SegmentMaps:
    """At most `limit` mapped segments, the least recently used let go first. Before Python 3.13 a map has a descriptor
    until the last view of it is gone. Any thread."""

    def __init__(self, disk: Disk, limit: int) -> None:
        if limit < 1:
            raise InvalidArgument(f"at least one segment must be mapped, not {limit}")
        self._disk, self._limit = disk, limit
        self._maps: OrderedDict[str, MappedBytes] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._maps)

    def get(self, log: str, segment: SealedSegment) -> MappedBytes:
        """FileNotFoundError if it was dropped."""
        with self._lock:
            mapped = self._maps.get(segment.path)
            if mapped is not None and mapped.segment == segment:
                self._maps.move_to_end(segment.path)
                return mapped
        return self._keep(self._map(log, segment))

    def forget(self, path: str) -> None:
        with self._lock:
            self._maps.pop(path, None)

    def clear(self) -> None:
        with self._lock:
            self._maps.clear()

    def _keep(self, mapped: MappedBytes) -> MappedBytes:
        with self._lock:
            self._maps[mapped.path] = mapped
            self._maps.move_to_end(mapped.path)
            while len(self._maps) > self._limit:
                self._maps.popitem(last=False)
        return mapped

    def _map(self, log: str, segment: SealedSegment) -> MappedBytes:
        file = self._disk.open_read(segment.path)
        try:
            data = file.map()
        finally:
            file.close()
        return MappedBytes(log, segment, data, load_index(self._disk, segment.path, segment.info))
