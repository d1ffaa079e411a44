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
    last = capfd.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("penstock: error: sink table failed: ValueError: no such word; look at the cause")
