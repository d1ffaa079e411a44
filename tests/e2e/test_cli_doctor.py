"""`penstock doctor` looks without leaving anything behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.support.cli import COMMAND, ENVIRONMENT, penstock


def _doctor(*arguments: str | Path, pure: bool = False) -> dict[str, dict[str, object]]:
    """Its checks. The exit code depends on the machine: a nearly full disk is a problem."""
    environment = {**ENVIRONMENT, "PENSTOCK_PURE": "1" if pure else "0"}
    ran = subprocess.run(
        [*COMMAND, "doctor", *map(str, arguments), "-o", "json"], capture_output=True, timeout=60, env=environment
    )
    assert ran.returncode in (0, 1), ran.stderr
    checks: dict[str, dict[str, object]] = json.loads(ran.stdout)["checks"]
    return checks


def test_every_check_has_a_verdict_and_the_directory_stays_empty(tmp_path: Path) -> None:
    checks = _doctor(tmp_path)
    assert set(checks) == {"kernels", "data directory", "file system", "sync", "free space", "open files", "clock"}
    assert all(check["verdict"] in ("ok", "warning", "problem") for check in checks.values())
    assert [*tmp_path.iterdir()] == []


def test_uncompiled_kernels_are_a_warning_with_what_to_do(tmp_path: Path) -> None:
    check = _doctor(tmp_path, pure=True)["kernels"]
    assert check["verdict"] == "warning"
    assert check["compiled"] is False
    assert "C compiler" in str(check["text"])


def test_a_data_directory_is_told_with_its_state(tmp_path: Path) -> None:
    penstock("log", "append", tmp_path, "--log", "a", "--disk-reserve", "0", given=b"x\n")
    checks = _doctor(tmp_path)
    assert checks["data directory"]["state"] == "closed"
    assert checks["clock"]["newest_record_ms"] != 0


def test_a_place_that_is_not_there_yet_is_looked_at_above(tmp_path: Path) -> None:
    checks = _doctor(tmp_path / "later" / "data")
    assert checks["data directory"]["state"] is None
    assert checks["sync"]["verdict"] in ("ok", "warning")
