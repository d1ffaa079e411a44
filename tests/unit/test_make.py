"""What `make` does on a fresh checkout, as it says itself with -n."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from scripts.install import _follow

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def steps(target: str, venv: Path) -> list[str]:
    command = ["make", "-n", f"VENV={venv}", target]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    return said.splitlines()


def index(lines: list[str], word: str) -> int:
    [found] = [number for number, line in enumerate(lines) if word in line]
    return found


def test_the_tour_installs_what_running_needs_and_compiles_once(tmp_path: Path) -> None:
    lines = steps("tour", tmp_path / "venv")
    assert index(lines, 'echo "making ') < index(lines, "install.py run") < index(lines, "build_ext")
    assert index(lines, "build_ext") < index(lines, "examples.tour")
    assert not [line for line in lines if "install.py dev" in line or "install.py spark" in line]


def test_spark_is_installed_when_its_part_begins(tmp_path: Path) -> None:
    lines = steps("run", tmp_path / "venv")
    tour, spark = index(lines, "examples.tour"), index(lines, ".spark-installed ||")
    assert tour < spark < index(lines, "examples.scene")
    assert not [line for line in lines if "install.py dev" in line]


def test_developers_get_all_tools_and_the_kernels_are_compiled_once(tmp_path: Path) -> None:
    lines = steps("dev", tmp_path / "venv")
    assert index(lines, "install.py run") < index(lines, "install.py dev")
    assert len([line for line in lines if "build_ext" in line]) == 1


def test_what_pip_does_is_told_in_lines_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    said = [
        "Collecting pyarrow>=18 (from …)\n",
        "  Downloading pyarrow-26.0.1-cp311-cp311-manylinux_2_28_x86_64.whl (55.0 MB)\n",
        "Requirement already satisfied: pip\n",
        "Installing collected packages: pyarrow\n",
    ]
    assert list(_follow(said)) == [line.rstrip() for line in said]
    assert capsys.readouterr().out.splitlines() == [
        "   downloading pyarrow-26.0.1-cp311-cp311-manylinux_2_28_x86_64.whl, 55.0 MB",
        "   1 package found, putting them in place",
    ]
