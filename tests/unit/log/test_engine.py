"""The rules of a shard without its threads: what is acknowledged when, what is readable, what an opening finds."""

from __future__ import annotations

import errno
import random
from dataclasses import replace

import pytest
from tests.support.clock import FakeClock
from tests.support.engines import SMALL, Outcome, close_engine, make_log, open_engine, put, values_of
from tests.support.simdisk import SimDisk

from penstock.core.errors import (
    DiskLow,
    JournalFailed,
    LogExists,
    LogPoisoned,
    NoSuchLog,
    OffsetOutOfRange,
    OutcomeUnknown,
    TooLarge,
)
from penstock.core.types import Compression, Durability, Purpose
from penstock.log import batch as batches
from penstock.log.columns import Columns
from penstock.log.names import log_name
from penstock.log.partition import Log
from penstock.log.reading.bounds import OFFSET_GAP
from penstock.log.records import Edit, LogSettings

EIO = OSError(errno.EIO, "input/output error")


def test_a_commit_is_acknowledged_by_its_sync_and_readable_from_then_on() -> None:
    engine = open_engine(SimDisk())
    log = make_log(engine)
    outcome = put(engine, log, b"one", b"two")
    assert (log.end, log.high_watermark, outcome.calls) == (2, 0, [])
    engine.commit.step()
    assert (log.end, log.high_watermark, outcome.calls) == (2, 2, [None])


def test_interval_is_acknowledged_when_written_and_synced_within_a_second() -> None:
    clock = FakeClock()
    engine = open_engine(SimDisk(), clock=clock)
    log = make_log(engine, settings=LogSettings(durability=Durability.INTERVAL))
    outcome = put(engine, log, b"one")
    assert not outcome.is_acknowledged
    engine.commit.step()
    assert outcome.is_acknowledged
    assert engine.journal.synced_sequence < engine.journal.next_sequence
    clock.advance(1.0)
    assert engine.commit.seconds_to_sync() == 0.0
    engine.commit.step()
    assert engine.journal.synced_sequence == engine.journal.next_sequence


def test_memory_is_acknowledged_at_once() -> None:
    engine = open_engine(SimDisk())
    log = make_log(engine, settings=LogSettings(durability=Durability.MEMORY))
    assert put(engine, log, b"one").is_acknowledged
    assert log.high_watermark == 1


def test_a_commit_over_logs_of_mixed_durability_takes_the_strongest() -> None:
    engine = open_engine(SimDisk())
    careful = make_log(engine, "careful")
    quick = make_log(engine, "quick", LogSettings(durability=Durability.MEMORY))
    outcome = Outcome()
    engine.stage([(quick, Columns.of([b"q"])), (careful, Columns.of([b"c"]))], outcome)
    behind = put(engine, quick, b"behind it")
    assert (quick.high_watermark, behind.calls) == (0, [])
    engine.commit.step()
    assert outcome.is_acknowledged
    assert behind.is_acknowledged
    assert quick.high_watermark == 2


def test_who_follows_many_logs_is_told_once_a_frame_when_all_of_it_can_be_read() -> None:
    engine = open_engine(SimDisk())
    logs = [make_log(engine, f"log{i}") for i in range(3)]
    told: list[list[tuple[str, int]]] = []

    def follow(grown: list[Log]) -> None:
        told.append([(log.name, logs[-1].high_watermark) for log in grown])

    for log in logs[:2]:
        log.on_commit = follow
    engine.stage([(log, Columns.of([b"x"])) for log in logs], Outcome())
    assert told == []
    engine.commit.step()
    assert told == [[(logs[0].name, 1), (logs[1].name, 1)]]


def test_a_new_log_acknowledges_nothing_before_its_creation_is_durable() -> None:
    engine = open_engine(SimDisk())
    [log] = engine.stage_create([(log_name("m"), LogSettings(durability=Durability.MEMORY))], Outcome())
    early = put(engine, log, b"one")
    assert not early.is_acknowledged
    engine.commit.step()
    assert early.is_acknowledged
    assert put(engine, log, b"two").is_acknowledged


def test_offset_zero_is_an_ordinary_offset() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    put(engine, make_log(engine), b"first")
    close_engine(engine)
    assert values_of(open_engine(disk)) == [(0, b"first")]


