"""Where reading starts and ends, against what can be read now. What is not there is never passed over silently."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.errors import ErrorCode, InvalidArgument, PenstockError
from penstock.log.reading.extents import Extent, RowMap
from penstock.spark.offsets import (
    EARLIEST_NUMBER,
    LATEST_NUMBER,
    AtTime,
    Bound,
    Edge,
    Logs,
    Named,
    NamedTimes,
    OffsetRange,
    PartitionId,
    Positions,
)

_LOG = logging.getLogger("penstock.spark")
_SHOWN_LOSSES = 5


class Visible(NamedTuple):
    """Offsets start..end of a partition can be read now, and take about `size_bytes` on disk. `log`: the number of the
    log that they are in, None for a partition that nothing was put into. `extents`: where rows lie among them; None:
    every offset counts as one."""

    start: int
    end: int
    size_bytes: int = 0
    log: int | None = None
    extents: tuple[Extent, ...] | None = None

    @property
    def rows(self) -> RowMap:
        whole = (Extent(self.start, self.end, self.end - self.start),)
        return RowMap(whole if self.extents is None else self.extents, self.start, self.end)

    @property
    def row_bytes(self) -> float:
        """What a row takes on average, more than nothing."""
        return max(self.size_bytes / max(self.rows.rows(self.start, self.end), 1), 1.0)


Seen = Mapping[PartitionId, Visible]
OffsetAtTime = Callable[[PartitionId, int], int]
"""The first offset whose row is not older than that many ms since 1970; the end if there is none."""


@dataclass(frozen=True, slots=True)
class RowBounds:
    """What rows must be to be read. None: anything. `..._until` is not among them."""

    queues: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offset_from: int = 0
    offset_until: int | None = None
    time_from_ms: int | None = None
    time_until_ms: int | None = None

    def has(self, queue: str, partition: int) -> bool:
        return (self.queues is None or queue in self.queues) and (
            self.partitions is None or partition in self.partitions
        )


class DataLost(PenstockError):
    """Offsets that were to be read are not there any more."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, losses: Iterable[str]) -> None:
        self.losses = tuple(losses)
        more = len(self.losses) - _SHOWN_LOSSES
        shown = "; ".join(self.losses[:_SHOWN_LOSSES]) + (f"; and {more} more" if more > 0 else "")
        super().__init__(
            f"{shown}: start from offsets that are still there (startingOffsets, and a new checkpoint for a stream), "
            f"keep messages longer, or set failOnDataLoss to false to go on without them"
        )


def resolve(bound: Bound, seen: Seen, edge: Edge, at_time: OffsetAtTime) -> Positions:
    """The bound as offsets, for all that is seen; partitions that it does not name are read up to `edge`."""
    match bound:
        case Named(positions):
            return _named(dict(positions), seen, edge)
        case AtTime(timestamp_ms):
            return {source: at_time(source, timestamp_ms) for source in seen}
        case NamedTimes(times):
            _check_known(dict(times), seen)
            found = {source: at_time(source, timestamp_ms) for source, timestamp_ms in times}
            return {source: found.get(source, _at_edge(visible, edge)) for source, visible in seen.items()}
        case _:
            return {source: _at_edge(visible, bound) for source, visible in seen.items()}


def _at_edge(visible: Visible, edge: Edge) -> int:
    return visible.start if edge is Edge.EARLIEST else visible.end


def _check_known(named: Positions, seen: Seen) -> None:
    if unknown := sorted(set(named) - set(seen)):
        there = ", ".join(f"{source.queue}/{source.partition}" for source in sorted(seen)[:20])
        raise InvalidArgument(f"offsets are given for {unknown[0]}, which is not read: there are {there or 'none'}")


def _named(named: Positions, seen: Seen, edge: Edge) -> Positions:
    _check_known(named, seen)
    edges = {EARLIEST_NUMBER: Edge.EARLIEST, LATEST_NUMBER: Edge.LATEST}
    found = {source: _at_edge(visible, edge) for source, visible in seen.items()}
    for source, offset in named.items():
        found[source] = offset if offset >= 0 else _at_edge(seen[source], edges[offset])
    return found


def check_start(start: Positions, seen: Seen, is_whole: bool) -> None:
    """InvalidArgument for a start above what there is, which is a mistake and not an empty answer. Unless the newest
    rows may be missing from what is seen."""
    for source, offset in sorted(start.items()):
        if is_whole and offset > seen[source].end:
            raise InvalidArgument(
                f"option startingOffsets: {offset} of {source} is above its end: the next offset will be "
                f"{seen[source].end}; write that, or -1 for latest"
            )


def within(ranges: Iterable[OffsetRange], bounds: RowBounds, at_time: OffsetAtTime) -> list[OffsetRange]:
    """What the filters leave of the ranges."""
    narrowed = (_narrowed(each, bounds, at_time) for each in ranges if bounds.has(*each.source))
    return [each for each in narrowed if each.offsets > 0]


