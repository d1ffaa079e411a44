"""Cases that random walks have found, each told step by step."""

from __future__ import annotations

import errno
import os
import random

import pytest
from tests.sim.reading import files_below
from tests.support.clock import FakeClock
from tests.support.simdisk import SimDisk

from penstock.core.errors import JournalFailed, LogPoisoned, PenstockError
from penstock.core.metrics import ShardMetrics
from penstock.core.types import Durability, FilePosition, Generation, Sequence
from penstock.log import batch as batches
from penstock.log.columns import Columns
from penstock.log.engine import Engine
from penstock.log.journal.frames import FRAME_HEADER_BYTES
from penstock.log.journal.journal import FILE_HEADER_BYTES, JournalOptions
from penstock.log.journal.marks import Mark, write_marks
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.reading.reading import LogReader
from penstock.log.records import Edit, LogSettings
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.upkeep.recovery import recover

OPTIONS = ShardOptions(
    journal=JournalOptions(16 << 10, 64 << 10, 12 << 10), keeper=KeeperOptions(flush_bytes=1), disk_reserve_bytes=0
)
CUTS = range(40)


class Acks:
    """What was said about the commits."""

    def __init__(self) -> None:
        self.errors: list[PenstockError | None] = []

    def __call__(self, error: PenstockError | None) -> None:
        self.errors.append(error)


def opened(disk: SimDisk, options: ShardOptions = OPTIONS) -> Engine:
    clock, metrics = FakeClock(), ShardMetrics()
    recovered = recover(disk, clock, options, metrics)
    assert not recovered.faults
    return Engine(disk, clock, options, metrics, recovered, lambda call: call())


def created(engine: Engine, name: str = "a", settings: LogSettings | None = None) -> Log:
    [log] = engine.stage_create([(log_name(name), settings or LogSettings())], Acks())
    engine.commit.step()
    return log


def append(engine: Engine, log: Log, *values: bytes) -> Acks:
    acks = Acks()
    engine.stage([(log, Columns.of(list(values)))], acks)
    engine.commit.step()
    return acks


def values_of(disk: SimDisk, engine: Engine, name: str = "a") -> list[bytes]:
    log = engine.log(name)
    found = LogReader(disk, engine.keeper.views).batches(log, log.start)
    return [row.value for data in found for row in batches.Batch.parse(data)]


def truncate(engine: Engine, log: Log, end: int) -> None:
    engine.stage_truncate(log, end, end, None, Acks())
    engine.commit.step()


def test_a_journal_file_allocated_by_a_killed_process_survives_a_power_cut() -> None:
    """Its name was in the directory, but not durably, when the next process began to write to it."""
    first = SimDisk()
    engine = opened(first)
    created(engine)
    first.crash_at = first.calls + 3  # create, allocate, then the sync of the directory
    with pytest.raises(BaseException, match="sync_directory 'journal'"):
        engine.journal.prepare()
    second = first.kill()
    assert "journal/0001" in list(files_below(second, "journal"))
    engine = opened(second)
    assert append(engine, engine.log("a"), b"kept").errors == [None]
    for seed in CUTS:
        third = second.crash(random.Random(seed))
        assert values_of(third, opened(third)) == [b"kept"]


@pytest.mark.parametrize("luck", range(5))
def test_what_recovery_found_in_the_cache_after_a_failed_sync_stays(luck: int) -> None:
    """After the failed sync the cache counts as clean: syncing it again writes nothing."""
    first = SimDisk(luck)
    engine = opened(first)
    log = created(engine)
    first.fail("sync", "journal/", OSError(errno.EIO, os.strerror(errno.EIO)))
    assert isinstance(append(engine, log, b"perhaps").errors[0], PenstockError)
    second = first.kill()
    assert values_of(second, opened(second)) == [b"perhaps"]
    for seed in CUTS:
        third = second.crash(random.Random(seed))
        assert values_of(third, opened(third)) == [b"perhaps"]


def test_frames_of_an_earlier_use_of_a_journal_file_are_not_taken_for_new_ones() -> None:
    """Frames of one size, of which the first is torn: those behind it lie just where the next use expects its own."""
    disk = SimDisk()
    engine = opened(disk)
    for _ in range(4):
        engine.stage_barrier(Acks())
    engine.commit.step()
    file = disk.open("journal/0000")
    file.write(FilePosition(FILE_HEADER_BYTES), [bytes(FRAME_HEADER_BYTES)])
    file.sync()
    write_marks(disk, Mark(0, Generation(1), Sequence(0), Sequence(0)))  # as if the frames had not been synced
    engine = opened(disk.kill())
    assert engine.journal.next_sequence == 0
    disk = _reopened_in_slot_0(engine)
    again = opened(disk.kill())
    assert again.journal.next_sequence == 1


