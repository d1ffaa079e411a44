"""Backups of closed, crashed and busy directories, and what comes back from them."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.engines import SMALL, close_engine, values_of

from penstock.core.clock import SystemClock
from penstock.core.errors import DirectoryFormat, InvalidArgument, JournalDamaged, LogDamaged
from penstock.core.metrics import ShardMetrics
from penstock.core.types import LogName
from penstock.log.columns import Columns
from penstock.log.disk import DirectoryLock, RealDisk
from penstock.log.engine import Engine
from penstock.log.names import log_name
from penstock.log.offline.backup import BackupDamaged, create_backup, read_manifest, restore_backup
from penstock.log.offline.verify import verify
from penstock.log.reading.bounds import OFFSET_GAP
from penstock.log.records import Edit, LogSettings
from penstock.log.upkeep.checkpoint import read_checkpoint
from penstock.log.upkeep.recovery import recover

WRITER = Path(__file__).parents[3] / "support" / "backup_writer.py"


def quiet(path: str, done_bytes: int, total_bytes: int) -> None:
    assert path
    assert 0 < done_bytes <= total_bytes


def opened(directory: Path) -> Engine:
    disk, clock, metrics = RealDisk(directory), SystemClock(), ShardMetrics()
    return Engine(disk, clock, SMALL, metrics, recover(disk, clock, SMALL, metrics), lambda call: call())


def value(i: int) -> bytes:
    return b"value %d " % i * 6


def done(error: object) -> None:
    assert error is None


def filled(directory: Path, *, close: bool = True) -> None:
    """Log a: 60 records over several segments, two a batch, trimmed to 10; with a checkpoint in the middle."""
    directory.mkdir()
    engine = opened(directory)
    [log] = engine.stage_create([(log_name("a"), LogSettings(segment_bytes=700))], done)
    for i in range(0, 60, 2):
        engine.stage([(log, Columns.of([value(i), value(i + 1)]))], done)
        engine.commit.step(sync=True)
        if i == 30:
            assert engine.keeper.write_checkpoint()
    engine.stage_edit(log, Edit(start=10), done)
    engine.commit.step(sync=True)
    if close:
        close_engine(engine)
    else:
        engine.keeper.step()
        engine.keeper.flush_all()
        engine.journal.close()
        engine.keeper.close()


@pytest.mark.parametrize("close", [True, False])
def test_a_backup_comes_back_with_every_record_and_goes_on_behind_a_gap(tmp_path: Path, close: bool) -> None:
    source, backup, target = tmp_path / "source", tmp_path / "backup", tmp_path / "target"
    filled(source, close=close)

    made = create_backup(source, backup, quiet)
    restored = restore_backup(backup, target, quiet)

    assert made.state == ("closed" if close else "crashed")
    assert made.linked_bytes > 0
    assert restored.damages == ()
    assert [(log.name, log.end) for log in made.logs] == [("a", 60)]
    assert [(log.name, log.end) for log in restored.logs] == [("a", 60 + OFFSET_GAP)]
    assert verify(target).findings == []
    engine = opened(target)
    assert values_of(engine, "a") == [(i, value(i)) for i in range(10, 60)]
    log = engine.log("a")
    engine.stage([(log, Columns.of([b"new"]))], done)
    engine.commit.step()
    assert values_of(engine, "a")[-1] == (60 + OFFSET_GAP, b"new")
    close_engine(engine)


def test_a_restored_directory_shares_no_file_with_its_backup_nor_with_the_original(tmp_path: Path) -> None:
    source, backup, target = tmp_path / "source", tmp_path / "backup", tmp_path / "target"
    filled(source)
    create_backup(source, backup, quiet)
    restore_backup(backup, target, quiet)

    def inodes(directory: Path) -> set[int]:
        return {path.stat().st_ino for path in directory.rglob("*") if path.is_file()}

    assert inodes(source) & inodes(backup)
    assert not inodes(target) & (inodes(source) | inodes(backup))


def test_a_backup_on_another_file_system_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(disk: RealDisk, old: str, new: str) -> None:
        raise OSError(errno.EXDEV, "another file system", new)

    monkeypatch.setattr(RealDisk, "link", refuse)
    filled(tmp_path / "source", close=False)
    assert create_backup(tmp_path / "source", tmp_path / "backup", quiet).linked_bytes == 0
    restore_backup(tmp_path / "backup", tmp_path / "target", quiet)
    assert values_of(opened(tmp_path / "target"), "a") == [(i, value(i)) for i in range(10, 60)]


def test_a_backup_stays_as_it_was_when_the_original_goes_on(tmp_path: Path) -> None:
    source, backup = tmp_path / "source", tmp_path / "backup"
    filled(source)
    create_backup(source, backup, quiet)
    before = {path: path.read_bytes() for path in backup.rglob("*") if path.is_file()}
    engine = opened(source)
    log = engine.log("a")
    engine.stage_truncate(log, 40, 40, None, done)
    for i in range(40):
        engine.stage([(log, Columns.of([b"other %d" % i * 20]))], done)
        engine.commit.step(sync=True)
        engine.keeper.step()
    engine.stage_edit(log, Edit(start=50), done)
    close_engine(engine)
    assert {path: path.read_bytes() for path in backup.rglob("*") if path.is_file()} == before


def test_a_backup_is_not_written_into_a_directory_that_holds_something(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    filled(source)
    target.mkdir()
    (target / "precious").write_text("mine")
    for place in (target, source / "inside"):
        with pytest.raises(InvalidArgument):
            create_backup(source, place, quiet)
    create_backup(source, tmp_path / "backup", quiet)
    with pytest.raises(InvalidArgument, match="precious"):
        restore_backup(tmp_path / "backup", target, quiet)
    assert (target / "precious").read_text() == "mine"


def test_what_is_no_data_directory_or_no_backup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DirectoryFormat):
        create_backup(tmp_path, tmp_path.parent / f"{tmp_path.name}-backup", quiet)
    with pytest.raises(DirectoryFormat, match="not a backup"):
        restore_backup(tmp_path, tmp_path / "target", quiet)


@pytest.mark.parametrize("damage", ["flip", "shorten", "remove"])
def test_a_damaged_backup_is_found_out_and_nothing_is_left_behind(tmp_path: Path, damage: str) -> None:
    source, backup, target = tmp_path / "source", tmp_path / "backup", tmp_path / "target"
    filled(source, close=False)
    create_backup(source, backup, quiet)
    for file in read_manifest(backup).files:
        path = backup / file.path
        data = path.read_bytes()
        path.unlink()
        if damage == "flip":
            path.write_bytes(data[:30] + bytes([data[30] ^ 1]) + data[31:])
        elif damage == "shorten":
            path.write_bytes(data[:-1])
        with pytest.raises(BackupDamaged, match=file.path):
            restore_backup(backup, target, quiet)
        assert [path.name for path in target.iterdir() if path.name != "lock"] == []
        for left in target.iterdir():
            left.unlink()
        path.write_bytes(data)
    restore_backup(backup, target, quiet)


def test_damage_that_the_original_had_is_restored_and_reported(tmp_path: Path) -> None:
    source, backup, target = tmp_path / "source", tmp_path / "backup", tmp_path / "target"
    filled(source)
    segment = sorted((source / "logs" / "a@1").glob("*.seg"))[1]
    data = segment.read_bytes()
    segment.write_bytes(data[:90] + bytes([data[90] ^ 1]) + data[91:])
    create_backup(source, backup, quiet)
    report = restore_backup(backup, target, quiet)
    assert segment.name in report.damages[0]
    assert opened(target).log("a").end == 60 + OFFSET_GAP


def test_a_damaged_journal_is_not_taken_for_one_that_ends_there(tmp_path: Path) -> None:
    source, backup = tmp_path / "source", tmp_path / "backup"
    filled(source, close=False)
    checkpoint = read_checkpoint(RealDisk(source))
    assert checkpoint is not None
    slots = [path for path in (source / "journal").iterdir() if path.read_bytes().count(b"PSTF") > 4]
    newest = max(slots, key=lambda path: int.from_bytes(path.read_bytes()[16:24], "little"))
    data = bytearray(newest.read_bytes())
    frame = data.find(b"PSTF")
    while int.from_bytes(data[frame + 16 : frame + 24], "little") < checkpoint.first_sequence + 3:
        frame = data.find(b"PSTF", frame + 1)
    data[frame + 50] ^= 1
    newest.write_bytes(data)
    with pytest.raises(JournalDamaged):
        create_backup(source, backup, quiet)
    assert not backup.exists()


def test_a_directory_that_misses_a_file_cannot_be_backed_up(tmp_path: Path) -> None:
    source, backup = tmp_path / "source", tmp_path / "backup"
    filled(source)
    sorted((source / "logs" / "a@1").glob("*.seg"))[1].unlink()
    with pytest.raises((DirectoryFormat, LogDamaged), match="verify"):
        create_backup(source, backup, quiet)
    assert not backup.exists() or list(backup.iterdir()) == []


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_between_two_files_a_backup_holds_one_moment(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine takes steps whenever a file was copied: commits, checkpoints that free journal files, trims."""
    monkeypatch.setattr("penstock.log.offline.backup._PAUSE_S", 0.0)
    rng = random.Random(seed)
    source, backup, target = tmp_path / "source", tmp_path / "backup", tmp_path / "target"
    source.mkdir()
    engine = opened(source)
    settings = LogSettings(segment_bytes=700)
    logs = engine.stage_create([(log_name("a"), settings), (log_name("b"), settings)], done)

    def append() -> None:
        for _ in range(rng.randrange(1, 12)):
            engine.stage([(log, Columns.of([value(log.end), value(log.end + 1)])) for log in logs], done)
            engine.commit.step(sync=True)

    def trim() -> None:
        log = rng.choice(logs)
        engine.stage_edit(log, Edit(start=rng.randrange(log.start, max(log.start, log.end - 20) + 1)), done)
        engine.commit.step(sync=True)

    def meanwhile(path: str, done_bytes: int, total_bytes: int) -> None:
        chance = rng.random()
        if chance < 0.5:
            append()
        elif chance < 0.7:
            trim()
        elif chance < 0.9:
            engine.keeper.step()
        else:
            engine.keeper.write_checkpoint()

    for _ in range(10):
        append()
        engine.keeper.step()
    before = logs[0].end
    with DirectoryLock.acquire(source):
        create_backup(source, backup, meanwhile)
    restore_backup(backup, target, quiet)

    restored = opened(target)
    both = [values_of(restored, LogName(name)) for name in ("a", "b")]
    [end] = {records[-1][0] + 1 for records in both}
    assert before <= end <= logs[0].end
    for log, records in zip(("a", "b"), both, strict=True):
        assert records == [(offset, value(offset)) for offset in range(restored.log(log).start, end)]


