from __future__ import annotations

import random

from tests.support.clock import FakeClock
from tests.support.compacting import OpenShard
from tests.support.simdisk import SimDisk

from penstock.log.partition import Log
from penstock.log.records import LogSettings, Retention, SegmentInfo
from penstock.log.retention import Removed, decide, removed_by
from penstock.log.segments import ActiveView, SealedSegment, SparseIndex, WrittenView

NOW_MS = 1_000_000
# Four sealed segments of ten records and 100 bytes, one every 100 s, and an active one of five.
SEALED = [SegmentInfo(10 * i, 0, 10 * i + 10, 100, 10, NOW_MS - 500_000, NOW_MS - 100_000 * (4 - i)) for i in range(4)]
ACTIVE = ActiveView("active", SegmentInfo(40, 0, 45, 50, 5, NOW_MS, NOW_MS), SparseIndex())
VIEW = WrittenView(0, 45, tuple(SealedSegment(f"{info.base}", info) for info in SEALED), ACTIVE)


def start(policy: Retention | None, floor: int | None = None, checkpointed: int = 4) -> int | None:
    return decide(VIEW, SEALED[:checkpointed], policy, NOW_MS, floor)


def test_segments_whose_newest_record_is_too_old_go() -> None:
    assert start(Retention(time_s=250)) == 20
    assert start(Retention(time_s=400)) is None
    assert start(Retention(time_s=399)) == 10


def test_what_is_left_still_holds_the_bytes_and_records_the_policy_keeps() -> None:
    assert [start(Retention(bytes=bound)) for bound in (450, 351, 350, 349, 50, 0)] == [None, None, 10, 10, 40, 40]
    assert [start(Retention(records=bound)) for bound in (45, 36, 35, 25, 5, 0)] == [None, None, 10, 20, 40, 40]


def test_the_bound_that_takes_most_decides() -> None:
    assert start(Retention(time_s=399, records=25)) == 20


def test_without_a_policy_or_with_an_empty_one_everything_stays() -> None:
    assert start(None) is None
    assert start(Retention()) is None


def test_only_checkpointed_segments_go() -> None:
    assert start(Retention(records=0), checkpointed=3) == 30
    assert start(Retention(records=0), checkpointed=0) is None
    assert decide(VIEW, SEALED[1:], Retention(records=0), NOW_MS) is None


def test_settled_segments_go_up_to_the_lowest_floor_and_never_past_it() -> None:
    assert [start(None, floor) for floor in (0, 9, 10, 39, 40, 45)] == [None, None, 10, 30, 40, 40]


def test_no_group_means_keep() -> None:
    assert start(None, floor=None) is None


def test_time_size_and_count_pass_the_floors_of_groups() -> None:
    assert start(Retention(records=15), floor=0) == 30


def test_a_start_inside_a_segment_never_moves_back() -> None:
    view = WrittenView(15, 45, VIEW.sealed[1:], ACTIVE)
    assert decide(view, SEALED, Retention(records=30), NOW_MS) is None
    assert decide(view, SEALED, Retention(records=25), NOW_MS) == 20


def test_an_empty_log_keeps_its_start() -> None:
    assert decide(WrittenView(7, 7), [], Retention(records=0, bytes=0, time_s=0), NOW_MS, 7) is None


def test_what_goes_is_counted() -> None:
    assert removed_by(VIEW, 20) == Removed(2, 20, 200)


def filled(settings: LogSettings) -> tuple[OpenShard, Log]:
    shard = OpenShard(SimDisk(), FakeClock())
    log = shard.create("a", settings)
    for i in range(20):
        shard.append(log, (b"k", b"%d" % i * 40))
    shard.checkpoint()
    return shard, log


def test_retention_moves_the_start_unlinks_the_files_and_survives_a_crash() -> None:
    shard, log = filled(LogSettings(segment_bytes=400, retention=Retention(records=6)))
    before, files = shard.pairs(log), len(shard.segment_files(log))
    shard.housekeeper.run()
    assert log.start > 0
    assert shard.pairs(log) == before[log.start :]
    assert 6 <= log.end - log.start <= 8
    shard.checkpoint()
    metrics = shard.engine.metrics
    assert metrics.retained_away_records == log.start
    assert metrics.segments_removed == files - len(shard.segment_files(log)) > 0
    again = OpenShard(shard.disk.crash(random.Random(3)), shard.clock)
    assert again.pairs(again.log("a")) == before[log.start :]


def test_the_floor_of_the_groups_is_asked_for_where_nothing_else_bounds_the_log() -> None:
    shard, log = filled(LogSettings(segment_bytes=400))
    shard.housekeeper.run()
    assert log.start == 0
    shard.housekeeper._floor = lambda log: 9
    shard.housekeeper.run()
    assert 0 < log.start <= 9


def test_time_retention_reaches_the_last_segment_of_a_log_that_gets_no_more_records() -> None:
    shard, log = filled(LogSettings(retention=Retention(time_s=60)))
    shard.seal(log)
    shard.housekeeper.run()
    assert shard.records(log) == []
    assert log.start == log.end == 20


def test_housekeeping_is_due_after_its_interval() -> None:
    shard, _ = filled(LogSettings())
    assert not shard.housekeeper.due()
    shard.clock.advance(60)
    assert shard.housekeeper.due()
    shard.housekeeper.run()
    assert not shard.housekeeper.due()
