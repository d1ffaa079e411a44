from __future__ import annotations

import random
from dataclasses import replace

from tests.support.clock import FakeClock
from tests.support.compacting import OpenShard, segments_of
from tests.support.simdisk import SimDisk
from tests.support.small_shard import SmallShard

from penstock.log.partition import Log
from penstock.log.records import LogSettings, Retention, SegmentInfo
from penstock.log.segments.segments import ActiveView, SealedSegment, SparseIndex, WrittenView
from penstock.log.upkeep.retention import Removed, SegmentLimits, decide, removed_by, segment_limits

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


# Bounds below a segment


def fill(shard: OpenShard, log: Log, batches: int, value: bytes = b"x", every_s: float = 0.0) -> None:
    """With batches of ten; now and then what the keeper and the housekeeper do in a minute."""
    for number in range(batches):
        shard.append(log, *[(b"k", value)] * 10)
        shard.clock.advance(every_s)
        if number % 10 == 9:
            shard.checkpoint()
            shard.housekeeper.run()


def test_a_bound_of_records_far_below_a_segment_holds_to_within_an_eighth() -> None:
    shard = OpenShard(SimDisk(), FakeClock())
    log = shard.create("a", LogSettings(retention=Retention(records=800)))
    fill(shard, log, 300)
    assert 800 <= log.end - log.start <= 800 + 100 + 100, "an eighth, and what came since the last look"
    assert len(shard.segment_files(log)) <= 12


def test_a_bound_of_bytes_far_below_a_segment_holds_to_within_an_eighth() -> None:
    shard = OpenShard(SimDisk(), FakeClock())
    log = shard.create("a", LogSettings(retention=Retention(bytes=1 << 20)))
    fill(shard, log, 300, b"x" * 1000)
    kept = sum(segment.info.bytes for segment in segments_of(shard.view(log)))
    assert 1 << 20 <= kept <= (1 << 20) + (1 << 17) + 100 * 1100
    assert len(shard.segment_files(log)) <= 12


def test_a_bound_of_time_far_below_a_segment_holds_to_within_an_eighth() -> None:
    shard = OpenShard(SimDisk(), FakeClock())
    log = shard.create("a", LogSettings(retention=Retention(time_s=300)))
    fill(shard, log, 300, every_s=3.0)
    age_s = (shard.clock.wall_ms - shard.records(log)[0].timestamp) / 1000
    assert 300 <= age_s <= 300 + 37.5 + 33
    assert len(shard.segment_files(log)) <= 12


def test_an_idle_log_that_is_reopened_again_and_again_grows_old() -> None:
    disk, clock = SimDisk(), FakeClock()
    shard = SmallShard(disk, clock)
    shard.append(shard.create("a", LogSettings(retention=Retention(time_s=800))), b"x")
    for _ in range(4):
        shard.close()
        clock.advance(30)  # an eighth of the bound is 100 s
        shard = SmallShard(disk, clock)
    assert shard.engine.keeper.write_checkpoint()
    assert len(shard.engine.keeper.views[shard.engine.log("a").number].sealed) == 1


def test_small_bounds_make_no_tiny_files() -> None:
    assert segment_limits(LogSettings(retention=Retention(1.0, 100, 5))) == SegmentLimits(64 << 10, 1.0, 64)
    assert segment_limits(LogSettings()) == (64 << 20, 3600.0, 1 << 62)
    assert segment_limits(LogSettings(retention=Retention(7 * 86400, 10 << 30)))[:2] == (64 << 20, 3600.0)
    assert segment_limits(LogSettings(segment_bytes=400, retention=Retention(bytes=1 << 30))).bytes == 400


def test_a_bound_that_is_set_later_reaches_what_is_in_the_last_segment() -> None:
    shard = OpenShard(SimDisk(), FakeClock())
    log = shard.create("a", LogSettings())
    fill(shard, log, 100)
    assert (log.start, len(shard.view(log).sealed)) == (0, 0)
    shard.engine.stage_change([(log, LogSettings(retention=Retention(records=80)))], shard.errors.append)
    shard.checkpoint()
    fill(shard, log, 20)
    assert 80 <= log.end - log.start <= 80 + 64 + 100


def test_old_segments_are_sealed_and_let_go_while_nothing_else_happens() -> None:
    shard = OpenShard(SimDisk(), FakeClock())
    shard.engine.keeper._options = replace(shard.engine.keeper._options, checkpoint_s=30.0)
    log = shard.create("a", LogSettings(retention=Retention(time_s=300)))
    fill(shard, log, 10)
    for _ in range(10):
        shard.clock.advance(60)
        shard.write()
        shard.housekeeper.run()
    assert log.start == log.end == 100


def test_a_wall_clock_that_is_set_forward_makes_nothing_too_old() -> None:
    shard, log = filled(LogSettings(segment_bytes=400, retention=Retention(time_s=3600)))
    shard.clock.advance(60)
    shard.clock.wall_ms += 365 * 24 * 3_600_000
    shard.housekeeper.run()
    assert log.start == 0
    shard.clock.advance(3600)
    shard.housekeeper.run()
    assert log.start > 0


def test_a_wall_clock_that_is_set_back_makes_nothing_too_old() -> None:
    shard, log = filled(LogSettings(segment_bytes=400, retention=Retention(time_s=600)))
    shard.clock.wall_ms -= 3_600_000
    shard.clock.advance(60)
    shard.housekeeper.run()
    other = shard.create("b", log.settings)
    for _ in range(20):
        shard.append(other, (b"k", b"x" * 40))
    shard.checkpoint()
    shard.clock.advance(500)
    shard.housekeeper.run()
    assert (log.start, other.start) == (0, 0)
    shard.clock.advance(3700)
    shard.housekeeper.run()
    assert log.start > 0 and other.start > 0
