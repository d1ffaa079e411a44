"""Delta and Iceberg for real, where there is a release for the Spark that is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.conftest import not_tested
from tests.support.numbered import put_numbers

import penstock
from penstock.spark.pipelines.packages import package_for

_DECLARATION = """\
name: tables
broker: {{path: {data}}}
spark:
  master: local[1]
  settings:
    spark.ui.enabled: 'false'
    spark.jars.packages: '{package}'
    spark.sql.catalog.lake: org.apache.iceberg.spark.SparkCatalog
    spark.sql.catalog.lake.type: hadoop
    spark.sql.catalog.lake.warehouse: {place}/lake
trigger: once
sources:
  numbers: {{queue: numbers, format: text}}
steps:
  rows: {{sql: 'select key, value from numbers'}}
sinks:
  table: {{from: rows, {sink}}}
"""


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_queue_becomes_a_table(tmp_path: Path, kind: str) -> None:
    if (package := package_for(kind)) is None:
        not_tested(f"a sink of {kind}", "there is no package for the Spark that is installed")
    with penstock.open(tmp_path / "data") as database:
        database.declare("numbers", partitions=1)
        put_numbers(database, "numbers", range(100))
    sink = f"delta: {tmp_path}/table" if kind == "delta" else "iceberg: lake.db.numbers"
    file = tmp_path / "tables.yaml"
    file.write_text(_DECLARATION.format(data=tmp_path / "data", place=tmp_path, package=package, sink=sink))
    command = [sys.executable, "-m", "penstock.cli.main", "pipeline", "run", str(file)]
    # Ivy fails over a Maven repository of the user that has the description of a package and not its jar.
    environment = {
        **os.environ,
        "SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Duser.home={tmp_path}",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if any(words in done.stderr for words in ("unresolved dependency", "download failed", "Server access error")):
        not_tested(f"a sink of {kind}", "its package cannot be downloaded")
    assert done.returncode == 0, done.stderr[-4000:]
    assert list((tmp_path / ("table" if kind == "delta" else "lake/db/numbers")).rglob("*.parquet"))
