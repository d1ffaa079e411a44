"""What the groups of a partition did with its messages, folded from its state log and snapshots as the broker does it
when it starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.jobs.directory import DirectoryFacts, LogFacts, Place
from penstock.log.batch import Batch
from penstock.queues import dedup, records, snapshot
from penstock.queues.cursor import Cursor
from penstock.queues.declared import GroupRecord
from penstock.queues.dedup import Call
from penstock.queues.names import data_log, snapshots_log, state_log
from penstock.queues.records import Kind, StateRecord


@dataclass(frozen=True, slots=True)
class UnitLogs:
    """The logs of a partition; those that are not there yet are None."""

    namespace: str
    queue: str
    partition: int
    data: LogFacts
    state: LogFacts | None
    snapshots: LogFacts | None

    @classmethod
    def of(cls, facts: DirectoryFacts, namespace: str, queue: str, partition: int) -> UnitLogs | None:
        """None for a partition that nothing was put into yet."""
        place = namespace, queue, partition
        data, state, snapshots = (facts.logs.get(name(*place)) for name in (data_log, state_log, snapshots_log))
        return None if data is None else cls(*place, data, state, snapshots)


@dataclass(slots=True)
class UnitState:
    """Cursors by the number of their group: floors, and what waits to be settled."""

    cursors: dict[int, Cursor]
    calls: list[tuple[Call, int]] = field(default_factory=list)
    """of producers, in their order, with times (0 for those of a snapshot)"""
    snapshot_ms: int = 0
    """when the snapshot was made that the fold began with; 0 without one"""
    replay_from: int = 0
    """where in the state log the fold went on"""
    placed_ms: dict[int, int] = field(default_factory=dict)
    """when a group was last moved, as far as the replayed part of the state log knows"""

    def is_settled(self, group: int, offset: int) -> bool:
        window = self.cursors[group].window
        return offset < window.next and window.entry(offset) is None


class UnitFold:
    """Folds one partition. What looks at the records as they go by overrides seen()."""

    def __init__(self, place: Place, unit: UnitLogs, groups: Iterable[GroupRecord]) -> None:
        self._place, self.unit = place, unit
        self.state = UnitState({group.number: _begun(unit, group) for group in groups})

    def run(self) -> UnitState:
        """As of the cut. InvalidArgument for records that another version wrote, LogDamaged."""
        self._snapshot()
        if self.unit.state is not None:
            first = max(self.state.replay_from, self.unit.state.start)
            for data in self._place.batches(self.unit.state, first):
                for row in Batch.parse(data, verify=False):
                    if first <= row.offset < self.unit.state.end:
                        self._take(records.decode(row.value), row.timestamp, row.offset)
        return self.state

    def seen(self, record: StateRecord, offset: int) -> None:
        """Before the record is applied; `offset` is -1 for one of a snapshot."""

    def _snapshot(self) -> None:
        if self.unit.snapshots is None:
            return
        found = snapshot.wholes(self._place.batches(self.unit.snapshots))
        if found:
            self.state.snapshot_ms, self.state.replay_from = found[-1].time_ms, found[-1].state_offset
            for record in found[-1].records():
                self._take(record, 0, -1)

    def _take(self, record: StateRecord, time_ms: int, offset: int) -> None:
        self.seen(record, offset)
        if record.kind is Kind.CALL:
            self.state.calls.append((dedup.decode(record.data), time_ms))
        elif (cursor := self.state.cursors.get(record.group)) is not None:
            cursor.apply(record)
            if record.kind is Kind.PLACED and offset >= 0:
                self.state.placed_ms[record.group] = time_ms


def _begun(unit: UnitLogs, group: GroupRecord) -> Cursor:
    start, history_end = group.starts.get(unit.partition, (0, 0))
    return Cursor(group.number, max(start, unit.data.start), history_end)
