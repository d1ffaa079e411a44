"""What a pipeline would do, and what a declaration may say, told without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.support.pipelines import GOOD, loaded

from penstock.spark.pipelines.json_schema import pipeline_schema
from penstock.spark.pipelines.plan import plan_lines, plan_of

PLAN = """\
devices on local[*], every 1s
source readings: queue readings of /data, json: device string, celsius double, at timestamp
  rule malformed: JSON of the schema, otherwise rejects
  rule plausible: celsius between -60 and 90, otherwise rejects
step per_minute <- readings: windows of 1m of at, 30s late at most, by device: avg(celsius) as average
step hot <- per_minute: select device, average from per_minute where average > 30
sink alerts <- hot: queue alerts at grpc://localhost:7070, key device, value the row as JSON, exactly once
  append, every 1s, checkpoint checkpoints/alerts
sink table <- per_minute: parquet ./table
  append, every 1s, checkpoint checkpoints/table
sink rejects <- readings: dead letters to queue rejects at grpc://localhost:7070, value the row as JSON, exactly once
  append, every 1s, checkpoint checkpoints/rejects
"""


def test_the_plan_of_a_pipeline(tmp_path: Path) -> None:
    assert "".join(f"{line}\n" for line in plan_lines(loaded(tmp_path, GOOD))) == PLAN


def test_no_secret_is_in_a_plan(tmp_path: Path) -> None:
    document = loaded(tmp_path, GOOD.replace("path: /data", "path: /data, token: hidden"))
    assert "hidden" not in json.dumps(plan_of(document))


def test_the_schema_takes_what_is_declared_and_refuses_what_is_not() -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    written = yaml.safe_load(GOOD)
    validator = jsonschema_rs.Draft202012Validator(pipeline_schema())
    assert validator.is_valid(written)
    assert validator.is_valid({**written, "trigger": "once", "restart": {"after": ["storage"]}})
    for wrong in (
        '{"nmae": 1}',
        '{"trigger": "never"}',
        '{"name": 1}',
        '{"sinks": {"1": {}}}',
        '{"stop_timeout": "soon"}',
    ):
        assert not validator.is_valid({**written, **json.loads(wrong)}), wrong
    assert not validator.is_valid({"name": "x"})
