"""A declaration is read whole: every mistake is told at once, with its line and column."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.pipelines import GOOD, loaded, refusals, refusals_of_change, written

from penstock.spark.pipelines.checks import check, load_and_check
from penstock.spark.pipelines.declaration import Pipeline
from penstock.spark.pipelines.document import load
from penstock.spark.pipelines.part_checks import MESSAGE_COLUMNS
from penstock.spark.pipelines.problems import BadPipeline
from penstock.tables.schema import SCHEMA


def test_a_declaration_is_what_was_written(tmp_path: Path) -> None:
    document = loaded(tmp_path, GOOD)
    pipeline = document.pipeline
    assert check(document) == []
    assert (pipeline.name, list(pipeline.sources), list(pipeline.sinks)) == (
        "devices",
        ["readings"],
        ["alerts", "table", "rejects"],
    )
    window = pipeline.steps["per_minute"].window
    assert window is not None
    assert (window.length_ms, window.late_ms, pipeline.steps["per_minute"].group_by) == (60_000, 30_000, ("device",))
    assert (pipeline.trigger.every_ms, pipeline.spark.master, pipeline.restart.retries) == (1000, "local[*]", 5)
    assert document.directory == tmp_path


@pytest.mark.parametrize(
    ("before", "after", "place", "said"),
    [
        ("    format:", "    fromat:", "6:5: sources.readings.fromat", "no such key; did you mean format?"),
        ("malformed: rejects", "malformed: reject", "8:16: sources.readings.malformed", "did you mean rejects?"),
        ("late: 30s", "late: 30", "12:44: steps.per_minute.window.late", "30 is not a duration"),
        ("length: 1m", "length: 1x", "12:34: steps.per_minute.window.length", "'1x' is not a duration"),
        ("from per_minute", "from per_minut", "18:12: steps.hot.sql", "step 'per_minut'; did you mean per_minute?"),
        ("from: hot", "from: hat", "23:18: sinks.alerts.from", "no source or step 'hat'; did you mean hot?"),
        ("of: readings", "of: reading", "21:19: rules.plausible.of", "step 'reading'; did you mean readings?"),
        ("name: devices\n", "", "1:1: name", "is missing"),
        ("name: devices", "name: de/vices", "1:7: name", "has other characters"),
        ("  hot:\n", "  2hot:\n", "15:3: steps.2hot", "'2hot' is not a name for SQL"),
        ("  hot:\n", "  Readings:\n", "15:3: steps.Readings", "is the name of sources.readings too"),
        (", late: 30s", "", "24:3: sinks.table.mode", "per_minute has no watermark"),
        ("./table", "./table, mode: update", "24:53: sinks.table.mode", "parquet can be written with append alone"),
        ("./table", "./table, queue: t", "24:38: sinks.table.parquet", "beside queue"),
        ("parquet:", "delta:", "24:36: sinks.table.delta", "delta is not installed"),
        ("parquet:", "iceberg:", "24:38: sinks.table.iceberg", "iceberg is not installed"),
        ("queue: alerts", 'queue: "a\\tb"', "23:30: sinks.alerts.queue", "a control character"),
        ('"grpc:', '"http:', "2:28: broker.url", "does not begin with grpc:// or grpc+tls://"),
        (', url: "grpc://localhost:7070"', "", "23:30: sinks.alerts.queue", "needs url"),
        ("    schema: device", "    #", "6:13: sources.readings.format", "json needs schema"),
        ("select: {average: avg(celsius)}", "sql: select 1", "12:13: steps.per_minute.window", "beside sql"),
        ("expect: celsius", "expect: a, b", "21:40: rules.plausible.b between -60 and 90", "a comma ends a value"),
        ("length: 1m", "length: 1m, slide: 2m", "12:45: steps.per_minute.window.slide", "is longer than length"),
        ("{queue: rejects}", "{from: hot, queue: rejects}", "25:19: sinks.rejects.from", "have other columns"),
        ("late: 30s}", "late: 30s, 1: 2}", "12:49: steps.per_minute.window.1", "the known ones are column"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(tmp_path: Path, before: str, after: str, place: str, said: str) -> None:
    lines = refusals_of_change(tmp_path, before, after)
    assert any(line.startswith(f"pipeline.yaml:{place}: ") and said in line for line in lines), lines


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        GOOD.replace("late: 30s", "late: 30").replace("key: device", "kye: device").replace("name: devices", "name: 1")
    )
    lines = refusals(tmp_path, text)
    assert [line.split(": ")[1] for line in lines] == ["name", "steps.per_minute.window.late", "sinks.alerts.kye"]


def test_wrong_keys_do_not_hide_what_else_is_wrong(tmp_path: Path) -> None:
    changes = {"key: device": "kye: device", "of: readings,": "of: raedings,", "from per_minute": "from per_hour"}
    text = GOOD
    for before, after in changes.items():
        text = text.replace(before, after)
    with pytest.raises(BadPipeline) as caught:
        load_and_check(written(tmp_path, text), lambda document: document)
    assert [problem.path for problem in caught.value.problems] == [
        "steps.hot.sql",
        "rules.plausible.of",
        "sinks.alerts.kye",
    ]
    broken = text.replace("format: json", "format: jsn")
    with pytest.raises(BadPipeline) as caught:
        load_and_check(written(tmp_path, broken), lambda document: document)
    assert "sources.readings.format" in [problem.path for problem in caught.value.problems]


def test_what_is_no_yaml_or_not_there_is_told(tmp_path: Path) -> None:
    assert refusals(tmp_path, "name: [")[0].startswith("pipeline.yaml:1:8: not YAML")
    assert "is given twice, first at" in refusals(tmp_path, "name: a\nname: b")[0]
    with pytest.raises(BadPipeline, match=r"none\.yaml: cannot be read: No such file"):
        load(tmp_path / "none.yaml")


def test_an_empty_file_names_what_must_be_there(tmp_path: Path) -> None:
    assert [line.split(": ")[1] for line in refusals(tmp_path, "")] == ["name", "sources", "sinks"]


def test_variables_are_put_in_and_missing_ones_told(tmp_path: Path) -> None:
    text = GOOD.replace("path: /data", "path: '${DATA}', token: '${TOKEN:-none}'").replace("> 30", "> 30 -- $${x}")
    pipeline = loaded(tmp_path, text, {"DATA": "/elsewhere"}).pipeline
    assert (pipeline.broker.path, pipeline.broker.token) == ("/elsewhere", "none")
    assert "${x}" in str(pipeline.steps["hot"].sql)
    assert "2:16: broker.path: the variable DATA is not set: set it" in refusals(tmp_path, text)[0]


def test_a_secret_is_shown_by_no_error_and_no_repr(tmp_path: Path) -> None:
    text = GOOD.replace("path: /data", "token: 12345")
    assert "12345" not in refusals(tmp_path, text)[0]
    assert "hidden" not in repr(loaded(tmp_path, GOOD.replace("path: /data", "token: hidden")).pipeline)


@pytest.mark.parametrize(
    ("trigger", "every_ms", "is_once"),
    [("once", 1000, True), ("availableNow", 1000, True), ("{every: 5s}", 5000, False)],
)
def test_triggers(tmp_path: Path, trigger: str, every_ms: int, is_once: bool) -> None:
    found = loaded(tmp_path, f"{GOOD}trigger: {trigger}\n").pipeline.trigger
    assert (found.every_ms, found.is_once) == (every_ms, is_once)


def test_a_cycle_is_told_with_its_way(tmp_path: Path) -> None:
    lines = refusals_of_change(tmp_path, "    from: readings", "    from: hot")
    assert any("steps.per_minute: reads itself: per_minute <- hot <- per_minute" in line for line in lines)


def test_a_step_that_nobody_needs_is_told_and_no_error(tmp_path: Path) -> None:
    text = GOOD.replace("rules:\n", "  extra: {sql: select 1 from readings}\nrules:\n")
    assert check(loaded(tmp_path, text)) == ["steps.extra: no sink needs it, so it does not run"]


def test_a_function_that_is_not_there_is_told(tmp_path: Path) -> None:
    text = GOOD.replace("rules:\n", "  extra: {python: 'no_such_module_here:f', from: readings}\nrules:\n")
    assert "there is no module no_such_module_here" in refusals(tmp_path, text)[0]
    text = GOOD.replace("rules:\n", "  extra: {python: 'steps.py:f', from: readings}\nrules:\n")
    assert "there is no file steps.py" in refusals(tmp_path, text)[0]


def test_columns_of_a_message_that_can_be_kept_are_those_of_tables(tmp_path: Path) -> None:
    assert {*MESSAGE_COLUMNS, "value"} == set(SCHEMA.names)
    lines = refusals_of_change(tmp_path, "    malformed:", "    keep: [topik, at]\n    malformed:")
    assert lines[0].endswith("no column 'topik' of a message; did you mean topic?")
    lines = refusals_of_change(tmp_path, "celsius double,", "topic double,\n    keep: topic\n    #")
    assert lines[0].endswith("sources.readings.keep: topic is a column of schema too: rename it there")


PYTHON = """\
def louder(frame):
    return frame