def _reopened_in_slot_0(engine: Engine) -> SimDisk:
    """The directory after one more frame, which went to the file with the stale ones."""
    disk = engine.keeper.files.disk
    assert isinstance(disk, SimDisk)
    assert engine.keeper.write_checkpoint()
    disk = disk.kill()
    engine = opened(disk)
    assert engine.journal._path == "journal/0000"
    engine.stage_barrier(Acks())
    engine.commit.step()
    return disk


def test_a_log_that_was_cut_and_deleted_since_the_checkpoint_does_not_keep_the_directory_closed() -> None:
    disk = SimDisk()
    engine = opened(disk)
    log = created(engine)
    append(engine, log, b"one")
    append(engine, log, b"two")
    assert engine.keeper.write_checkpoint()
    truncate(engine, log, 1)
    engine.stage_delete(log, Acks())
    engine.commit.step()
    engine.keeper.step()
    engine.keeper.flush_all()
    assert not [path for path in files_below(disk, "logs") if "/a@" in path]
    assert "a" not in opened(disk.kill()).catalogue.numbers


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_segment_whose_sync_failed_is_written_anew(code: int) -> None:
    disk = SimDisk()
    engine = opened(disk)
    log = created(engine)
    append(engine, log, b"before")
    assert engine.keeper.write_checkpoint()
    append(engine, log, b"after")
    disk.fail("sync", "/a@", OSError(code, os.strerror(code)))
    assert not engine.keeper.write_checkpoint()
    for seed in CUTS:
        cut = disk.crash(random.Random(seed))
        assert values_of(cut, opened(cut)) == [b"before", b"after"]
    assert engine.keeper.write_checkpoint()
    for seed in CUTS:
        cut = disk.crash(random.Random(seed))
        assert values_of(cut, opened(cut)) == [b"before", b"after"]


def test_a_sync_that_failed_when_its_file_was_closed_is_not_forgotten_after_the_next_write() -> None:
    disk = SimDisk()
    options = ShardOptions(OPTIONS.journal, KeeperOptions(flush_bytes=1, max_open_files=1), disk_reserve_bytes=0)
    engine = opened(disk, options)
    logs = [created(engine, name) for name in ("a", "b")]
    disk.fail("sync", "/a@", OSError(errno.EIO, os.strerror(errno.EIO)))
    for _ in range(3):
        for log in logs:
            append(engine, log, b"value")
            engine.keeper.step()
    while not engine.keeper.write_checkpoint():
        continue
    for seed in CUTS:
        cut = disk.crash(random.Random(seed))
        assert values_of(cut, opened(cut, options)) == [b"value"] * 3


def test_a_catalogue_that_cannot_be_written_stops_the_shard_and_loses_nothing() -> None:
    """Without it no log created since could be found: its frames are not kept aside, the journal keeps them."""
    disk = SimDisk()
    engine = opened(disk)
    append(engine, created(engine), b"kept")
    disk.fail("sync", "@catalogue@0/", OSError(errno.EIO, os.strerror(errno.EIO)), times=2)
    with pytest.raises(JournalFailed, match="catalogue"):
        engine.keeper.write_checkpoint()
    for seed in CUTS:
        cut = disk.crash(random.Random(seed))
        assert values_of(cut, opened(cut)) == [b"kept"]


def test_a_disk_too_full_to_recover_is_told_and_not_taken_for_damage() -> None:
    disk = SimDisk()
    engine = opened(disk)
    append(engine, created(engine), bytes(2000))
    full = disk.crash(random.Random(0))
    full.capacity_bytes = 1 << 40
    full.capacity_bytes -= full.free_bytes()
    with pytest.raises(OSError, match="room") as told:
        opened(full)
    assert told.value.errno == errno.ENOSPC
    full.capacity_bytes = None
    assert values_of(full, opened(full)) == [bytes(2000)]


@pytest.mark.parametrize("edit", [Edit(epoch=3), Edit(end=50)])
def test_a_cut_inside_the_first_batch_of_an_epoch_or_behind_a_gap_keeps_its_entry(edit: Edit) -> None:
    disk = SimDisk()
    engine = opened(disk)
    log = created(engine)
    append(engine, log, b"one")
    engine.stage_edit(log, edit, Acks())
    append(engine, log, b"two", b"three")
    epochs, first = list(log.bounds.epochs), log.tail[-1].first
    head = batches.below_offset(log.tail[-1].data, first + 1)
    engine.stage_truncate(log, first + 1, first, head, Acks())
    engine.commit.step()
    assert log.bounds.epochs == epochs
    again = opened(disk.kill()).log("a")
    assert (again.bounds.epochs, again.end) == (epochs, first + 1)


