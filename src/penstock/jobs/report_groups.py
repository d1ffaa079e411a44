"""What a report says of the groups of one partition: how far they are, how long they took, what failed."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil

import pyarrow as pa
import pyarrow.compute as pc

from penstock.jobs.directory import Place
from penstock.jobs.ranges import TimeSpan
from penstock.jobs.report_counts import counted
from penstock.jobs.unit_state import UnitFold, UnitLogs
from penstock.log.batch import Batch
from penstock.queues import snapshot
from penstock.queues.cursor import Cursor
from penstock.queues.declared import GroupRecord
from penstock.queues.records import Kind, StateRecord, decode, entries_of, ranges_of

# Latencies are kept to an eighth of a power of two: a quantile is at most 9 % above the true one.
STEPS = 8
# Of messages that came back; more are counted and not told apart.
_MOST_RETRIED = 1_000_000


@dataclass(slots=True)
class GroupCounts:
    """Of one group in one partition, or in all."""

    lag: int = 0
    """messages that it has not settled"""
    in_flight: int = 0
    """of these: delivered, or waiting for another try"""
    oldest_ms: int | None = None
    """when the oldest message came that it has not settled"""
    latencies: Counter[int] = field(default_factory=Counter)
    """from publish to settlement, by floor(STEPS * log2(ms + 1)); as far back as the state log goes"""
    retried: int = 0
    """messages that failed at least once, as far back as that"""
    failures: int = 0
    redeliveries: int = 0

    def merge(self, other: GroupCounts) -> None:
        self.lag += other.lag
        self.in_flight += other.in_flight
        known = [each for each in (self.oldest_ms, other.oldest_ms) if each is not None]
        self.oldest_ms = min(known, default=None)
        self.latencies.update(other.latencies)
        self.retried += other.retried
        self.failures += other.failures
        self.redeliveries += other.redeliveries


def count_groups(place: Place, unit: UnitLogs, groups: Sequence[GroupRecord], span: TimeSpan) -> dict[str, GroupCounts]:
    """By the group's text. Settlements and failures are those of a time; lag is that of now."""
    cursors = UnitFold(place, unit, groups).run().cursors
    found = {group.number: _lag(place, unit, cursors[group.number]) for group in groups}
    history = _History(_first_known(place, unit, groups), span)
    for record, time_ms in _state_records(place, unit):
        history.take(record, time_ms)
    for number, settled in history.settled.items():
        found[number].latencies = _latencies(place, unit, sorted(settled))
    for (number, _), (deliveries, failures) in history.retries.items():
        counts = found[number]
        counts.retried += failures > 0
        counts.failures += failures
        counts.redeliveries += max(0, deliveries - 1)
    return {str(group.key): found[group.number] for group in groups}


def _lag(place: Place, unit: UnitLogs, cursor: Cursor) -> GroupCounts:
    window = cursor.window
    counts = GroupCounts(lag=window.pending, in_flight=window.pending)
    for data in place.batches(unit.data, window.next):
        offsets = Batch.parse(data, verify=False).offsets()
        counts.lag += bisect_left(offsets, unit.data.end) - bisect_left(offsets, window.next)
    if counts.lag:
        counts.oldest_ms = _time_at(place, unit, max(window.floor, unit.data.start))
    return counts


def _time_at(place: Place, unit: UnitLogs, offset: int) -> int | None:
    for data in place.batches(unit.data, offset):
        batch = Batch.parse(data, verify=False)
        row = bisect_left(batch.offsets(), offset)
        if row < len(batch):
            return batch.timestamps()[row]
    return None


def _state_records(place: Place, unit: UnitLogs) -> Iterator[tuple[StateRecord, int]]:
    if unit.state is None:
        return
    for data in place.batches(unit.state):
        for row in Batch.parse(data, verify=False):
            if row.offset < unit.state.end:
                yield decode(row.value), row.timestamp


def _first_known(place: Place, unit: UnitLogs, groups: Sequence[GroupRecord]) -> dict[int, int | None]:
    """By group: where it was when the state log begins, None if nobody knows that any more."""
    if unit.state is None or unit.state.start == 0:
        return {group.number: group.starts.get(unit.partition, (0, 0))[0] for group in groups}
    known: dict[int, int | None] = {group.number: None for group in groups}
    snapshots = [] if unit.snapshots is None else snapshot.wholes(place.batches(unit.snapshots))
    oldest = next((each for each in snapshots if each.state_offset <= unit.state.start), None)
    for record in () if oldest is None else oldest.records():
        if record.kind in (Kind.DELIVERED, Kind.PLACED) and record.group in known:
            known[record.group] = record.words[0]
    return known


