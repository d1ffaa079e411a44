"""A data directory's own name, and who may look into it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.cli.doctor import disk as doctor_disk
from penstock.cli.doctor.finding import Verdict
from penstock.core.clock import SystemClock
from penstock.log.disk import make_data_directory
from penstock.log.offline.backup import create_backup
from penstock.log.offline.restore import restore_backup
from penstock.log.opened import opened_directory
from penstock.log.options import ShardOptions


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Directories, in the order of their syncs."""
    found: list[str] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        found.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    return found


def opened(directory: Path) -> None:
    found = opened_directory(directory, ShardOptions(), SystemClock())
    found.recovered.journal.close()
    found.recovered.keeper.close()
    found.lock.release()


def modes(directory: Path) -> set[tuple[bool, str]]:
    return {(path.is_dir(), f"{path.stat().st_mode & 0o777:o}") for path in (directory, *directory.rglob("*"))}


def test_the_names_of_a_new_directory_and_of_its_new_parents_are_synced(tmp_path: Path, synced: list[str]) -> None:
    make_data_directory(tmp_path / "a" / "b" / "data")
    assert set(synced) == {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")}


def test_the_name_of_a_directory_that_another_process_made_and_left_empty_is_synced(
    tmp_path: Path, synced: list[str]
) -> None:
    (tmp_path / "data").mkdir()
    make_data_directory(tmp_path / "data")
    assert synced == [str(tmp_path)]


def test_a_restored_directory_is_its_owners_alone_and_its_name_is_synced(tmp_path: Path, synced: list[str]) -> None:
    opened(tmp_path / "data")
    create_backup(tmp_path / "data", tmp_path / "copy", lambda path, done, total: None)
    synced.clear()
    restored = tmp_path / "a" / "b" / "data"
    restore_backup(tmp_path / "copy", restored, lambda path, done, total: None)
    assert modes(restored) == {(True, "700"), (False, "600")}
    assert set(synced) >= {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b"), str(restored)}


def test_a_new_directory_is_its_owners_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened(tmp_path / "data")
    assert modes(tmp_path / "data") == {(True, "700"), (False, "600")}
    assert "others on this machine" not in caplog.text


def test_who_lets_the_group_in_lets_it_read_what_is_made_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(0o750)
    opened(tmp_path / "data")
    assert modes(tmp_path / "data") == {(True, "750"), (False, "640")}


def test_an_old_directory_that_others_can_look_into_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened(tmp_path / "data")
    (tmp_path / "data").chmod(0o755)
    opened(tmp_path / "data")
    assert f"chmod o= {tmp_path / 'data'}" in caplog.text
    found = doctor_disk.data_directory(tmp_path / "data")
    assert (found.verdict, found.facts["mode"]) == (Verdict.WARNING, "755")
