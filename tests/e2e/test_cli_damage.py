"""Damage is found, named and mended from the command line; backup and restore bring everything back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.support.cli import lines, offsets, penstock, penstock_json, started

SMALL = ("--journal-file-bytes", "256KiB", "--journal-limit-bytes", "1MiB", "--disk-reserve", "0")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    penstock("log", "append", path, "--log", "a", "--batch", "100", *SMALL, given=lines(1000))
    return path


def _segment(directory: Path) -> Path:
    (path,) = (directory / "logs").glob("a@*/*.seg")
    return path


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def _position_of_batch(directory: Path, base_offset: int) -> int:
    printed = penstock("log", "dump", directory, "--log", "a", "-o", "json").stdout
    batches = [json.loads(line) for line in printed.splitlines()]
    return int(next(batch["position"] for batch in batches if batch["base_offset"] == base_offset))


@pytest.fixture
def damaged(directory: Path) -> Path:
    """Offsets 500 to 599 cannot be read, and the journal cannot help."""
    _flip(_segment(directory), _position_of_batch(directory, 500) + 200)
    shutil.rmtree(directory / "journal")
    return directory


def test_verify_names_file_position_and_reason(damaged: Path) -> None:
    position = _position_of_batch(damaged, 500)
    ran = penstock("log", "verify", damaged, expected=1)
    segment = str(_segment(damaged).relative_to(damaged))
    assert f"{segment}, byte {position}: ".encode() in ran.stdout
    report = penstock_json("log", "verify", damaged, "--log", "a", expected=1)
    (finding,) = report["findings"] if isinstance(report["findings"], list) else []
    assert (finding["log"], finding["file"], finding["position"]) == ("a", segment, position)


def test_verify_of_another_log_is_clean(damaged: Path) -> None:
    penstock("log", "append", damaged, "--log", "b", *SMALL, given=b"x\n")
    penstock("log", "verify", damaged, "--log", "b")
    penstock("log", "verify", damaged, "--log", "a", expected=1)
    penstock("log", "verify", damaged, "--log", "c", expected=1)


def test_dump_shows_damage_and_goes_on(damaged: Path) -> None:
    printed = penstock("log", "dump", damaged, "--log", "a").stdout
    assert printed.count(b"crc WRONG") == 1
    assert b"offsets 900..999" in printed


def test_cat_stops_at_damage_with_the_command_that_mends(damaged: Path) -> None:
    ran = penstock("log", "cat", damaged, "--log", "a", expected=1)
    assert ran.stdout == lines(500)
    assert b"penstock log repair" in ran.stderr


def test_repair_without_a_method_only_looks(damaged: Path) -> None:
    before = _segment(damaged).read_bytes()
    said = penstock("log", "repair", damaged).stdout
    assert b"--method skip would" in said
    assert b"--method cut would" in said
    assert b"Nothing was changed" in penstock("log", "repair", damaged, "--method", "skip").stdout
    assert b"Nothing was changed" in penstock("log", "repair", damaged, "--method", "cut", "--yes", "--dry-run").stdout
    assert _segment(damaged).read_bytes() == before


@pytest.mark.parametrize(
    ("method", "kept"), [("skip", lines(500) + lines(400, 600)), ("cut", lines(500))], ids=["skip", "cut"]
)
def test_a_repaired_log_verifies_and_goes_on_behind_a_gap(damaged: Path, method: str, kept: bytes) -> None:
    done = penstock_json("log", "repair", damaged, "--log", "a", "--method", method, "--yes")
    assert done["applied"] is True
    assert done["aside"]
    penstock("log", "verify", damaged)
    assert penstock("log", "cat", damaged, "--log", "a").stdout == kept
    (next_offset,) = offsets(penstock("log", "append", damaged, "--log", "a", *SMALL, given=b"new\n").stdout)
    assert next_offset >= 1 << 32


def test_rebuild_brings_back_what_the_journal_still_has(directory: Path) -> None:
    _flip(_segment(directory), _position_of_batch(directory, 500) + 200)
    penstock("log", "repair", directory, "--method", "rebuild", "--yes")
    penstock("log", "verify", directory)
    assert penstock("log", "cat", directory, "--log", "a").stdout == lines(1000)


def test_a_damaged_journal_is_told_and_costs_at_most_the_damaged_frame(tmp_path: Path) -> None:
    with started("log", "append", tmp_path, "--log", "a", "--batch", "1", *SMALL) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write(lines(100))
        writer.stdin.flush()
        while int(writer.stdout.readline()) < 99:
            continue
        writer.kill()
    journal = penstock("log", "dump", tmp_path, "--journal", "--from", "50", "--to", "51", "-o", "json").stdout
    frame = json.loads(journal)
    _flip(tmp_path / frame["file"], frame["position"] + 60)
    assert b"repair" in penstock("log", "verify", tmp_path, expected=1).stdout
    assert b"--journal would" in penstock("log", "repair", tmp_path).stdout
    assert b"--journal" in penstock("log", "append", tmp_path, "--log", "a", *SMALL, given=b"x\n", expected=1).stderr
    penstock("log", "repair", tmp_path, "--journal", "--yes")
    penstock("log", "verify", tmp_path)
    kept = penstock("log", "cat", tmp_path, "--log", "a").stdout
    # Message 50 is there too if it had been written to its segment before the kill.
    assert [line for line in kept.splitlines() if line != b"message 50"] == [
        line for line in lines(100).splitlines() if line != b"message 50"
    ]
    assert offsets(penstock("log", "append", tmp_path, "--log", "a", *SMALL, given=b"x\n").stdout)[0] >= 1 << 32


def test_contradicting_options_are_wrong_usage(directory: Path) -> None:
    penstock("log", "repair", directory, "--method", "cut", "--journal", expected=2)
    penstock("log", "repair", directory, "--journal", "--log", "a", expected=2)


def test_a_backup_restores_to_the_same_messages(directory: Path, tmp_path: Path) -> None:
    backed = penstock_json("backup", directory, tmp_path / "backup")
    assert backed["state"] == "closed"
    restored = penstock_json("restore", tmp_path / "backup", tmp_path / "again")
    assert restored["records"] == 1001
    assert penstock("log", "cat", tmp_path / "again", "--log", "a").stdout == lines(1000)
    penstock("log", "verify", tmp_path / "again")


def test_a_target_with_something_in_it_is_refused(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "mine").touch()
    assert b"not empty" in penstock("backup", directory, tmp_path / "backup", expected=1).stderr


def test_a_corrupt_backup_is_not_restored(directory: Path, tmp_path: Path) -> None:
    penstock("backup", directory, tmp_path / "backup")
    (segment,) = (tmp_path / "backup" / "logs").glob("a@*/*.seg")
    _flip(segment, 100)
    assert b"the backup is damaged" in penstock("restore", tmp_path / "backup", tmp_path / "again", expected=1).stderr
