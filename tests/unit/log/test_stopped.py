"""A log that was stopped because its files failed: nothing that was acknowledged is missing without being told, and
opening brings it back."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.support.clock import FakeClock
from tests.support.engines import SMALL, close_engine, make_log, open_engine, put, values_of
from tests.support.simdisk import SimDisk, SimulatedCrash
from tests.support.small_shard import SmallShard, rows
from tests.support.stopped import stop

from penstock.cli.doctor import disk as doctor_disk
from penstock.cli.doctor.finding import Verdict
from penstock.core.errors import LogPoisoned, LogStopped
from penstock.core.metrics import ShardMetrics
from penstock.core.types import Durability
from penstock.log.disk import RealDisk
from penstock.log.engine import Engine
from penstock.log.journal.frames import read_frame_header
from penstock.log.names import log_name
from penstock.log.offline.inspect import inspect_directory
from penstock.log.offline.repair import apply_repair, plan_repair
from penstock.log.offline.verify import verify
from penstock.log.reading.bounds import OFFSET_GAP
from penstock.log.reading.reading import LogReader
from penstock.log.records import Edit, LogSettings
from penstock.log.upkeep.checkpoint import write_checkpoint
from penstock.log.upkeep.recovery import recover

EIO = OSError(errno.EIO, os.strerror(errno.EIO))


def stopped(seed: int = 0, settings: LogSettings | None = None) -> tuple[SimDisk, Engine]:
    """Log bad was stopped: three of its records are in its segment, three are kept aside."""
    disk = SimDisk(seed)
    engine = open_engine(disk)
    bad, good = make_log(engine, "bad", settings), make_log(engine, "good")
    for value in (b"0", b"1", b"2"):
        put(engine, bad, value)
        engine.commit.step(sync=True)
    assert engine.keeper.write_checkpoint()
    for value in (b"3", b"4", b"5"):
        put(engine, bad, value)
        put(engine, good, value)
        engine.commit.step(sync=True)
    disk.fail("sync", "logs/bad", EIO, times=100)
    while not engine.keeper.write_checkpoint():
        continue
    engine.keeper.step()
    assert isinstance(bad.fault, LogPoisoned)
    return disk, engine


ALL = [(number, b"%d" % number) for number in range(6)]


def test_opening_puts_back_what_was_kept_aside_and_removes_it_after_the_checkpoint() -> None:
    disk, _ = stopped()
    again = open_engine(disk.kill())
    log = again.log("bad")
    assert (log.fault, log.end, log.visible_end) == (None, 6, 6)
    assert values_of(again, "bad") == ALL
    assert again.keeper.files.disk.list("aside") == []
    [state] = [state for state in again.keeper.checkpoint.logs if state.number == log.number]
    assert (state.stopped, state.aside) == ("", ())
    put(again, log, b"6")
    close_engine(again)


def test_what_was_put_back_survives_whatever_happens_while_it_is() -> None:
    """A crash at every disk call of the opening, and a power cut behind it; then once more."""
    disk, _ = stopped()
    start = disk.kill()
    calls = _calls_of_an_opening(start.kill())
    for at in range(1, calls + 1):
        once = start.kill()
        once.crash_at = once.calls + at
        with pytest.raises(SimulatedCrash):
            open_engine(once)
        for seed in range(3):
            cut = once.crash(random.Random(1000 * at + seed))
            twice = cut.kill()
            twice.crash_at = twice.calls + random.Random(at + seed).randint(1, calls)
            try:
                open_engine(twice)
            except SimulatedCrash:
                cut = twice.crash(random.Random(at))
            cut.heal()
            assert values_of(open_engine(cut), "bad") == ALL


def _calls_of_an_opening(disk: SimDisk) -> int:
    open_engine(disk)
    return disk.calls


@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_log_whose_files_still_fail_stays_stopped_and_every_look_says_so(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = stopped()
    disk = first.kill()
    disk.fail(call, "logs/bad", EIO, times=1000)
    metrics = ShardMetrics()
    opened = recover(disk, FakeClock(), SMALL, metrics)
    engine = Engine(disk, FakeClock(), SMALL, metrics, opened, lambda call: call())
    log = engine.log("bad")
    assert isinstance(log.fault, LogStopped)
    assert "start again" in str(log.fault)
    assert "penstock log repair DIR --log bad" in str(log.fault)
    assert metrics.logs_stopped == 1
    assert "log stays stopped log=bad" in caplog.text
    # Its end is where it was, so that nobody takes what cannot be read for what never was.
    assert (log.end, log.visible_end) == (6, 6)
    reader = LogReader(disk, engine.keeper.views)
    assert len(reader.read(log, 0, 1 << 20)) == 3
    with pytest.raises(LogStopped):
        reader.read(log, 3, 1 << 20)
    with pytest.raises(LogStopped):
        put(engine, log, b"refused")
    assert engine.keeper.write_checkpoint()
    again = open_engine(disk.crash(random.Random(0)))
    assert values_of(again, "bad") == ALL


def test_a_reader_is_not_led_past_what_is_kept_aside() -> None:
    """The hot tail begins behind it: to step over the hole would settle messages that nobody saw."""
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine, "bad")
    for value in (b"0", b"1"):
        put(engine, log, value)
        engine.commit.step(sync=True)
    engine.keeper.step()
    engine.keeper.flush_all()
    assert log.tail == []
    put(engine, log, b"2")
    engine.commit.step(sync=True)
    disk.fail("sync", "logs/bad", EIO, times=100)
    engine.keeper.write_checkpoint()
    reader = LogReader(disk, engine.keeper.views)
    with pytest.raises(LogPoisoned):
        reader.read(log, 0, 1 << 20)
    with pytest.raises(LogPoisoned):
        reader.offset_at_time(log, 0)


def test_an_aside_file_that_cannot_be_read_keeps_the_log_stopped_and_is_kept() -> None:
    first, engine = stopped()
    [path] = engine.keeper.logs[engine.log("bad").number].aside
    disk = first.kill()
    disk.unlink(path)
    disk.sync_directory("aside")
    again = open_engine(disk)
    fault = again.log("bad").fault
    assert isinstance(fault, LogStopped)
    assert path in str(fault)
    assert "missing" in str(fault)
    close_engine(again)
    assert str(open_engine(disk.kill()).log("bad").fault) == str(fault)


def cut_aside(disk: SimDisk, path: str, frames: int) -> None:
    """Only so many of its frames are left."""
    file = disk.open(path)
    data = file.map()
    position = 0
    for _ in range(frames):
        position += read_frame_header(data, position).bytes
    file.truncate(position)
    file.sync()


@pytest.mark.parametrize("frames", [0, 1, 2])
def test_an_aside_file_that_was_cut_between_two_frames_keeps_the_log_stopped(frames: int) -> None:
    first, engine = stopped()
    [path] = engine.keeper.logs[engine.log("bad").number].aside
    disk = first.kill()
    cut_aside(disk, path, frames)
    for _ in range(2):
        again = open_engine(disk)
        log = again.log("bad")
        assert isinstance(log.fault, LogStopped)
        assert path in str(log.fault)
        # Its end is where it was: those offsets are not free, and nobody is led past them.
        assert (log.end, log.visible_end) == (6, 6)
        reader = LogReader(disk, again.keeper.views)
        with pytest.raises(LogStopped):
            reader.read(log, 3, 1 << 20)
        close_engine(again)
        disk = disk.kill()


def test_frames_that_come_late_count_in_the_end_of_a_stopped_log_that_stays_so() -> None:
    first, engine = stopped()
    [path] = engine.keeper.logs[engine.log("bad").number].aside
    disk = first.kill()
    disk.fail("write", "logs/bad", EIO, times=1000)
    again = open_engine(disk)
    again.log("bad").fault = None  # the loop does not know yet
    put(again, again.log("bad"), b"6")
    again.commit.step(sync=True)
    assert again.keeper.write_checkpoint()
    cut_aside(disk, path, 0)
    assert open_engine(disk.kill()).log("bad").end == 7


def test_a_file_aside_whose_length_nobody_noted_is_put_back() -> None:
    first, engine = stopped()
    disk = first.kill()
    checkpoint = engine.keeper.checkpoint
    plain = [msgspec.structs.replace(state, aside_bytes=(), aside_end=0) for state in checkpoint.logs]
    write_checkpoint(disk, msgspec.structs.replace(checkpoint, logs=tuple(plain), serial=checkpoint.serial + 1))
    assert values_of(open_engine(disk), "bad") == ALL


def test_a_stopped_log_that_is_deleted_leaves_nothing_aside() -> None:
    first, engine = stopped()
    [path] = engine.keeper.logs[engine.log("bad").number].aside
    disk = first.kill()
    disk.fail("write", "logs/bad", EIO, times=1000)
    again = open_engine(disk)
    again.stage_delete(again.log("bad"), lambda error: None)
    again.commit.step(sync=True)
    assert again.keeper.write_checkpoint()
    assert not disk.exists(path)
    assert not open_engine(disk.crash(random.Random(0))).keeper.files.disk.list("aside")


def test_edits_that_took_files_away_before_the_log_stopped_are_put_back_too() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine, "bad", LogSettings(segment_bytes=1))
    for number in range(6):
        put(engine, log, b"%d" % number)
        engine.commit.step(sync=True)
    assert engine.keeper.write_checkpoint()
    engine.stage_edit(log, Edit(start=4), lambda error: None)
    engine.commit.step(sync=True)
    engine.keeper.step()
    engine.keeper.flush_all()
    put(engine, log, b"6")
    engine.commit.step(sync=True)
    disk.fail("sync", "logs/bad", EIO, times=100)
    while not engine.keeper.write_checkpoint():
        continue
    again = open_engine(disk.kill())
    assert (again.log("bad").start, again.log("bad").end, again.log("bad").fault) == (4, 7, None)
    assert values_of(again, "bad") == [(4, b"4"), (5, b"5"), (6, b"6")]


def test_no_offset_names_two_messages_after_a_log_stayed_stopped_through_an_unclean_opening() -> None:
    first, _ = stopped(settings=LogSettings(durability=Durability.INTERVAL))
    disk = first.crash(random.Random(0))
    disk.fail("write", "logs/bad", EIO, times=1000)
    still = open_engine(disk)
    assert isinstance(still.log("bad").fault, LogStopped)
    close_engine(still)
    again = open_engine(disk.kill())
    assert (again.log("bad").fault, again.log("bad").end) == (None, 6 + OFFSET_GAP)
    assert values_of(again, "bad") == ALL


def test_frames_that_come_to_a_stopped_log_after_its_first_checkpoint_are_kept_aside_too() -> None:
    """They were staged before the loop was told that it is stopped."""
    disk = SimDisk()
    told: list[Callable[[], None]] = []
    metrics = ShardMetrics()
    opened = recover(disk, FakeClock(), SMALL, metrics)
    engine = Engine(disk, FakeClock(), SMALL, metrics, opened, told.append)
    [log] = engine.stage_create([(log_name("bad"), LogSettings())], lambda error: None)
    put(engine, log, b"0")
    engine.commit.step(sync=True)
    disk.fail("sync", "logs/bad", EIO, times=100)
    while not engine.keeper.write_checkpoint():
        continue
    late = put(engine, log, b"1")
    engine.commit.step(sync=True)
    assert engine.keeper.write_checkpoint()
    for call in told:
        call()
    assert late.is_acknowledged
    assert values_of(open_engine(disk.crash(random.Random(0))), "bad") == [(0, b"0"), (1, b"1")]


def test_a_log_that_stops_twice_keeps_all_of_it() -> None:
    first, _ = stopped()
    disk = first.kill()
    again = open_engine(disk)
    log = again.log("bad")
    for value in (b"6", b"7"):
        put(again, log, value)
        again.commit.step(sync=True)
    disk.fail("sync", "logs/bad", EIO, times=100)
    while not again.keeper.write_checkpoint():
        continue
    last = disk.crash(random.Random(1))
    last.fail("write", "logs/bad", EIO, times=100)
    close_engine(open_engine(last))
    assert values_of(open_engine(last.kill()), "bad") == [*ALL, (6, b"6"), (7, b"7")]


def stopped_on_a_disk(root: Path) -> SmallShard:
    """Log bad has six records, three of them only in a file aside."""
    shard = SmallShard(RealDisk(root), FakeClock())
    bad = shard.create("bad")
    shard.append(bad, b"0", b"1", b"2")
    shard.settle()
    assert shard.engine.keeper.write_checkpoint()
    shard.append(bad, b"3", b"4", b"5")
    shard.commit()
    stop(shard, bad)
    return shard


def test_verify_and_doctor_say_that_a_log_is_stopped_and_what_to_do(tmp_path: Path) -> None:
    shard = stopped_on_a_disk(tmp_path)
    shard.abandon()
    report = verify(tmp_path)
    [finding] = report.findings
    assert (finding.log, report.records) == ("bad", 7)  # six, and one of the catalogue: what is aside was checked too
    assert os.strerror(errno.EIO) in finding.reason
    assert "kept in aside/" in finding.reason
    assert "start the server again" in finding.reason
    found = doctor_disk.data_directory(tmp_path)
    assert (found.verdict, found.facts["stopped_logs"]) == (Verdict.PROBLEM, ["bad"])
    directory = inspect_directory(tmp_path)
    [log] = directory.logs()
    assert rows(list(directory.batches(log.number, 0))) == ALL

    opened = SmallShard(RealDisk(tmp_path), FakeClock())
    assert opened.engine.log("bad").fault is None
    opened.abandon()
    assert verify(tmp_path).findings == []
    assert doctor_disk.data_directory(tmp_path).verdict is Verdict.OK
    assert list((tmp_path / "aside").iterdir()) == []


def test_every_look_says_so_when_what_was_kept_aside_is_cut_and_repair_gives_no_offset_again(
    tmp_path: Path,
) -> None:
    stopped_on_a_disk(tmp_path).abandon()
    [path] = (tmp_path / "aside").iterdir()
    data = path.read_bytes()
    path.write_bytes(b"")
    for _ in range(2):
        [finding] = verify(tmp_path).findings
        assert "cannot be put back" in finding.reason
        assert f"it should have {len(data)} bytes" in finding.reason
        found = doctor_disk.data_directory(tmp_path)
        assert (found.verdict, found.facts["stopped_logs"]) == (Verdict.PROBLEM, ["bad"])
        opened = SmallShard(RealDisk(tmp_path), FakeClock())
        assert opened.engine.metrics.logs_stopped == 1
        opened.abandon()
    disk = RealDisk(tmp_path)
    apply_repair(disk, plan_repair(disk, log_name("bad"), "skip"))
    opened = SmallShard(RealDisk(tmp_path), FakeClock())
    assert (opened.engine.log("bad").fault, opened.engine.log("bad").end) == (None, 6 + OFFSET_GAP)
    opened.abandon()


def test_verify_says_so_when_what_was_kept_aside_is_damaged(tmp_path: Path) -> None:
    stopped_on_a_disk(tmp_path).abandon()
    [path] = (tmp_path / "aside").iterdir()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    [finding] = verify(tmp_path).findings
    assert "cannot be put back" in finding.reason
    assert "penstock log repair" in finding.reason