pipeline = {
    "name": "devices",
    "sources": {"readings": {"queue": "readings", "path": "/data"}},
    "steps": {"loud": {"python": louder, "from": "readings"}},
    "sinks": {"table": {"from": "loud", "parquet": "./table"}},
}
"""


def test_a_python_file_gives_the_same_declaration(tmp_path: Path) -> None:
    document = load(written(tmp_path, PYTHON, "pipeline.py"), {})
    assert check(document) == []
    assert isinstance(document.pipeline, Pipeline)
    assert callable(document.pipeline.steps["loud"].python)
    made = PYTHON.replace("pipeline = {", "def pipeline():\n  return {")
    assert load(written(tmp_path, made, "made.py"), {}).pipeline.sources == document.pipeline.sources


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"from": "loud"', '"from": "lout"', "py:8:33: sinks.table.from: no source or step 'lout'"),
        ('"queue"', '"quue"', "pipeline.py:6:30: sources.readings.quue: no such key; did you mean queue?"),
        ("pipeline = {", "pipline = {", "pipeline.py: gives no declaration"),
        ("def louder", "dff louder", "pipeline.py:1:5: not Python"),
        ("return frame\n", "return frame\n\n1 / 0\n", "pipeline.py: raised ZeroDivisionError"),
    ],
)  # fmt: skip
def test_mistakes_of_a_python_file_have_places_too(tmp_path: Path, before: str, after: str, said: str) -> None:
    with pytest.raises(BadPipeline) as caught:
        check(load(written(tmp_path, PYTHON.replace(before, after), "pipeline.py"), {}))
    assert said in str(caught.value).replace(f"{tmp_path}/", "")
