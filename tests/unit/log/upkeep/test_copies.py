"""Small files that decide about large ones: one copy of two is enough, and a lost one is told."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

import pytest
from tests.sim.reading import files_below
from tests.support.engines import close_engine, make_log, open_engine, put, values_of
from tests.support.simdisk import SimDisk, SimulatedCrash

from penstock.cli.doctor.disk import data_directory
from penstock.cli.doctor.finding import Verdict
from penstock.core.errors import DirectoryFormat
from penstock.core.types import FilePosition
from penstock.jobs.audit import audit_job
from penstock.jobs.findings import AuditReport
from penstock.jobs.findings import Verdict as AuditVerdict
from penstock.log.offline.check import small_file_faults
from penstock.log.offline.verify import verify
from penstock.log.upkeep.checkpoint import PATH, decode_checkpoint
from penstock.log.upkeep.copies import copy_paths, read_copies

SMALL_FILES = [*copy_paths("checkpoint"), *copy_paths("format")]
RECORDS = 12


def filled(*, clean: bool) -> SimDisk:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    for number in range(RECORDS):
        put(engine, log, b"%d" % number)
        engine.commit.step(sync=True)
        if number == RECORDS // 2:
            assert engine.keeper.write_checkpoint()
    if clean:
        close_engine(engine)
    return disk.kill()


def spoil(disk: SimDisk, path: str, how: str, used_bytes: int | None = None) -> None:
    if how == "gone":
        disk.unlink(path)
        return
    file = disk.open(path)
    size = file.size() if used_bytes is None else used_bytes
    if how == "cut":
        file.truncate(size // 2)
    elif how == "zeroed":
        file.write(FilePosition(0), [bytes(size)])
    else:
        at = FilePosition(size // 2)
        file.write(at, [bytes([file.read(at, 1)[0] ^ 1])])
    file.sync()


def expect_all(disk: SimDisk) -> None:
    assert values_of(open_engine(disk)) == [(number, b"%d" % number) for number in range(RECORDS)]


def on_disk(disk: SimDisk, place: Path) -> Path:
    for path in files_below(disk, ""):
        file = disk.open_read(path)
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(file.read(FilePosition(0), file.size()))
    return place


def audited(directory: Path) -> AuditReport:
    job = audit_job(directory)
    return job.fold([job.work(piece) for piece in job.pieces])


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("how", ["gone", "cut", "zeroed", "flipped"])
@pytest.mark.parametrize("path", SMALL_FILES)
def test_one_copy_is_enough_and_every_tool_tells_of_the_other(
    path: str, how: str, clean: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = filled(clean=clean)
    spoil(disk, path, how)
    directory = on_disk(disk, tmp_path)
    assert [finding.file for finding in verify(directory).findings] == [path]
    report = audited(directory)
    assert ([finding.file for finding in report.findings], report.verdict) == ([path], AuditVerdict.DAMAGED)
    assert data_directory(directory).verdict is Verdict.PROBLEM
    with caplog.at_level(logging.WARNING):
        expect_all(disk)
    assert f"file={path}" in caplog.text
    assert small_file_faults(disk) == []


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("how", ["gone", "cut", "zeroed", "flipped"])
@pytest.mark.parametrize("path", copy_paths("synced"))
def test_one_mark_that_no_crash_can_have_spoilt_is_told(
    path: str, how: str, clean: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = filled(clean=clean)
    spoil(disk, path, how, used_bytes=40)
    directory = on_disk(disk, tmp_path)
    told = [path] if how in ("gone", "cut") else []
    assert [finding.file for finding in verify(directory).findings] == told
    assert [finding.file for finding in audited(directory).findings] == told
    assert data_directory(directory).verdict is (Verdict.PROBLEM if told else Verdict.OK)
    with caplog.at_level(logging.WARNING):
        expect_all(disk)
    assert (f"file={path}" in caplog.text) == bool(told)
    assert small_file_faults(disk) == []


@pytest.mark.parametrize("path", ["checkpoint", "format"])
@pytest.mark.parametrize("how", ["gone", "flipped"])
def test_without_both_every_tool_refuses_as_the_opening_does(path: str, how: str, tmp_path: Path) -> None:
    disk = filled(clean=False)
    for each in copy_paths(path):
        spoil(disk, each, how)
    directory = on_disk(disk, tmp_path)
    for look in (verify, audited):
        with pytest.raises(DirectoryFormat, match=path):
            look(directory)
    with pytest.raises(DirectoryFormat, match=path):
        open_engine(disk)


def test_the_newer_checkpoint_counts_where_a_crash_left_two() -> None:
    disk = filled(clean=False)
    checkpoints = read_copies(disk, PATH, decode_checkpoint).found
    assert len({checkpoint.serial for checkpoint in checkpoints}) == 1
    engine = open_engine(disk)
    before = disk.calls
    assert engine.keeper.write_checkpoint()
    for call in range(before + 1, disk.calls + 1):
        again = filled(clean=False)
        engine = open_engine(again)
        again.crash_at = call
        with suppress(SimulatedCrash):
            engine.keeper.write_checkpoint()
        expect_all(again.kill())


def test_a_directory_of_format_1_gets_its_copies_and_marks() -> None:
    disk = filled(clean=True)
    for path in ("checkpoint.2", "format.2", "synced", "synced.2"):
        disk.unlink(path)
    file = disk.create("format")
    file.write(FilePosition(0), [b'{"format":1,"created_by":"0.0.1"}\n'])
    file.sync()
    expect_all(disk)
    assert small_file_faults(disk) == []
    assert set(SMALL_FILES) <= set(disk.list(""))
