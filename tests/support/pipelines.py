"""Declarations for tests: a small one that holds, and what is said of one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.spark.pipelines.checks import check
from penstock.spark.pipelines.document import Document, load
from penstock.spark.pipelines.problems import BadPipeline

GOOD = """\
name: devices
broker: {path: /data, url: "grpc://localhost:7070"}
sources:
  readings:
    queue: readings
    format: json
    schema: device string, celsius double, at timestamp
    malformed: rejects
steps:
  per_minute:
    from: readings
    window: {column: at, length: 1m, late: 30s}
    group_by: device
    select: {average: avg(celsius)}
  hot:
    sql: |
      select device, average
      from per_minute
      where average > 30
rules:
  plausible: {of: readings, expect: celsius between -60 and 90, otherwise: rejects}
sinks:
  alerts: {from: hot, queue: alerts, key: device}
  table: {from: per_minute, parquet: ./table}
  rejects: {queue: rejects}
"""


def written(place: Path, text: str, name: str = "pipeline.yaml") -> Path:
    file = place / name
    file.write_text(text)
    return file


def loaded(place: Path, text: str, variables: Mapping[str, str] | None = None) -> Document:
    return load(written(place, text), variables or {})


def refusals(place: Path, text: str, variables: Mapping[str, str] | None = None) -> list[str]:
    """What is said of a declaration that will not do, without the directory."""
    with pytest.raises(BadPipeline) as caught:
        check(loaded(place, text, variables))
    return [line.replace(f"{place}/", "") for line in caught.value.lines()]


def refusals_of_change(place: Path, before: str, after: str) -> list[str]:
    """What is said of GOOD with this in the place of that."""
    assert GOOD.count(before) == 1, before
    return refusals(place, GOOD.replace(before, after))
