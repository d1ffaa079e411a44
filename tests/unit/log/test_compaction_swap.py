"""What happens to a log between the plan of a compaction and its swap, and around a crash."""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.support.clock import FakeClock
from tests.support.compacting import EAGER, OpenShard, segments_of
from tests.support.simdisk import SimDisk, SimulatedCrash

from penstock.log.partition import Log
from penstock.log.records import LogSettings, Retention
from penstock.log.upkeep.compaction import Compacted
from penstock.log.upkeep.housekeeping import Task

SETTINGS = LogSettings(segment_bytes=400, compaction=EAGER)


def filled(records: int = 24) -> tuple[OpenShard, Log]:
    """Every other record has a key of its own."""
    shard = OpenShard(SimDisk(), FakeClock())
    log = shard.create("a", SETTINGS)
    for i in range(records):
        shard.append(log, (b"k" if i % 2 else b"u%d" % i, b"%d" % i * 20))
    shard.seal(log)
    return shard, log


def begun(shard: OpenShard) -> tuple[Task, Compacted]:
    task = shard.plan(shard.log("a"))
    assert task is not None
    compacted = shard.housekeeper.perform(task)
    assert compacted.edit is not None
    assert compacted.edit.added
    return task, compacted


def files_are_those_of_the_view(shard: OpenShard, log: Log) -> bool:
    shard.checkpoint()
    names = {segment.path.rpartition("/")[2] for segment in segments_of(shard.view(log))}
    return set(shard.segment_files(log)) == names


def survives(shard: OpenShard, log: Log) -> bool:
    """The same records after a crash and after a kill, now."""
    expected = shard.pairs(log)
    disks = [shard.disk.kill(), *(shard.disk.crash(random.Random(seed)) for seed in range(5))]
    shards = [OpenShard(disk, shard.clock) for disk in disks]
    return all(again.pairs(again.log("a")) == expected for again in shards)


def test_records_appended_meanwhile_stay() -> None:
    shard, log = filled()
    task, compacted = begun(shard)
    shard.append(log, (b"k", b"meanwhile"))
    shard.housekeeper.finish(task, compacted)
    assert [row.offset for row in shard.records(log)] == [*range(0, 24, 2), 23, 24]
    assert survives(shard, log)
    assert files_are_those_of_the_view(shard, log)


def test_a_log_trimmed_meanwhile_stays_as_it_is_and_the_new_files_go() -> None:
    shard, log = filled()
    task, compacted = begun(shard)
    expected = [pair for pair in shard.pairs(log) if pair[0] >= 10]
    shard.trim(log, 10)
    shard.housekeeper.finish(task, compacted)
    assert shard.pairs(log) == expected
    assert survives(shard, log)
    assert files_are_those_of_the_view(shard, log)
    shard.compact()
    assert [row.offset for row in shard.records(log)] == [*range(10, 24, 2), 23]
    assert survives(shard, log)


def test_a_start_inside_the_first_segment_does_not_stop_the_swap() -> None:
    shard, log = filled()
    task, compacted = begun(shard)
    shard.trim(log, 1)
    shard.housekeeper.finish(task, compacted)
    assert [row.offset for row in shard.records(log)] == [*range(2, 24, 2), 23]
    assert survives(shard, log)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("end", [0, 5, 12, 23])
def test_a_log_cut_meanwhile_stays_as_it_is_even_if_it_grew_back(end: int, folded: bool) -> None:
    shard, log = filled()
    task, compacted = begun(shard)
    expected = shard.pairs(log)[:end]
    shard.truncate(log, end)
    for i in range(end, 24):
        shard.append(log, (b"n%d" % i, b"%d" % i * 20))
    expected += [(i, b"n%d" % i, b"%d" % i * 20) for i in range(end, 24)]
    if folded:
        shard.seal(log)
    shard.housekeeper.finish(task, compacted)
    assert shard.pairs(log) == expected
    assert survives(shard, log)
    assert files_are_those_of_the_view(shard, log)


