"""Offsets that name no record any more because compaction removed it: how many there are behind an offset."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.core.ports import Disk
from penstock.log.records import EpochStart, SegmentInfo
from penstock.log.segments.index import places
from penstock.log.segments.segments import SealedSegment, WrittenView


@dataclass(frozen=True, slots=True)
class Thinned:
    """The batches of a segment from which records were removed: 16 bytes for each."""

    firsts: array[int]
    records: array[int]
    """in all batches before it; one entry more for the end"""

    @classmethod
    def read(cls, disk: Disk, segment: SealedSegment) -> Thinned:
        """Any thread: looks at the whole file. OSError if it is gone."""
        firsts, records = array("q"), array("q", [0])
        file = disk.open_read(segment.path)
        try:
            data = file.map()[: segment.info.bytes]
        finally:
            file.close()
        for place in places(data, 0, len(data)):
            firsts.append(place.first)
            records.append(records[-1] + place.records)
        return cls(firsts, records)

    def records_from(self, offset: int, end: int) -> int:
        """At or behind the offset, which may lie in a batch: then as many as can be. `end` is the segment's."""
        at = bisect_right(self.firsts, offset) - 1
        if at < 0:
            return self.records[-1]
        following = self.firsts[at + 1] if at + 1 < len(self.firsts) else end
        mine = min(self.records[at + 1] - self.records[at], following - offset)
        return self.records[-1] - self.records[at + 1] + mine


class Holes:
    """Of one log. Used from the loop."""

    __slots__ = ("_bases", "_behind", "_list_version", "tables")

    def __init__(self) -> None:
        self.tables: dict[str, Thinned] = {}
        """by the path of their segment; without one, what is left of a segment counts as evenly spread"""
        self._list_version = -1
        self._bases, self._behind = array("q"), array("q", [0])

    def behind(self, offset: int, view: WrittenView, epochs: Iterable[EpochStart]) -> int:
        """Of the offsets from that one on, without those that were skipped when the log was opened."""
        if view.list_version != self._list_version:
            self._look_at(view, epochs)
        if not self._behind[0]:
            return 0
        at = bisect_right(self._bases, offset) - 1
        if at < 0:
            return self._behind[0]
        segment = view.sealed[at]
        here, info = self._behind[at] - self._behind[at + 1], segment.info
        if here and info.base < offset < info.end:
            table = self.tables.get(segment.path)
            records = info.records if table is None else table.records_from(offset, info.end)
            left = info.end - offset
            here = here * left // (info.end - info.base) if table is None else max(left - records, 0)
        elif offset >= info.end:
            here = 0
        return self._behind[at + 1] + here

    def _look_at(self, view: WrittenView, epochs: Iterable[EpochStart]) -> None:
        """Once for each list of segments."""
        starts, sealed = list(epochs), view.sealed
        behind, total = array("q", [0]), 0
        for segment in reversed(sealed):
            total += hollow(segment.info, starts)
            behind.append(total)
        behind.reverse()
        self._list_version, self._behind = view.list_version, behind
        self._bases = array("q", [segment.info.base for segment in sealed])
        # Those of a swap under way are there before their segments.
        if len(self.tables) > 2 * len(sealed) + 8:
            paths = {segment.path for segment in sealed}
            self.tables = {path: table for path, table in self.tables.items() if path in paths}


def hollow(info: SegmentInfo, epochs: Iterable[EpochStart]) -> int:
    """Offsets of a segment that compaction has emptied."""
    missing = info.end - info.base - info.records
    if missing <= 0:
        return 0
    skipped = sum(
        [min(start.start, info.end) - max(start.previous_end, info.base) for start in epochs if _overlaps(start, info)]
    )
    return max(missing - skipped, 0)


def _overlaps(start: EpochStart, info: SegmentInfo) -> bool:
    return start.start > start.previous_end and start.start > info.base and start.previous_end < info.end