class _History:
    """Which offsets were settled when, and what came back, as the state log tells it."""

    def __init__(self, first_known: dict[int, int | None], span: TimeSpan) -> None:
        self._next, self._span = first_known, span
        self.settled: dict[int, list[tuple[int, int, int]]] = {}
        """by group: first offset, end, time"""
        self.retries: dict[tuple[int, int], tuple[int, int]] = {}
        """by group and offset: deliveries, failures"""

    def take(self, record: StateRecord, time_ms: int) -> None:
        if record.kind is Kind.CALL or record.group not in self._next:
            return
        if record.kind is Kind.ENTRIES:
            self._came_back(record, time_ms)
        elif record.kind is Kind.PLACED:
            self._next[record.group] = record.words[0]
        elif record.kind is Kind.SETTLED:
            self._settle(record.group, ranges_of(record.words), time_ms)
        else:
            first, following = self._next[record.group], record.words[0]
            if first is not None:  # Where the log was cut, what was settled before is not known.
                self._settle(record.group, _between(first, following, ranges_of(record.words, 1)), time_ms)
            self._next[record.group] = following

    def _settle(self, group: int, ranges: Iterable[tuple[int, int]], time_ms: int) -> None:
        if self._is_meant(time_ms):
            self.settled.setdefault(group, []).extend((first, stop, time_ms) for first, stop in ranges if first < stop)

    def _is_meant(self, time_ms: int) -> bool:
        since_ms, until_ms = self._span.since_ms, self._span.until_ms
        return (since_ms is None or time_ms >= since_ms) and (until_ms is None or time_ms < until_ms)

    def _came_back(self, record: StateRecord, time_ms: int) -> None:
        if not self._is_meant(time_ms):
            return
        for entry in entries_of(record):
            place = record.group, entry.offset
            if (entry.deliveries > 1 or entry.failures) and (
                place in self.retries or len(self.retries) < _MOST_RETRIED
            ):
                self.retries[place] = entry.deliveries, entry.failures


def _between(first: int, stop: int, waiting: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What of first..stop is in none of the ranges, which rise."""
    for start, end in waiting:
        yield first, min(start, stop)
        first = max(first, end)
    yield first, stop


def _latencies(place: Place, unit: UnitLogs, settled: list[tuple[int, int, int]]) -> Counter[int]:
    """Both rise by offset: one walk over the messages."""
    found: Counter[int] = Counter()
    if not settled:
        return found
    at = 0
    for data in place.batches(unit.data, max(unit.data.start, settled[0][0])):
        batch = Batch.parse(data, verify=False)
        offsets, times = batch.offsets(), batch.timestamps()
        published, done = array("q"), array("q")
        at = _first_reaching(settled, at, offsets)
        for first, stop, time_ms in _overlapping(settled, at, offsets):
            begin, end = bisect_left(offsets, first), bisect_left(offsets, stop)
            published += array("q", times[begin:end])
            done += array("q", [time_ms]) * (end - begin)
        found.update(_steps(published, done))
    return found


def _first_reaching(settled: list[tuple[int, int, int]], at: int, offsets: Sequence[int]) -> int:
    """Ranges that end before a batch are in none that follows."""
    while offsets and at < len(settled) and settled[at][1] <= offsets[0]:
        at += 1
    return at


def _overlapping(
    settled: list[tuple[int, int, int]], at: int, offsets: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    while offsets and at < len(settled) and settled[at][0] <= offsets[-1]:
        yield settled[at]
        at += 1


def _steps(published: array[int], done: array[int]) -> Counter[int]:
    if not published:
        return Counter()
    took = pc.max_element_wise(pc.subtract(pa.array(done), pa.array(published)), 0)
    steps = pc.floor(pc.multiply(pc.log2(pc.add(took, 1).cast(pa.float64())), STEPS)).cast(pa.int64())
    return counted(steps)


def quantile_ms(latencies: Counter[int], share: float) -> float | None:
    """So many took no longer than this; never less than the true quantile. None if they are too few to say: of ten
    nobody knows the slowest hundredth."""
    total = sum(latencies.values())
    if total * (1 - share) < 1 - 1e-9:
        return None
    left = share * total
    for step, count in sorted(latencies.items()):
        left -= count
        if left <= 1e-9:
            return float(ceil(2 ** ((step + 1) / STEPS)) - 2)  # the longest that the step holds, in whole ms
    return None
