"""Every command is there, explains itself, and help needs none of the machinery."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.cli import ENVIRONMENT
from tests.support.commands import commands

from penstock.cli.main import run

COMMANDS = commands()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*path, "--help"]) == 0
    said = capsys.readouterr().out
    assert "Example" in said
    assert "penstock " + " ".join(path) in said


def test_wrong_usage_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "append"]) == 2
    assert run(["no-such-command"]) == 2
    assert "Error" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["log", "--help"]])
def test_help_and_version_load_neither_engine_nor_tables(arguments: list[str]) -> None:
    program = (
        "import sys; from penstock.cli.main import run; run(sys.argv[1:]); "
        "heavy = ('penstock.log', 'rich', 'asyncio', 'msgspec'); "
        "print([name for name in sys.modules if name.startswith(heavy)], file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, env=ENVIRONMENT, timeout=60
    )
    assert ran.stderr.strip() == "[]"
