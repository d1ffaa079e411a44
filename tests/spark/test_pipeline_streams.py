"""Declared pipelines as Spark runs them: what is written is what was declared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.pipelines import loaded

import penstock
from penstock.spark.pipelines.checks import check
from penstock.spark.pipelines.compiled import compile_parts
from penstock.spark.pipelines.failures import FailureKind
from penstock.spark.pipelines.problems import BadPipeline
from penstock.spark.pipelines.progress import Progress
from penstock.spark.pipelines.runner import PipelineFailed
from penstock.spark.pipelines.session_check import check_in_session
from penstock.spark.pipelines.sinks import SinkOptions, running_of

ONCE = SinkOptions(is_once=True)
PIPELINE = """\
name: devices
broker: {path: data}
sources:
  readings:
    queue: readings
    format: json
    schema: device string, celsius double, at timestamp
    keep: [topic]
    malformed: rejects
steps:
  per_minute:
    from: readings
    window: {column: at, length: 1m, late: 10s}
    group_by: [device]
    select: {average: avg(celsius), count: count(*)}
  hot:
    sql: |
      select device, average
      from per_minute where average > 30
  louder:
    python: steps_for_pipelines.py:scaled
    from: hot
    arguments: {factor: 10}
rules:
  plausible: {of: readings, expect: celsius between -60 and 90, otherwise: rejects}
  named: {of: readings, expect: device <> 'nobody', otherwise: drop}
sinks:
  table: {from: per_minute, parquet: table, partition_by: device}
  alerts: {from: louder, parquet: alerts}
  rejects: {parquet: rejects}
"""
STEPS = """\
def scaled(frame, factor):
    return frame.withColumn("average", frame.average * factor)
"""


def reading(device: str, celsius: float, second: int) -> str:
    at = f"2026-11-15T10:{second // 60:02}:{second % 60:02}Z"
    return json.dumps({"device": device, "celsius": celsius, "at": at})


READINGS = [
    *(reading("a", 20 + second % 2, second) for second in range(0, 120, 10)),
    *(reading("b", 40, second) for second in range(0, 120, 20)),
    reading("c", 500, 5),
    reading("nobody", 1, 5),
    "no json",
    reading("late", 0, 600),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "steps_for_pipelines.py").write_text(STEPS)
    with penstock.open(tmp_path / "data") as db:
        db.declare("readings", partitions=2)
        db.put_many("readings", READINGS)
    return tmp_path


class Recorder:
    """A board that keeps what it is shown."""

    def __init__(self) -> None:
        self.progress: list[Progress] = []
        self.events: list[tuple[str, str]] = []

    def started(self, sink: str) -> None:
        self.events.append((sink, "started"))

    def progressed(self, progress: Progress) -> None:
        self.progress.append(progress)

    def failed(self, sink: str, kind: FailureKind, reason: str, pause_s: float | None) -> None:
        self.events.append((sink, f"{kind} {reason}"))

    def ended(self, sink: str) -> None:
        self.events.append((sink, "ended"))


def run_once(spark: SparkSession, place: Path, text: str) -> Recorder:
    document, board = loaded(place, text), Recorder()
    check(document)
    running_of(check_in_session(spark, document), ONCE, board).run()
    return board


def table(spark: SparkSession, place: Path, name: str) -> DataFrame:
    return spark.read.parquet(str(place / name))


def test_a_declared_pipeline_writes_windows_alerts_and_dead_letters(spark: SparkSession, place: Path) -> None:
    board = run_once(spark, place, PIPELINE)
    windows = table(spark, place, "table").orderBy("device", "window_start").collect()
    assert [(row.device, row.average, row["count"]) for row in windows] == [
        ("a", 20.0, 6),
        ("a", 20.0, 6),
        ("b", 40.0, 3),
        ("b", 40.0, 3),
    ]
    assert {(row.device, row.average) for row in table(spark, place, "alerts").collect()} == {("b", 400.0)}
    letters = table(spark, place, "rejects").orderBy("rule").collect()
    assert [(row.rule, row.of, row.row.split(",")[0]) for row in letters] == [
        ("malformed", "readings", "no json"),
        ("plausible", "readings", '{"device":"c"'),
    ]
    assert {sink for sink, event in board.events if event == "ended"} == {"table", "alerts", "rejects"}
    assert {progress.lags["readings"] for progress in board.progress} == {0}


def refused(spark: SparkSession, place: Path, before: str, after: str) -> str:
    assert PIPELINE.count(before) == 1
    document = loaded(place, PIPELINE.replace(before, after))
    check(document)
    _, problems = compile_parts(spark, document)
    assert problems
    return str(BadPipeline(str(document.file), problems)).replace(f"{place}/", "")


@pytest.mark.parametrize(
    ("before", "after", "place_of", "said"),
    [
        ("where average > 30", "where averge > 30", "19:29: steps.hot.sql", "`averge` cannot be resolved"),
        ("select device, average\n", "select device averge x\n", "18:28: steps.hot.sql", "Syntax error"),
        ("celsius between", "celsus between", "25:37: rules.plausible.expect", "`celsus` cannot be resolved"),
        ("device string,", "device strang,", "7:13: sources.readings.schema", "strang"),
        ("column: at", "column: ta", "13:22: steps.per_minute.window.column", "`ta` cannot be resolved"),
        ("avg(celsius)", "avg(x)", "15:13: steps.per_minute.select", "`x` cannot be resolved"),
        ("factor: 10", "fctor: 10", "21:13: steps.louder.python", "unexpected keyword argument 'fctor'"),
        ("py:scaled", "py:scald", "21:13: steps.louder.python", "has no function scald"),
    ],
)
def test_what_spark_refuses_has_its_place_in_the_file(
    spark: SparkSession, tmp_path: Path, before: str, after: str, place_of: str, said: str
) -> None:
    (tmp_path / "steps_for_pipelines.py").write_text(STEPS)
    told = refused(spark, tmp_path, before, after)
    assert told.startswith(f"pipeline.yaml:{place_of}: "), told
    assert said in told
    assert "\n" not in told


def test_a_rule_that_fails_ends_the_pipeline_and_names_itself_and_no_row(spark: SparkSession, place: Path) -> None:
    text = PIPELINE.replace("90, otherwise: rejects", "90, otherwise: fail")
    with pytest.raises(PipelineFailed, match="rule plausible of readings does not hold for a row") as caught:
        run_once(spark, place, text)
    assert caught.value.kind == "user"
    assert "500" not in str(caught.value)


def test_what_a_stream_cannot_do_is_told_before_it_starts(spark: SparkSession, tmp_path: Path) -> None:
    text = PIPELINE.replace("from per_minute where average > 30", "from readings group by device, celsius")
    document = loaded(tmp_path, text.replace("average\n", "celsius as average\n"))
    (tmp_path / "steps_for_pipelines.py").write_text(STEPS)
    with pytest.raises(BadPipeline, match=r"sinks\.alerts\.mode: .*watermark"):
        check_in_session(spark, document)