def test_everything_is_there_after_a_clean_stop_without_replay() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    for i in range(50):
        put(engine, log, b"%d" % i)
    close_engine(engine)
    engine = open_engine(disk)
    assert engine.metrics.replayed_frames == 0
    assert values_of(engine) == [(i, b"%d" % i) for i in range(50)]


@pytest.mark.parametrize("seed", range(20))
def test_everything_acknowledged_is_there_after_a_power_cut(seed: int) -> None:
    disk = SimDisk(seed)
    engine = open_engine(disk)
    log = make_log(engine, settings=LogSettings(segment_bytes=2 << 10))
    acknowledged = 0
    for i in range(120):
        put(engine, log, b"%d" % i * 20)
        if i % 5 == 4:
            engine.commit.step()
            acknowledged = i + 1
        if i % 17 == 0:
            engine.keeper.step()
    found = values_of(open_engine(disk.crash(random.Random(seed))))
    assert found[:acknowledged] == [(i, b"%d" % i * 20) for i in range(acknowledged)]


def test_offsets_of_a_log_that_may_have_lost_records_are_never_given_again() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine, settings=LogSettings(durability=Durability.MEMORY))
    put(engine, log, b"lost")
    engine = open_engine(disk.crash(random.Random(1)))
    log = engine.log("a")
    assert log.start == 0
    assert log.end == log.high_watermark == OFFSET_GAP
    assert log.bounds.epochs[-1].previous_end == 0
    assert log.bounds.skipped() == OFFSET_GAP


def test_a_clean_stop_skips_no_offsets() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    put(engine, make_log(engine, settings=LogSettings(durability=Durability.MEMORY)), b"kept")
    close_engine(engine)
    assert open_engine(disk).log("a").end == 1


def test_a_failed_journal_sync_leaves_the_outcome_open_and_stops_the_shard() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    disk.fail("sync", "journal", EIO)
    outcome = put(engine, log, b"?")
    engine.commit.step()
    [error] = outcome.calls
    assert isinstance(error, OutcomeUnknown)
    assert isinstance(log.fault, LogPoisoned)
    assert log.high_watermark == 0
    with pytest.raises(JournalFailed):
        put(engine, engine.log("@catalogue"), b"no more")
    assert values_of(open_engine(disk.kill())) in ([], [(0, b"?")])


def test_a_segment_whose_sync_failed_is_written_anew() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    put(engine, log, b"before")
    engine.commit.step()
    assert engine.keeper.write_checkpoint()
    put(engine, log, b"after")
    engine.commit.step()
    disk.fail("sync", ".seg", EIO)
    assert not engine.keeper.write_checkpoint()
    assert engine.keeper.write_checkpoint()
    assert log.fault is None
    for seed in range(10):
        reopened = open_engine(disk.crash(random.Random(seed)))
        assert values_of(reopened) == [(0, b"before"), (1, b"after")]


def test_a_log_whose_segment_cannot_be_written_anew_is_stopped_and_holds_nobody_up() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    bad, good = make_log(engine, "bad"), make_log(engine, "good")
    put(engine, bad, b"kept")
    engine.commit.step()
    assert engine.keeper.write_checkpoint()
    put(engine, bad, b"aside")
    engine.commit.step()
    disk.fail("sync", "logs/bad", EIO, times=100)
    engine.keeper.write_checkpoint()
    assert isinstance(bad.fault, LogPoisoned)
    with pytest.raises(LogPoisoned):
        put(engine, bad, b"refused")
    for _ in range(100):
        assert put(engine, good, b"x" * 1000)
        engine.commit.step()
        engine.keeper.step()
    [state] = [state for state in engine.keeper.checkpoint.logs if state.number == bad.number]
    assert state.aside and all(disk.exists(path) for path in state.aside)
    reopened = open_engine(disk.kill())
    assert values_of(reopened, "bad") == [(0, b"kept"), (1, b"aside")]
    assert reopened.log("bad").fault is None
    assert len(values_of(reopened, "good")) == 100


def test_a_log_whose_directory_cannot_be_synced_is_stopped_and_holds_nobody_up() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    bad, good = make_log(engine, "bad"), make_log(engine, "good")
    put(engine, bad, b"aside")
    put(engine, good, b"kept")
    engine.commit.step()
    disk.fail("sync_directory", f"logs/bad@{bad.number}", EIO, times=100)
    engine.keeper.write_checkpoint()
    assert engine.keeper.write_checkpoint()
    assert isinstance(bad.fault, LogPoisoned)
    reopened = open_engine(disk.crash(random.Random(0)))
    assert values_of(reopened, "good") == [(0, b"kept")]
    assert values_of(reopened, "bad") == [(0, b"aside")]