def test_files_that_come_back_after_a_clean_stop_are_removed() -> None:
    """They were unlinked behind the last checkpoint; the power went before their directory was synced."""
    disk = SimDisk()
    engine = opened(disk)
    log = created(engine)
    for value in (b"one", b"two"):
        append(engine, log, value)
    assert engine.keeper.write_checkpoint()
    truncate(engine, log, 1)
    assert engine.keeper.write_checkpoint(clean=True)
    for seed in CUTS:
        cut = disk.crash(random.Random(seed))
        engine = opened(cut)
        segments = {path for path in files_below(cut, "logs") if path.endswith(".seg")}
        assert segments == {path for log in engine.keeper.logs.values() for path in log.paths()}


def test_readers_go_on_after_a_cut_whose_files_are_gone_before_the_next_look_at_the_list() -> None:
    disk = SimDisk()
    engine = opened(disk)
    log = created(engine, settings=LogSettings(segment_bytes=1))
    for value in (b"one", b"two", b"three"):
        append(engine, log, value)
    engine.keeper.flush_all()
    engine.keeper.step()
    truncate(engine, log, 1)
    assert values_of(disk, engine) == [b"one"]
    engine.keeper._take_inbox()
    assert values_of(disk, engine) == [b"one"]


def test_what_a_cut_took_away_is_not_shown_when_offsets_are_skipped_behind_it() -> None:
    disk = SimDisk()
    engine = opened(disk)
    log = created(engine)
    for value in (b"one", b"two"):
        append(engine, log, value)
    engine.keeper.step()
    truncate(engine, log, 1)
    data = batches.encode(Columns.of([b"three"]))
    batches.seal(data, 10, 0, log.last_timestamp)
    engine.stage_raw(log, data, Acks())
    engine.commit.step()
    assert values_of(disk, engine) == [b"one", b"three"]


def test_a_memory_log_whose_creation_was_lost_had_acknowledged_nothing() -> None:
    """Otherwise its number, and offsets in it, would name something else after the next start."""
    disk = SimDisk()
    engine = opened(disk)
    [log] = engine.stage_create([(log_name("a"), LogSettings(durability=Durability.MEMORY))], Acks())
    acks = Acks()
    engine.stage([(log, Columns.of([b"value"]))], acks)
    assert (acks.errors, log.visible_end) == ([], 0)
    engine.commit.step()
    assert (acks.errors, log.visible_end) == ([None], 1)


def test_a_commit_staged_by_the_answer_to_another_comes_behind_it() -> None:
    disk = SimDisk()
    engine = opened(disk)
    log = created(engine, settings=LogSettings(durability=Durability.MEMORY))
    engine.stage([(log, Columns.of([b"one"]))], lambda error: None if log.end > 1 else _stage(engine, log, b"two"))
    engine.commit.step(sync=True)
    assert values_of(disk, engine) == [b"one", b"two"]
    again = disk.kill()
    assert values_of(again, opened(again)) == [b"one", b"two"]


def _stage(engine: Engine, log: Log, value: bytes) -> None:
    engine.stage([(log, Columns.of([value]))], Acks())


def test_a_log_that_cannot_be_written_is_stopped_with_its_frames_aside_and_holds_nobody_up() -> None:
    disk = SimDisk()
    engine = opened(disk)
    bad, good = created(engine, "bad"), created(engine, "good")
    append(engine, bad, b"in the segment")
    assert engine.keeper.write_checkpoint()
    disk.fail("sync", "/bad@", OSError(errno.EIO, os.strerror(errno.EIO)), times=2)
    append(engine, bad, b"aside")
    append(engine, good, b"goes on")
    while not engine.keeper.write_checkpoint():
        continue
    engine.keeper.step()
    assert isinstance(bad.fault, LogPoisoned)
    assert append(engine, good, b"still").errors == [None]
    for seed in CUTS:
        cut = disk.crash(random.Random(seed))
        again = opened(cut)
        assert values_of(cut, again, "good") == [b"goes on", b"still"]
        assert values_of(cut, again, "bad") == [b"in the segment", b"aside"]


def test_directories_made_before_a_checkpoint_are_durable_though_a_log_was_deleted_beside_them() -> None:
    disk = SimDisk()
    engine = opened(disk)
    engine.stage_delete(created(engine), Acks())
    engine.commit.step()
    disk.fail("rename", "checkpoint", OSError(errno.EIO, os.strerror(errno.EIO)))
    assert not engine.keeper.write_checkpoint()
    for seed in CUTS:
        assert disk.crash(random.Random(seed)).exists("logs/@catalogue@0/00000000000000000000.seg")
