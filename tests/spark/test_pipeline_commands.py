"""`penstock pipeline run` and `check` in the session of these tests."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.pipelines import written

import penstock
from penstock.cli.main import run
from penstock.core.errors import UnsupportedPlatform
from penstock.spark.pipelines.document import Document

PIPELINE = """\
name: words
broker: {path: data}
sources:
  words: {queue: words, format: text}
steps:
  loud: {sql: "select upper(value) as word from words"}
sinks:
  table: {from: loud, parquet: table}
trigger: {every: 100ms}
"""


@pytest.fixture
def file(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in ("session", "session_check"):
        monkeypatch.setattr(f"penstock.spark.pipelines.{module}.pipeline_session", lambda document: nullcontext(spark))
    with penstock.open(tmp_path / "data") as db:
        db.declare("words", partitions=1)
        db.put_many("words", ["one", "two", "three"])
    return written(tmp_path, PIPELINE)


def terminate_when_there(files: Path, ended: threading.Event) -> None:
    """A signal to this process as soon as a micro-batch is written."""
    while not ended.wait(0.1):
        if list(files.glob("_spark_metadata/0")):
            os.kill(os.getpid(), signal.SIGTERM)
            return


def test_a_pipeline_runs_until_a_signal_and_ends_well(
    spark: SparkSession, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table, ended = file.parent / "table", threading.Event()
    watcher = threading.Thread(target=terminate_when_there, args=(table, ended))
    watcher.start()
    try:
        assert run(["pipeline", "run", str(file)]) == 0
    finally:
        ended.set()
        watcher.join()
    assert sorted(row.word for row in spark.read.parquet(str(table)).collect()) == ["ONE", "THREE", "TWO"]
    lines = capfd.readouterr().err
    assert "micro-batch written pipeline=words sink=table batch=0 rows=3" in lines
    assert "lag=0 lags=words:0" in lines
    assert "sink ended pipeline=words sink=table" in lines
    assert spark.streams.active == []


def test_a_check_by_spark_names_the_place(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "check", str(file)]) == 0
    assert "words is well declared: sources 1, steps 1, sinks 1\n" in capfd.readouterr().out
    file.write_text(PIPELINE.replace("upper(value)", "upper(valu)"))
    assert run(["pipeline", "check", str(file)]) == 2
    assert f"{file}:6:29: steps.loud.sql: [UNRESOLVED_COLUMN" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        ("trigger: {every: 100ms}", "triger: once", [":6:16: steps.loud.sql", ":9:1: triger"]),
        ("parquet: table}", "parqet: table}", [":6:16: steps.loud.sql", ":8:23: sinks.table.parqet"]),
        ("broker: {path: data}", "brokr: {path: data}", [":2:1: brokr", ":4:18: sources.words.queue: needs"]),
        (
            "format: text}",
            "format: txt}\n  files: {parquet: files, schema: a strng}",
            [":4:33: sources.words.format"],
        ),
        (
            "sinks:",
            "  again: {sql: select * from again}\nsinks:",
            [":6:16: steps.loud.sql", ":7:3: steps.again: reads"],
        ),
        ("name: words", "name: words\nspark: {mastr: local}", [":2:9: spark.mastr"]),
    ],
)
def test_a_check_tells_wrong_keys_and_what_spark_refuses_at_once(
    file: Path, capfd: pytest.CaptureFixture[str], before: str, after: str, places: list[str]
) -> None:
    file.write_text(PIPELINE.replace("select upper", "selec upper").replace(before, after))
    assert run(["pipeline", "check", str(file)]) == 2
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("penstock: error: ")]
    assert len(told) == len(places), told
    assert all(f"{file}{place}" in line for place, line in zip(places, told, strict=True)), told


def test_a_session_that_does_not_start_hides_no_problem(
    file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(document: Document) -> None:
        raise UnsupportedPlatform("no Spark at sc://nowhere")

    monkeypatch.setattr("penstock.spark.pipelines.session_check.pipeline_session", unreachable)
    file.write_text(PIPELINE.replace("trigger:", "triger:"))
    assert run(["pipeline", "check", str(file)]) == 2
    told = capfd.readouterr().err
    assert f"{file}:9:1: triger: no such key" in told
    assert "spark: Spark has not looked at the rest: no Spark at sc://nowhere" in told


def test_a_function_that_raises_ends_it_with_one_line(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (file.parent / "raising_steps.py").write_text(
        "from pyspark.sql.functions import udf\n"
        "def broken(frame):\n"
        "    def raise_it(text):\n"
        "        raise ValueError('no such word')\n"
        "    return frame.select(udf(raise_it)('value').alias('word'))\n"
    )
    steps = "loud: {python: 'raising_steps:broken', from: words}"
    file.write_text(PIPELINE.replace('loud: {sql: "select upper(value) as word from words"}', steps))
    assert run(["pipeline", "run", str(file), "--once"]) == 1
    # Processes of the session write to it too, at any time.
    said = capfd.readouterr().err
    [last] = [line for line in said.splitlines() if line.startswith("penstock: error: ")]
    assert last.startswith("penstock: error: sink table failed: ValueError: no such word; look at the cause")
    assert "BrokenPipeError" not in said