def test_a_failed_commit_is_atomic_over_its_logs() -> None:
    for seed in range(60):
        disk = SimDisk(seed)
        engine = open_engine(disk)
        first, second = make_log(engine, "first"), make_log(engine, "second")
        engine.stage([(first, Columns.of([b"1" * 900])), (second, Columns.of([b"2" * 900]))], Outcome())
        disk.crash_at = disk.calls + 1 + seed % 2
        try:
            engine.commit.step()
        except BaseException as crash:
            assert type(crash).__name__ == "SimulatedCrash"
        reopened = open_engine(disk.crash(random.Random(seed)))
        assert len(values_of(reopened, "first")) == len(values_of(reopened, "second"))


def test_a_commit_over_the_limit_is_refused_with_its_size_and_changes_nothing() -> None:
    engine = open_engine(SimDisk())
    log = make_log(engine)
    with pytest.raises(TooLarge) as caught:
        put(engine, log, b"x" * (9 << 10))
    assert caught.value.limit == SMALL.journal.max_frame_bytes
    assert log.end == 0


def test_names_are_unique_and_numbers_are_never_used_again() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    with pytest.raises(LogExists):
        make_log(engine)
    put(engine, log, b"old")
    engine.stage_delete(log, Outcome())
    engine.commit.step()
    with pytest.raises(NoSuchLog):
        engine.log("a")
    with pytest.raises(NoSuchLog):
        put(engine, log, b"late")
    close_engine(engine)
    engine = open_engine(disk)
    again = make_log(engine)
    assert again.number > log.number
    assert values_of(engine) == []
    assert disk.list(f"logs/a@{log.number}") == []


def test_trim_and_purge_remove_whole_segments_and_move_the_start() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine, settings=LogSettings(segment_bytes=1 << 10))
    for i in range(40):
        put(engine, log, b"%02d" % i * 50)
    engine.commit.step()
    engine.keeper.write_checkpoint()
    before = len(disk.list(f"logs/a@{log.number}"))
    engine.stage_edit(log, Edit(start=25), Outcome())
    engine.commit.step()
    assert [offset for offset, _ in values_of(engine)] == list(range(25, 40))
    assert len(disk.list(f"logs/a@{log.number}")) < before
    engine.stage_edit(log, Edit(start=log.end), Outcome())
    engine.commit.step()
    engine.keeper.write_checkpoint()
    assert values_of(engine) == []
    put(engine, log, b"next")
    engine.commit.step()
    assert values_of(open_engine(disk.crash(random.Random(0)))) == [(40, b"next")]


def test_a_start_beyond_the_end_is_refused() -> None:
    engine = open_engine(SimDisk())
    log = make_log(engine)
    with pytest.raises(OffsetOutOfRange):
        engine.stage_edit(log, Edit(start=1), Outcome())


def test_truncate_gives_the_offsets_to_other_records() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine, settings=LogSettings(segment_bytes=1 << 10))
    for i in range(30):
        put(engine, log, b"old %02d" % i * 20)
        engine.commit.step()
        engine.keeper.step()
    engine.keeper.write_checkpoint()
    engine.stage_truncate(log, 12, 12, None, Outcome())
    put(engine, log, b"new")
    engine.commit.step()
    for disk_after in (disk.kill(), disk.crash(random.Random(3))):
        found = values_of(open_engine(disk_after))
        assert [offset for offset, _ in found] == list(range(13))
        assert found[12] == (12, b"new")


def test_a_commit_that_was_cut_off_does_not_move_the_high_watermark_of_what_replaced_it() -> None:
    engine = open_engine(SimDisk())
    log = make_log(engine)
    put(engine, log, b"cut off", b"cut off")
    staged_first = engine.commit
    engine.stage_truncate(log, 0, 0, None, Outcome())
    put(engine, log, b"new", b"new")
    assert log.high_watermark == 0
    staged_first.step()
    assert log.high_watermark == 2


def test_raw_batches_keep_their_offsets_and_epochs() -> None:
    engine = open_engine(SimDisk())
    log = make_log(engine)
    batch = batches.encode(Columns.of([b"a", b"b"]))
    batches.seal(batch, 100, 7, 1)
    engine.stage_raw(log, batch, Outcome())
    engine.commit.step()
    assert (log.end, log.bounds.epoch) == (102, 7)
    assert values_of(engine) == [(100, b"a"), (101, b"b")]
    with pytest.raises(ValueError, match="does not continue"):
        engine.stage_raw(log, batch, Outcome())


