"""A journal file that is missing, zeroed or cut: opening, verify, doctor and audit find it, and say the same."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.auditing import audited, silent
from tests.support.live_tables import LiveTables
from tests.support.small_shard import SmallShard

from penstock.cli.doctor import disk as doctor_disk
from penstock.cli.doctor.finding import Verdict
from penstock.core.errors import JournalDamaged
from penstock.jobs.findings import Kind
from penstock.jobs.findings import Verdict as AuditVerdict
from penstock.log.columns import Columns
from penstock.log.disk import RealDisk
from penstock.log.journal.slots import journal_slots
from penstock.log.offline.check import journal_reader, known_checkpoint
from penstock.log.offline.verify import verify

BATCHES = 60


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A broker that was killed: what it acknowledged since its checkpoint lies in several files of the journal."""
    root = tmp_path / "data"
    root.mkdir(0o700)
    live = LiveTables(root)
    log = live.create("orders")
    live.fill(log, 3)
    live.close()
    live = LiveTables(root)
    live.clock.advance(60.0)
    log = live.shard.engine.log("default/orders/0")
    for number in range(BATCHES):
        live.append(log, Columns.of([b"%d" % number * 1000]))
    live.die()
    return root


def newest(root: Path) -> Path:
    return root / journal_slots(RealDisk(root))[-1].path


def last_frame(root: Path) -> int:
    """Where it begins in the newest file."""
    disk, name = RealDisk(root), str(newest(root).relative_to(root))
    frames = journal_reader(disk, known_checkpoint(disk)).frames()
    return max(frame.position for frame in frames if frame.path == name)


def missing(root: Path) -> None:
    newest(root).unlink()


def zeroed(root: Path) -> None:
    newest(root).write_bytes(bytes(newest(root).stat().st_size))


def zeroed_at_the_end(root: Path) -> None:
    path, end = newest(root), last_frame(root)
    path.write_bytes(path.read_bytes()[:end] + bytes(path.stat().st_size - end))


def cut(root: Path) -> None:
    os.truncate(newest(root), last_frame(root))


def cut_to_nothing(root: Path) -> None:
    os.truncate(newest(root), 0)


def contents(root: Path) -> dict[str, str]:
    """But for the table of the broker that was killed, which the next one takes away before anything else."""
    files = [path for path in root.rglob("*") if path.is_file() and path != root / "table"]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def expect_told(root: Path, name: str) -> None:
    """By all of them alike, and nothing is changed."""
    before = contents(root)
    [problem] = [finding.reason for finding in verify(root).findings if finding.file == "journal"]
    assert name in problem
    assert "penstock log repair DIR --journal" in problem
    report = audited(root)
    assert [each.reason for each in report.findings if each.kind is Kind.JOURNAL] == [problem]
    assert report.verdict is AuditVerdict.DAMAGED
    said = doctor_disk.data_directory(root)
    assert said.verdict is Verdict.PROBLEM
    assert problem in said.text
    with pytest.raises(JournalDamaged) as caught:
        SmallShard(RealDisk(root))
    assert str(caught.value) == problem
    assert contents(root) == before


@pytest.mark.parametrize("harm", [missing, zeroed, zeroed_at_the_end, cut, cut_to_nothing])
def test_what_was_done_to_the_newest_file_of_the_journal_is_told_by_opening_verify_doctor_and_audit(
    directory: Path, harm: Callable[[Path], None]
) -> None:
    name = newest(directory).name
    harm(directory)
    expect_told(directory, name)


def test_so_is_the_loss_of_any_file_that_is_needed(directory: Path) -> None:
    disk = RealDisk(directory)
    needed = {frame.path for frame in journal_reader(disk, known_checkpoint(disk)).frames()}
    assert len(needed) > 1
    for number, path in enumerate(sorted(needed)):
        copy = directory.with_name(f"copy-{number}")
        shutil.copytree(directory, copy)
        (copy / path).unlink()
        expect_told(copy, "")


def test_of_a_whole_journal_nothing_is_told_and_everything_is_there(directory: Path) -> None:
    assert verify(directory).findings == []
    assert doctor_disk.data_directory(directory).verdict is Verdict.OK
    assert silent(directory).checked.records == 9 + BATCHES
    shard = SmallShard(RealDisk(directory))
    assert shard.engine.log("default/orders/0").end == 9 + BATCHES
    shard.abandon()