def test_nothing_is_planned_from_a_view_that_lacks_a_cut_or_a_swap() -> None:
    shard, log = filled()
    shard.truncate(log, 12)
    assert shard.plan(log) is None
    shard.checkpoint()
    task, compacted = begun(shard)
    shard.housekeeper.finish(task, compacted)
    shard.commit()
    assert shard.plan(log) is None


def test_a_cut_after_the_swap_was_staged_cuts_what_the_swap_left() -> None:
    shard, log = filled()
    task, compacted = begun(shard)
    shard.housekeeper.finish(task, compacted)
    shard.truncate(log, 13)
    shard.append(log, (b"z", b"after"))
    assert [row.offset for row in shard.records(log)] == [*range(0, 13, 2), 13]
    assert survives(shard, log)
    assert files_are_those_of_the_view(shard, log)


def test_a_log_deleted_meanwhile_leaves_nothing() -> None:
    for folded in (False, True):
        shard, log = filled()
        task, compacted = begun(shard)
        shard.engine.stage_delete(log, shard.errors.append)
        if folded:
            shard.checkpoint()
        shard.housekeeper.finish(task, compacted)
        shard.checkpoint()
        assert shard.disk.list(task.plan.directory) == []
        assert not shard.disk.exists(task.plan.directory)
        OpenShard(shard.disk.crash(random.Random(1)), shard.clock)


def test_a_log_deleted_before_the_copy_makes_it_fail_quietly(caplog: pytest.LogCaptureFixture) -> None:
    shard, log = filled()
    task = shard.plan(log)
    assert task is not None
    shard.engine.stage_delete(log, shard.errors.append)
    shard.checkpoint()
    with pytest.raises(FileNotFoundError) as raised:
        shard.housekeeper.perform(task)
    shard.housekeeper.fail(task, raised.value)
    assert "compaction failed" not in caplog.text


def test_a_file_made_while_the_directory_is_being_removed_does_not_stop_the_keeper() -> None:
    shard, log = filled()
    task, compacted = begun(shard)
    directory, listed = task.plan.directory, shard.disk.list
    shard.engine.stage_delete(log, shard.errors.append)
    shard.disk.list = lambda path: [] if path == directory else listed(path)  # type: ignore[method-assign]  # a race
    shard.checkpoint()
    shard.disk.list = listed  # type: ignore[method-assign]  # over
    shard.housekeeper.finish(task, compacted)
    for name in shard.disk.list(directory):
        assert not name.endswith(".1.seg")


def test_a_swap_that_failed_to_commit_keeps_its_files_for_the_recovery() -> None:
    shard, log = filled()
    old = shard.pairs(log)
    task, compacted = begun(shard)
    shard.housekeeper.finish(task, compacted)
    shard.disk.fail("sync", "journal", OSError(5, "Input/output error"))
    shard.commit()
    assert log.fault is not None
    new = [pair for pair in old if pair[0] % 2 == 0 or pair[0] == 23]
    again = OpenShard(shard.disk.kill(), shard.clock)
    assert again.pairs(again.log("a")) == new
    for seed in range(10):
        again = OpenShard(shard.disk.crash(random.Random(seed)), shard.clock)
        assert again.pairs(again.log("a")) in (old, new)


def test_a_crash_at_any_call_leaves_the_old_records_or_the_new_ones() -> None:
    shard, log = filled()
    old = shard.pairs(log)
    new = [pair for pair in old if pair[0] % 2 == 0 or pair[0] == 23]
    crashes = 0
    while True:
        crashes += 1
        trial = OpenShard(shard.disk.kill(), shard.clock)
        trial.disk.crash_at = trial.disk.calls + crashes
        try:
            trial.compact()
            trial.append(trial.log("a"), (b"", b"later"))
            trial.checkpoint()
        except SimulatedCrash:
            check_after_crash(trial, random.Random(crashes), old, new)
        else:
            break
    assert crashes > 20