def test_below_the_reserve_publishes_are_refused_and_settlements_go_on() -> None:
    disk = SimDisk(capacity_bytes=1 << 20)
    engine = open_engine(disk, replace(SMALL, disk_reserve_bytes=600 << 10))
    log = make_log(engine, settings=LogSettings(segment_bytes=4 << 10))
    refused = False
    for _ in range(400):
        try:
            engine.refuse_if_low()
        except DiskLow as error:
            assert error.free_bytes < error.reserve_bytes
            refused = True
            break
        put(engine, log, b"x" * 4000)
        engine.commit.step()
        engine.keeper.step()
    assert refused
    settled = put(engine, log, b"settled", purpose=Purpose.SETTLE)
    engine.stage_edit(log, Edit(start=log.end - 1), Outcome())
    engine.commit.step()
    assert settled.is_acknowledged
    engine.keeper.flush_all()
    engine.keeper.write_checkpoint()
    engine.keeper.flush_all()
    engine.refuse_if_low()


def test_timestamps_never_decrease_even_when_the_clock_does() -> None:
    disk, clock = SimDisk(), FakeClock()
    engine = open_engine(disk, clock=clock)
    log = make_log(engine)
    put(engine, log, b"1")
    newest = log.last_timestamp
    close_engine(engine)
    clock.wall_ms -= 500_000
    engine = open_engine(disk, clock=clock)
    put(engine, engine.log("a"), b"2")
    assert engine.log("a").last_timestamp >= newest


@pytest.mark.parametrize("compression", list(Compression))
def test_every_compression_survives_reopening(compression: Compression) -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    put(engine, make_log(engine, settings=LogSettings(compression=compression)), b"abc" * 500, b"")
    engine.commit.step()
    assert values_of(open_engine(disk.kill())) == [(0, b"abc" * 500), (1, b"")]


def test_settings_changes_are_durable() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    engine.stage_change([(log, LogSettings(segment_bytes=4096))], Outcome())
    engine.commit.step()
    assert open_engine(disk.crash(random.Random(0))).log("a").settings.segment_bytes == 4096


def test_the_journal_stays_within_its_bound() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    for _ in range(500):
        put(engine, log, b"x" * 2000)
        engine.commit.step()
    assert len(disk.list("journal")) * SMALL.journal.file_bytes <= SMALL.journal.limit_bytes


def test_tail_accounting_returns_to_zero() -> None:
    engine = open_engine(SimDisk())
    log = make_log(engine)
    for i in range(30):
        put(engine, log, b"x" * 100)
        if i == 20:
            engine.stage_truncate(log, 10, 10, None, Outcome())
    engine.commit.step()
    engine.keeper.step()
    engine.keeper.flush_all()
    assert engine.usage.tail == 0
    assert log.tail == []
    assert engine.usage.staged == [0, 0]


def test_another_thread_may_step_and_tells_of_it_itself() -> None:
    engine = open_engine(SimDisk())
    log = make_log(engine)
    outcome = put(engine, log, b"one")
    progress = engine.commit.try_step()
    assert progress is not None
    assert (outcome.calls, log.high_watermark, engine.commit.is_idle) == ([], 0, True)
    engine.report(progress)
    assert (outcome.calls, log.high_watermark) == ([None], 1)
    engine.report(progress)
    assert outcome.calls == [None]


def test_a_step_that_needs_another_journal_file_is_left_to_the_storage_thread() -> None:
    engine = open_engine(SimDisk(), SMALL)
    log = make_log(engine)
    outcomes = []
    while True:
        outcomes.append(put(engine, log, bytes(3000)))
        progress = engine.commit.try_step()
        if progress is None:
            break
        engine.report(progress)
    assert not outcomes[-1].calls
    engine.commit.step()
    assert all(outcome.is_acknowledged for outcome in outcomes)


def test_a_sync_that_fails_in_another_thread_fails_the_journal_too() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    outcome = put(engine, log, b"one")
    disk.fail("sync", "journal", EIO)
    assert engine.commit.try_step() is None
    assert [type(call) for call in outcome.calls] == [OutcomeUnknown]
    with pytest.raises(LogPoisoned):
        put(engine, log, b"two")
