"""`penstock pipeline check` and `plan` without Spark."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live
from tests.support.cli import ENVIRONMENT
from tests.support.pipelines import GOOD, written

from penstock.cli.main import run
from penstock.cli.pipeline.board import TerminalBoard, progress_cells
from penstock.spark.pipelines.progress import Progress

BAD = GOOD.replace("key: device", "kye: device")


def test_mistakes_end_with_2_and_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, BAD)
    for command in (["check", "--no-spark"], ["plan"], ["run"]):
        assert run(["pipeline", *command, str(file)]) == 2
        said = f"penstock: error: {file}:23:38: sinks.alerts.kye: no such key; did you mean key?\n"
        assert capsys.readouterr().err == said


def test_mistakes_as_data_have_line_and_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "check", "--no-spark", "-o", "json", str(written(tmp_path, BAD))]) == 2
    found = json.loads(capsys.readouterr().out)["problems"]
    assert found == [{"line": 23, "column": 38, "path": "sinks.alerts.kye", "reason": "no such key", "nearest": "key"}]


def test_a_good_one_is_told_with_what_is_odd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, GOOD.replace("rules:\n", "  extra: {sql: select 1 from readings}\nrules:\n"))
    assert run(["pipeline", "check", "--no-spark", str(file)]) == 0
    shown = capsys.readouterr()
    assert shown.out.endswith("devices is well declared: sources 1, steps 3, sinks 3; Spark has not looked at it\n")
    assert "warning" in shown.err
    assert "steps.extra: no sink needs it" in shown.err


def test_a_plan_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "plan", "-o", "json", str(written(tmp_path, GOOD))]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [step["name"] for step in plan["steps"]] == ["per_minute", "hot"]
    assert plan["sinks"][0]["reads"] == ["hot"]


def test_the_schema_is_printed_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "check", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["required"] == ["name", "sources", "sinks"]
    assert run(["pipeline", "check"]) == 2


def test_cells_of_a_sink() -> None:
    assert progress_cells(None) == ("-", "-", "-", "-", "-")
    progress = Progress("table", 3, 12345, 1000.4, 1500, {"a": 2, "b": 3})
    assert progress_cells(progress) == ("3", "12,345", "1,000", "1.5s", "5")


def test_a_terminal_shows_each_sink_with_its_state_and_speed() -> None:
    screen = io.StringIO()
    with Live(console=Console(file=screen, force_terminal=True, width=120), auto_refresh=False) as live:
        board = TerminalBoard(live)
        board.started("table")
        board.started("alerts")
        board.progressed(Progress("table", 3, 12345, 1000.4, 1500, {"readings": 42}))
        board.failed("alerts", "unavailable", "nobody listens", 2.0)
        board.ended("table")
    last = screen.getvalue().rpartition("sink")[2]
    assert "12,345" in last
    assert "42" in last
    assert "failed (unavailable), again in 2 s: nobody listens" in last


_WITHOUT_EXTRAS = """
import sys
for name in ("pyarrow", "pyspark", "pandas", "py4j"):
    sys.modules[name] = None
from penstock.cli.main import run
print([run(["pipeline", *command, sys.argv[1]]) for command in (["check"], ["plan"], ["run"], ["check", "--spark"])])
"""


def test_check_and_plan_need_no_extra_and_run_says_which(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    command = [sys.executable, "-c", _WITHOUT_EXTRAS, str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=True)
    assert ran.stdout.splitlines()[-1] == "[0, 0, 1, 1]"
    assert ran.stderr.count("pip install 'penstock[spark]'") == 2