Pairs = list[tuple[int, bytes | None, bytes]]


def check_after_crash(crashed: OpenShard, rng: random.Random, old: Pairs, new: Pairs) -> None:
    later = (24, None, b"later")
    for _ in range(3):
        again = OpenShard(crashed.disk.crash(rng), crashed.clock)
        log = again.log("a")
        assert again.pairs(log) in (old, new, [*new, later])
        assert files_are_those_of_the_view(again, log)
        again.compact()
        assert again.pairs(log) in (new, [*new, later])
        assert survives(again, log)


def with_a_hole_at_the_front() -> tuple[OpenShard, Log]:
    """One compacted segment of offsets 0 to 9, with records only from 8 on."""
    shard = OpenShard(SimDisk(), FakeClock())
    log = shard.create("a", LogSettings(compaction=EAGER))
    for i in range(10):
        shard.append(log, (b"k%d" % (i % 2), b"%d" % i))
    shard.seal(log)
    shard.compact()
    shard.checkpoint()
    assert [row.offset for row in shard.records(log)] == [8, 9]
    return shard, log


def test_a_cut_below_all_that_compaction_left_leaves_no_segment() -> None:
    shard, log = with_a_hole_at_the_front()
    shard.truncate(log, 5)
    shard.seal(log)
    assert shard.view(log).sealed == ()
    assert survives(shard, log)
    shard.append(log, (b"k", b"again"))
    assert shard.pairs(log) == [(5, b"k", b"again")]
    assert survives(shard, log)


def test_two_cuts_at_once_into_what_compaction_left_are_folded_one_after_the_other() -> None:
    shard, log = with_a_hole_at_the_front()
    shard.engine.stage_truncate(log, 9, 9, None, shard.errors.append)
    shard.engine.stage_truncate(log, 5, 5, None, shard.errors.append)
    shard.append(log, (b"k", b"again"))
    assert shard.pairs(log) == [(5, b"k", b"again")]
    assert survives(shard, log)


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_second_attempt_after_one_that_came_too_late_survives_a_replay_of_both(trimmed: bool) -> None:
    """The two write files of the same names: what the replay makes of the first must not touch those of the second."""
    shard, log = filled()
    task, compacted = begun(shard)
    if trimmed:
        shard.trim(log, 4)
    else:
        shard.truncate(log, 23)
    shard.housekeeper.finish(task, compacted)
    shard.write()
    task, compacted = begun(shard)
    shard.housekeeper.finish(task, compacted)
    assert len(shard.records(log)) < 18
    assert survives(shard, log)


def test_retention_waits_for_a_compaction_of_the_same_log() -> None:
    shard, log = filled()
    task, compacted = begun(shard)
    settings = msgspec.structs.replace(SETTINGS, retention=Retention(records=3))
    shard.engine.stage_change([(log, settings)], shard.errors.append)
    shard.housekeeper.retain()
    assert shard.housekeeper.plan() is None
    assert log.start == 0
    shard.housekeeper.finish(task, compacted)
    shard.checkpoint()
    assert len(shard.records(log)) == 13
    shard.housekeeper.retain()
    assert 3 <= len(shard.records(log)) < 13
    assert survives(shard, log)


def test_after_a_cut_the_offsets_that_were_cleaned_count_as_new() -> None:
    shard = OpenShard(SimDisk(), FakeClock())
    log = shard.create("a", LogSettings(compaction=msgspec.structs.replace(EAGER, dirty_ratio=0.5)))
    shard.append(log, *[(b"k", b"%d" % i) for i in range(20)])
    shard.seal(log)
    shard.compact()
    shard.truncate(log, 0)
    shard.append(log, (b"k", b"new"), (b"k", b"newer"))
    shard.seal(log)
    shard.compact()
    assert shard.pairs(log) == [(1, b"k", b"newer")]
