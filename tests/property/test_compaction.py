"""Compaction against the naive rule, and against everything else that can happen to a log meanwhile."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clock import FakeClock
from tests.support.compacting import EAGER, OpenShard, segments_of
from tests.support.simdisk import SimDisk

from penstock.log.batch import Row
from penstock.log.partition import Log
from penstock.log.records import Compaction, Edit, LogSettings
from penstock.log.upkeep.compaction import Compacted, execute, plan_compaction
from penstock.log.upkeep.housekeeping import Task

KEYS = [b"", b"a", b"b", b"c", b"long key" * 5, b"long key" * 4 + b"long kez"]

batches = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([b"", b"v", b"w" * 90])), min_size=1, max_size=5)


def naive(rows: list[Row], end: int, policy: Compaction, now_ms: int) -> list[Row]:
    """The rule, one record at a time."""

    def stays(row: Row) -> bool:
        same = [other for other in rows if other.key == row.key and other.offset != row.offset]
        if row.key is None or row.offset >= end:
            return True
        if any(row.offset < other.offset < end for other in same):
            return False
        is_old = row.timestamp <= now_ms - policy.tombstone_s * 1000
        return bool(row.value) or not is_old or any(other.offset < row.offset for other in same)

    return [row for row in rows if stays(row)]


@dataclass(slots=True)
class Step:
    batches: list[list[tuple[bytes, bytes]]]
    seconds: int
    max_keys: int


steps = st.builds(Step, st.lists(batches, max_size=8), st.integers(0, 40), st.sampled_from([1, 2, 1000]))


@given(st.lists(steps, min_size=1, max_size=6), st.sampled_from([0.0, 30.0]), st.sampled_from([0.0, 60.0]))
@settings(max_examples=150, deadline=None)
def test_what_stays_is_what_the_naive_rule_keeps(rounds: list[Step], lag_s: float, tombstone_s: float) -> None:
    policy = msgspec.structs.replace(EAGER, lag_s=lag_s, tombstone_s=tombstone_s)
    shard = OpenShard(SimDisk(), FakeClock())
    log = shard.create("a", LogSettings(segment_bytes=500, segment_age_s=20.0, compaction=policy))
    for step in rounds:
        for batch in step.batches:
            shard.append(log, *batch)
        shard.write()
        shard.clock.advance(step.seconds)
        shard.checkpoint()
        compact_and_compare(shard, log, policy, step.max_keys)
    again = OpenShard(shard.disk.crash(random.Random(1)), shard.clock)
    assert again.records(again.log("a")) == shard.records(log)


def compact_and_compare(shard: OpenShard, log: Log, policy: Compaction, max_keys: int) -> None:
    before, now_ms = shard.records(log), shard.clock.now_ms()
    sealed = frozenset(shard.engine.keeper.checkpointed_state(log.number).sealed)
    plan = plan_compaction(log.name, shard.view(log), sealed, log.settings, now_ms)
    if plan is None:
        return
    compacted = execute(plan, shard.disk, max_keys=max_keys)
    if compacted.edit is not None:
        shard.engine.stage_edit(log, compacted.edit, shard.errors.append)
    after = shard.records(log)
    assert after == naive(before, plan.end, policy, now_ms)
    assert compacted.removed_records == len(before) - len(after)
    removed = {row.offset for row in before} - {row.offset for row in after}
    assert all(row.timestamp <= now_ms - policy.lag_s * 1000 for row in before if row.offset in removed)
    tombstones = [row.timestamp for row in after if row.key and not row.value and row.offset < plan.end]
    assert (compacted.cleaned.newest_tombstone_ms or 0) == max(tombstones, default=0)


@dataclass(slots=True)
class History:
    """What was appended and neither cut nor trimmed, and what compaction may have removed of it."""

    rows: dict[int, tuple[bytes | None, bytes]] = field(default_factory=dict)
    excused: set[int] = field(default_factory=set)
    end: int = 0

    def append(self, records: list[tuple[bytes, bytes]]) -> None:
        for key, value in records:
            self.excused |= {offset for offset, (other, _) in self.rows.items() if key and other == key}
            if key and not value:
                self.excused.add(self.end)
            self.rows[self.end] = (key or None, value)
            self.end += 1

    def cut(self, end: int) -> None:
        self.end = end
        self.rows = {offset: row for offset, row in self.rows.items() if offset < end}
        self.excused = {offset for offset in self.excused if offset < end}


@dataclass(slots=True)
class Run:
    """One log under everything at once; a compaction may be under way while other things happen."""

    shard: OpenShard
    history: History = field(default_factory=History)
    under_way: tuple[Task, Compacted] | None = None

    @property
    def log(self) -> Log:
        return self.shard.log("a")

    def do(self, name: str, number: int, records: list[tuple[bytes, bytes]]) -> None:
        if name == "append":
            self.shard.append(self.log, *records)
            self.history.append(records)
        elif name == "write":
            self.shard.write()
        elif name == "checkpoint":
            self.shard.checkpoint()
        elif name == "seal":
            self.shard.seal(self.log)
        elif name == "trim":
            self.shard.trim(self.log, min(self.log.start + number, self.log.end))
        elif name == "truncate":
            self.truncate(max(self.log.start, self.log.end - number))
        elif name == "begin":
            self.begin()
        elif name == "finish":
            self.finish()
        else:
            self.reopen(name, number)

    def truncate(self, end: int) -> None:
        self.shard.truncate(self.log, end)
        self.history.cut(end)

    def begin(self) -> None:
        if self.under_way is None and (task := self.shard.plan(self.log)) is not None:
            self.under_way = task, self.shard.housekeeper.perform(task)

    def finish(self) -> None:
        if self.under_way is not None:
            self.shard.housekeeper.finish(*self.under_way)
            self.under_way = None

    def reopen(self, how: str, seed: int) -> None:
        disk = self.shard.disk.kill() if how == "kill" else self.shard.disk.crash(random.Random(seed))
        self.shard, self.under_way = OpenShard(disk, self.shard.clock), None

    def check(self) -> None:
        log, history = self.log, self.history
        found = {row.offset: (row.key, row.value) for row in self.shard.records(log)}
        expected = {offset: row for offset, row in history.rows.items() if offset >= log.start}
        assert list(found) == sorted(found)
        assert found.items() <= expected.items()
        assert expected.keys() - found.keys() <= history.excused
        assert log.end == history.end


actions = st.tuples(
    st.sampled_from(
        ["append"] * 4
        + ["seal"] * 3
        + ["begin", "finish"] * 3
        + ["write", "checkpoint", "trim", "truncate", "kill", "crash"]
    ),
    st.integers(0, 12),
    batches,
)


@given(st.lists(actions, min_size=5, max_size=40))
@settings(max_examples=200, deadline=None)
def test_nothing_is_lost_whatever_happens_to_the_log_meanwhile(
    steps: list[tuple[str, int, list[tuple[bytes, bytes]]]],
) -> None:
    run = Run(OpenShard(SimDisk(any_subset_of_entries=True), FakeClock()))
    run.shard.create("a", LogSettings(segment_bytes=500, segment_age_s=20.0, compaction=EAGER))
    for step in steps:
        run.do(*step)
        run.check()
    run.finish()
    run.check()
    run.shard.checkpoint()
    names = {segment.path.rpartition("/")[2] for segment in segments_of(run.shard.view(run.log))}
    assert set(run.shard.segment_files(run.log)) <= names
    run.reopen("crash", len(steps))
    run.check()


@given(st.lists(batches, min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_compaction_comes_to_rest(appended: list[list[tuple[bytes, bytes]]]) -> None:
    shard = OpenShard(SimDisk(), FakeClock())
    log = shard.create("a", LogSettings(segment_bytes=500, compaction=EAGER))
    for batch in appended:
        shard.append(log, *batch)
    shard.seal(log)
    edits: list[Edit | None] = []
    for _ in range(3):
        sealed = frozenset(shard.engine.keeper.checkpointed_state(log.number).sealed)
        plan = plan_compaction(log.name, shard.view(log), sealed, log.settings, shard.clock.now_ms())
        edits.append(execute(plan, shard.disk).edit if plan is not None else None)
        if (edit := edits[-1]) is not None:
            shard.engine.stage_edit(log, edit, shard.errors.append)
        shard.checkpoint()
    assert edits[-1] is None
