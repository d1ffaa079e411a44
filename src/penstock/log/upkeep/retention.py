"""Retention: how far the start of a log may move. Whole segments go, and only such as are sealed and checkpointed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from penstock.log.records import LogSettings, Retention, SegmentInfo
from penstock.log.segments.segments import WrittenView

_KEEP_ALL = Retention()
# Whole segments go, so a log is beyond a bound by one segment at most, which is this part of it.
_SEGMENTS_OF_A_BOUND = 8
# Below these a segment is not worth a file.
_LEAST_BYTES, _LEAST_AGE_S, _LEAST_RECORDS = 64 << 10, 1.0, 64
_MANY = 1 << 62


@dataclass(frozen=True, slots=True)
class Removed:
    """What a new start takes away."""

    segments: int
    records: int
    bytes: int


class SegmentLimits(NamedTuple):
    """A segment that has reached one of them gets no more."""

    bytes: int
    age_s: float
    records: int


def segment_limits(settings: LogSettings) -> SegmentLimits:
    """As the settings of the log say, and no more than a part of what its retention keeps: else a bound below one
    segment would never be looked at."""
    policy, limits = (
        settings.retention or _KEEP_ALL,
        SegmentLimits(settings.segment_bytes, settings.segment_age_s, _MANY),
    )
    if policy.bytes is not None:
        part = max(policy.bytes // _SEGMENTS_OF_A_BOUND, _LEAST_BYTES)
        limits = limits._replace(bytes=min(limits.bytes, part))
    if policy.time_s is not None:
        limits = limits._replace(age_s=min(limits.age_s, max(policy.time_s / _SEGMENTS_OF_A_BOUND, _LEAST_AGE_S)))
    if policy.records is not None:
        limits = limits._replace(records=max(policy.records // _SEGMENTS_OF_A_BOUND, _LEAST_RECORDS))
    return limits


def decide(
    view: WrittenView,
    checkpointed: Container[SegmentInfo],
    policy: Retention | None,
    now_ms: int,
    floor: int | None = None,
) -> int | None:
    """The new start of a log, None where it stays. Pure.

    Each bound of the policy says what is kept at least, whatever groups have settled. `floor` is for logs that let go
    of what is settled: the first offset that some group has not, None where there is no group, which means keep."""
    segments = [segment.info for segment in view.sealed]
    droppable = sum(1 for _ in takewhile(checkpointed.__contains__, segments))
    settled = 0 if floor is None else sum(1 for _ in takewhile(lambda info: info.end <= floor, segments))
    count = min(droppable, max(settled, _beyond(view, policy or _KEEP_ALL, now_ms)))
    start = segments[count - 1].end if count else view.start
    return start if start > view.start else None


def removed_by(view: WrittenView, start: int) -> Removed:
    gone = [segment.info for segment in view.sealed if segment.info.end <= start]
    return Removed(len(gone), sum([info.records for info in gone]), sum([info.bytes for info in gone]))


def _beyond(view: WrittenView, policy: Retention, now_ms: int) -> int:
    """How many of the oldest sealed segments lie beyond one of the policy's bounds."""
    segments = [segment.info for segment in view.sealed]
    active = view.active.info if view.active is not None else None
    counts = [0]
    if policy.time_s is not None:
        oldest_ms = now_ms - policy.time_s * 1000
        counts.append(sum(1 for _ in takewhile(lambda info: info.max_timestamp < oldest_ms, segments)))
    if policy.bytes is not None:
        tail = active.bytes if active is not None else 0
        counts.append(_to_spare([info.bytes for info in segments], tail, policy.bytes))
    if policy.records is not None:
        tail = active.records if active is not None else 0
        counts.append(_to_spare([info.records for info in segments], tail, policy.records))
    return max(counts)


def _to_spare(sizes: list[int], tail: int, bound: int) -> int:
    """How many of the first can go while what is left, the tail with it, still reaches the bound."""
    return sum(1 for _ in takewhile(lambda left: left >= bound, _left(sizes, sum(sizes) + tail)))


def _left(sizes: Iterable[int], total: int) -> Iterator[int]:
    for size in sizes:
        total -= size
        yield total
