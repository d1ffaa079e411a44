"""One directory, one writer: whoever comes second is refused and told by whom."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.crash.appends import SMALL
from tests.crash.rounds import Fire
from tests.support.cli import offsets, penstock, started
from tests.support.faults import kill, wait_until

pytestmark = pytest.mark.faults


def test_a_second_writer_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    fire = Fire(tmp_path)
    process = fire.start(tmp_path / "data")
    try:
        fire.wait_for_lines(process, 100)
        for _ in range(3):
            refused = penstock("log", "append", tmp_path / "data", "--log", "c0", given=b"no\n", expected=1)
            assert b"process %d" % process.pid in refused.stderr
            assert refused.stdout == b""
            fire.wait_for_lines(process, 100)
    finally:
        kill(process)
    values = fire.look(tmp_path / "data")["c0"].records.values()
    assert b"no" not in values


def test_the_death_of_the_holder_frees_the_directory(tmp_path: Path) -> None:
    fire = Fire(tmp_path)
    process = fire.start(tmp_path / "data")
    try:
        fire.wait_for_lines(process, 50)
    finally:
        kill(process)
    ran = penstock("log", "append", tmp_path / "data", "--log", "new", *SMALL, given=b"yes\n")
    assert offsets(ran.stdout) == [0]


def test_of_many_that_start_at_once_one_gets_a_new_directory(tmp_path: Path) -> None:
    starters = [started("log", "append", tmp_path / "data", "--log", "a", *SMALL) for _ in range(6)]
    try:
        wait_until(
            lambda: sum(starter.poll() is not None for starter in starters) == len(starters) - 1, "all but one end"
        )
        [winner] = [starter for starter in starters if starter.poll() is None]
        output, _ = winner.communicate(b"mine\n", timeout=60)
        assert offsets(output) == [0]
        for loser in (starter for starter in starters if starter is not winner):
            assert loser.returncode == 1
            assert b"is held by" in _errors(loser)
    finally:
        for starter in starters:
            kill(starter)
            starter.communicate()


def _errors(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stderr is not None
    return process.stderr.read()
