"""Where the records of a log lie among its offsets: compaction thins ranges, and 2^32 offsets name nothing after an
unclean stop or a restore. Who deals out work or keeps a limit counts records by this."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from penstock.log.reading.cuts import LogCut
from penstock.log.records import SegmentInfo
from penstock.log.segments.segments import SparseIndex

# Some kilobytes for whoever is told of them; only a log that is compacted has more than two or three.
MAX_EXTENTS = 1000
_MAX_OFFSET = 1 << 63


class Extent(NamedTuple):
    """Offsets start..stop hold `rows` records, spread evenly where they are fewer; between extents lies none."""

    start: int
    stop: int
    rows: int

    @property
    def is_dense(self) -> bool:
        return self.rows == self.stop - self.start

    def rows_before(self, offset: int) -> int:
        """Of those records the ones below an offset that is within it."""
        return self.rows * (offset - self.start) // (self.stop - self.start)

    def offset_after(self, rows: int) -> int:
        """The lowest offset below which so many of them lie."""
        return self.start - (-rows * (self.stop - self.start) // self.rows)


class RowMap:
    """Counts records between offsets. What lies outside start..end, which the extents are of, counts an offset as one:
    nothing is known of it."""

    __slots__ = ("_before", "_extents", "_starts")

    def __init__(self, extents: Iterable[Extent], start: int, end: int) -> None:
        whole = [Extent(0, start, start), *clipped(extents, start, end), Extent(end, _MAX_OFFSET, _MAX_OFFSET - end)]
        self._extents = [extent for extent in whole if extent.rows]
        self._starts = [extent.start for extent in self._extents]
        self._before = [0, *accumulate([extent.rows for extent in self._extents])]

    def rows(self, start: int, stop: int) -> int:
        """About so many where the log was compacted, else exactly."""
        return max(self._rows_before(stop) - self._rows_before(start), 0)

    def after(self, start: int, rows: int) -> int:
        """The lowest offset below which so many records lie from `start` on; at least one is asked for."""
        wanted = self._rows_before(start) + rows
        at = bisect_left(self._before, wanted) - 1
        return self._extents[at].offset_after(wanted - self._before[at])

    def split(self, start: int, stop: int, most_rows: int) -> Iterator[Extent]:
        """All of start..stop in pieces of as many records each, at most about `most_rows`."""
        rows = self.rows(start, stop)
        parts = max(-(-rows // most_rows), 1)
        ends = [self.after(start, rows * number // parts) for number in range(1, parts)]
        for number, (first, last) in enumerate(pairwise([start, *ends, stop])):
            if first < last:
                yield Extent(first, last, rows * (number + 1) // parts - rows * number // parts)

    def is_empty(self, start: int, stop: int) -> bool:
        """Whether there is surely no record."""
        at = max(bisect_right(self._starts, start) - 1, 0)
        near = self._extents[at : bisect_left(self._starts, stop)]
        return all(each.stop <= start or each.start >= stop for each in near)

    def _rows_before(self, offset: int) -> int:
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            return 0
        extent = self._extents[at]
        return self._before[at] + extent.rows_before(min(offset, extent.stop))


def clipped(extents: Iterable[Extent], start: int, stop: int) -> Iterator[Extent]:
    """What of them lies within start..stop; at least one record is left in each that does."""
    for each in extents:
        first, last = max(each.start, start), min(each.stop, stop)
        if first < last and each.rows:
            yield Extent(first, last, max(each.rows_before(last) - each.rows_before(first), 1))


def extents_of(cut: LogCut, index_of: Callable[[SegmentInfo], SparseIndex | None]) -> list[Extent]:
    """Of a log as far as it may be read. Exact but where compaction was: there the index tells, by the bytes, to about
    64 KiB where records lie."""
    segments = [*cut.sealed, *([cut.active] if cut.active is not None else [])]
    pieces = (piece for info in segments if info.records for piece in _pieces(info, index_of))
    found: list[Extent] = []
    for piece in clipped(pieces, cut.start, cut.end):
        last = found[-1] if found else None
        if last is not None and last.stop == piece.start and last.is_dense and piece.is_dense:
            found[-1] = _joined(last, piece)
        else:
            found.append(piece)
    return _coarser(found)


def _pieces(info: SegmentInfo, index_of: Callable[[SegmentInfo], SparseIndex | None]) -> Iterator[Extent]:
    whole = Extent(info.base, info.end, info.records)
    index = None if whole.is_dense else index_of(info)
    if index is None or len(index.positions) < 2:
        yield whole
        return
    places = [*zip(index.offsets, index.positions, strict=False), (info.end, info.bytes)]
    for (first, begin), (stop, end) in pairwise(places):
        if first < stop:
            yield Extent(first, stop, min(max(info.records * (end - begin) // info.bytes, 1), stop - first))


def _joined(one: Extent, other: Extent) -> Extent:
    return Extent(one.start, other.stop, one.rows + other.rows)


def _coarser(extents: list[Extent]) -> list[Extent]:
    """Neighbours without a gap between them become one, two by two, until there are few enough."""
    while len(extents) > MAX_EXTENTS:
        joined: list[Extent] = []
        at = 0
        while at < len(extents):
            has_neighbour = at + 1 < len(extents) and extents[at].stop == extents[at + 1].start
            joined.append(_joined(extents[at], extents[at + 1]) if has_neighbour else extents[at])
            at += 2 if has_neighbour else 1
        if len(joined) == len(extents):
            return extents
        extents = joined
    return extents
