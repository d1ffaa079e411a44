"""Directories that released versions wrote open, and give exactly the records they held. scripts/make_golden.py made
them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from scripts.make_golden import Contents, contents, main, open_engine

from penstock.log.disk import RealDisk
from penstock.log.offline.backup import create_backup, restore_backup
from penstock.log.offline.repair import RepairMethod, plan_repair
from penstock.log.records import Edit
from penstock.log.upkeep.format_file import FORMAT_VERSION

GOLDEN = Path(__file__).parents[2] / "golden"
NAMES = [path.name.removesuffix(".tar.gz") for path in sorted(GOLDEN.glob("*.tar.gz"))]
MAX_BYTES = 200 << 10


def unpacked(name: str, place: Path) -> Path:
    directory = place / name
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as tar:
        tar.extractall(directory, filter="data")
    return directory


def expected(name: str) -> Contents:
    found: Contents = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_there_is_a_clean_and_a_crashed_directory_of_each_format_and_they_are_small() -> None:
    formats = range(1, FORMAT_VERSION + 1)
    assert {f"format-{number}-{state}" for number in formats for state in ("clean", "crashed")} == set(NAMES)
    assert all(path.stat().st_size < MAX_BYTES for path in GOLDEN.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_directory_opens_with_exactly_its_records(name: str, tmp_path: Path) -> None:
    engine = open_engine(unpacked(name, tmp_path))
    assert {log.name: log.fault for log in engine.logs.values() if log.fault} == {}
    assert contents(engine) == expected(name)
    assert bool(engine.metrics.replayed_frames) == name.endswith("crashed")


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_directory_can_be_written_on(name: str, tmp_path: Path) -> None:
    directory = unpacked(name, tmp_path)
    engine = open_engine(directory)
    for log in list(engine.logs.values()):
        engine.stage_edit(log, Edit(start=log.start), lambda error: None)
    engine.commit.step(sync=True)
    assert engine.keeper.write_checkpoint(clean=True)
    assert contents(open_engine(directory)) == expected(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["cut", "skip", "rebuild", "journal"])
def test_a_golden_directory_needs_no_repair(name: str, method: RepairMethod, tmp_path: Path) -> None:
    plan = plan_repair(RealDisk(unpacked(name, tmp_path)), None, method)
    assert (plan.findings, plan.actions) == ((), ())


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_directory_comes_back_from_a_backup(name: str, tmp_path: Path) -> None:
    create_backup(unpacked(name, tmp_path), tmp_path / "backup", lambda path, done, total: None)
    restore_backup(tmp_path / "backup", tmp_path / "restored", lambda path, done, total: None)
    found = contents(open_engine(tmp_path / "restored"))
    assert {log: state["records"] for log, state in found.items()} == {
        log: state["records"] for log, state in expected(name).items()
    }


def test_what_is_written_today_still_is_the_golden_format(tmp_path: Path) -> None:
    """The records, not the bytes: those may differ where the format leaves a choice."""
    main(tmp_path)
    for name in [name for name in NAMES if name.startswith(f"format-{FORMAT_VERSION}-")]:
        assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) == expected(name)