def _narrowed(whole: OffsetRange, bounds: RowBounds, at_time: OffsetAtTime) -> OffsetRange:
    source, start, stop = whole.source, max(whole.start, bounds.offset_from), whole.stop
    if bounds.offset_until is not None:
        stop = min(stop, bounds.offset_until)
    if bounds.time_from_ms is not None and start < stop:
        start = max(start, at_time(source, bounds.time_from_ms))
    if bounds.time_until_ms is not None and start < stop:
        stop = min(stop, at_time(source, bounds.time_until_ms))
    return whole._replace(start=start, stop=stop)


def only_assigned(
    found: dict[PartitionId, Visible], assigned: tuple[PartitionId, ...] | None, is_whole: bool
) -> dict[PartitionId, Visible]:
    """Those of the option assign, all where it is not given. InvalidArgument for one that is not there."""
    if assigned is None:
        return found
    if is_whole and (missing := [source for source in assigned if source not in found]):
        raise InvalidArgument(f"option assign: there is no {missing[0]}")
    return {source: visible for source, visible in found.items() if source in assigned}


def row_maps(seen: Seen) -> dict[PartitionId, RowMap]:
    return {source: visible.rows for source, visible in seen.items()}


def seen_logs(seen: Seen) -> Logs:
    return {source: visible.log for source, visible in seen.items() if visible.log is not None}


def is_anew(source: PartitionId, known: Logs, now: Logs) -> bool:
    """Whether the partition is another than it was: its queue was deleted and created again."""
    return source in known and known[source] != now.get(source)


def still_there(start: Positions, logs: Logs, seen: Seen) -> Positions:
    """Those positions that hold: not those of partitions that are others now. What is not seen keeps its place."""
    now = seen_logs(seen)
    return {
        source: at
        for source, at in start.items()
        if source not in seen or (at <= seen[source].end and not is_anew(source, logs, now))
    }


def resumed(start: Positions, seen: Seen) -> Positions:
    """Where a stream goes on that has read up to `start`, for all that is seen: a partition that a known queue was
    given since begins with its first offset, a queue that was not read before with what it holds."""
    queues = {source.queue for source in start}
    added = {source: 0 if source.queue in queues else visible.start for source, visible in seen.items()}
    return {source: start.get(source, first) for source, first in added.items()}


def readable(ranges: Iterable[OffsetRange], seen: Seen, is_whole: bool, fails: bool) -> list[OffsetRange]:
    """What of the ranges is there. DataLost names what is not; without `fails` that is logged with its count. Where the
    newest rows may be missing from what is seen, those that read will tell."""
    kept, losses = list[OffsetRange](), list[str]()
    for each in ranges:
        visible = _same(each, seen.get(each.source))
        there = _there(each, visible)
        if not is_whole:
            there = each._replace(start=there.start)
        losses += _losses(each, there, visible)
        if there.offsets > 0:
            kept.append(there)
    tell_losses(losses, fails)
    return kept


def tell_losses(losses: Iterable[str], fails: bool) -> None:
    found = list(losses)
    if found and fails:
        raise DataLost(found)
    for loss in found:
        _LOG.warning("data lost, reading on without it: %s", loss)


def vanished(start: Positions, logs: Logs, seen: Seen) -> Iterator[str]:
    """What a stream has read from and cannot read any more, or not from where it was."""
    now = seen_logs(seen)
    for source, offset in sorted(start.items()):
        if source not in seen:
            yield f"{source} is not there any more; it was read to offset {offset}"
        elif is_anew(source, logs, now):
            yield (
                f"{source} was deleted and created again: what it held from offset {offset} on is gone, "
                f"and it has offsets {seen[source].start} to {seen[source].end} of other messages"
            )
        elif offset > seen[source].end:
            yield (
                f"{source} ends at offset {seen[source].end} and was read to {offset}: "
                f"the queue was deleted and declared anew, or its log was cut"
            )


def _same(wanted: OffsetRange, visible: Visible | None) -> Visible | None:
    """None if what is there now is another log."""
    return None if visible is None or wanted.log not in (None, visible.log) else visible


def other_log(wanted: OffsetRange) -> str:
    return f"{wanted.offsets} offsets are gone: {wanted}, whose queue was deleted and created again"


def _there(wanted: OffsetRange, visible: Visible | None) -> OffsetRange:
    if visible is None:
        return wanted._replace(stop=wanted.start)
    start = min(max(wanted.start, visible.start), wanted.stop)
    return wanted._replace(start=start, stop=max(min(wanted.stop, visible.end), start))


def _losses(wanted: OffsetRange, there: OffsetRange, visible: Visible | None) -> Iterator[str]:
    if there.start > wanted.start:
        lost = OffsetRange(wanted.source, wanted.start, there.start)
        yield f"{lost.offsets} offsets are gone: {lost}; {_what_is_left(visible)}"
    if there.stop < wanted.stop:
        lost = OffsetRange(wanted.source, there.stop, wanted.stop)
        yield f"{lost.offsets} offsets are not there: {lost}; {_what_is_left(visible)}"


def _what_is_left(visible: Visible | None) -> str:
    if visible is None:
        return "the partition is not there any more, or its queue was created again"
    return f"{visible.start} is the first that is kept, {visible.end} will be the next"