@contextmanager
def busy_writer(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, str(WRITER), str(directory)], stdout=subprocess.PIPE, env=environment, bufsize=0
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def acknowledged(process: subprocess.Popen[bytes], at_least: int) -> int:
    """What the writer has printed up to now: how many records of each log are acknowledged."""
    assert process.stdout is not None
    count = 0
    while count < at_least:
        printed = os.read(process.stdout.fileno(), 1 << 20)
        assert printed, "the writer ended"
        count = int((printed.split() or [b"0"])[-1])
    return count


def test_backups_under_load_hold_all_that_was_acknowledged_before_and_nothing_torn(tmp_path: Path) -> None:
    """The writer puts records into both logs in one frame, rolls small segments and journal files, trims and
    checkpoints as fast as it can."""
    kept: list[tuple[Path, int]] = []
    with busy_writer(tmp_path / "source") as writer:
        for i in range(6):
            count = acknowledged(writer, 1 + 2000 * i)
            backup = tmp_path / f"backup-{i}"
            assert create_backup(tmp_path / "source", backup, quiet).state == "live"
            kept.append((backup, count))
    for backup, count in kept:
        target = tmp_path / f"{backup.name}-restored"
        assert restore_backup(backup, target, quiet).damages == ()
        engine = opened(target)
        both = [values_of(engine, LogName(name)) for name in ("a", "b")]
        ends = [records[-1][0] + 1 for records in both]
        assert ends[0] == ends[1] >= count
        for name, records in zip(("a", "b"), both, strict=True):
            start = engine.log(name).start
            assert records == [(offset, b"%s %d" % (name.encode(), offset) * 8) for offset in range(start, ends[0])]
            assert engine.log(name).end == ends[0] + OFFSET_GAP
        close_engine(engine)
