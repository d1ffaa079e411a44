"""Sinks of Delta and Iceberg: what is asked of Spark for them, and what is said where they are not installed. Their
jars come from a registry that no test asks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.pipelines import loaded, refusals

from penstock.spark.pipelines import packages
from penstock.spark.pipelines.checks import check
from penstock.spark.pipelines.compiled import Compiled
from penstock.spark.pipelines.declaration import SparkSettings
from penstock.spark.pipelines.packages import with_delta
from penstock.spark.pipelines.sinks import SinkOptions, start_sink

PIPELINE = """\
name: lake
broker: {path: /data}
sources:
  readings: {queue: readings, format: json, schema: "device string, day date"}
sinks:
  table: {from: readings, SINK, partition_by: day, options: {mergeSchema: "true"}}
checkpoints: /checkpoints
spark: {settings: {SETTINGS}}
"""
DELTA, ICEBERG = "delta: tables/readings", "iceberg: lake.db.readings"
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


class Recorder:
    """Takes any call, and is given back by each: what a chain of a builder or writer was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    @property
    def writeStream(self) -> Recorder:
        return self

    def __getattr__(self, name: str) -> Callable[..., Recorder]:
        def called(*given: object, **named: object) -> Recorder:
            self.calls.append((name, named or given))
            return self

        return called


def declared(sink: str, settings: str = "") -> str:
    return PIPELINE.replace("SINK", sink).replace("SETTINGS", settings)


def asked_of_writer(place: Path, sink: str) -> list[tuple[str, object]]:
    writer = Recorder()
    compiled = Compiled(loaded(place, declared(sink)), {"readings": cast(DataFrame, writer)})
    start_sink(compiled, "table", SinkOptions(is_once=True))
    return writer.calls


def test_a_delta_sink_is_a_directory(tmp_path: Path) -> None:
    assert asked_of_writer(tmp_path, DELTA) == [
        ("outputMode", ("append",)),
        ("partitionBy", ("day",)),
        ("format", ("delta",)),
        ("options", {"mergeSchema": "true"}),
        ("option", ("path", str(tmp_path / "tables/readings"))),
        ("option", ("checkpointLocation", "/checkpoints/table")),
        ("queryName", ("lake.table",)),
        ("trigger", {"availableNow": True}),
        ("start", ()),
    ]


def test_an_iceberg_sink_is_a_table_of_a_catalogue(tmp_path: Path) -> None:
    assert asked_of_writer(tmp_path, ICEBERG) == [
        ("outputMode", ("append",)),
        ("partitionBy", ("day",)),
        ("format", ("iceberg",)),
        ("options", {"mergeSchema": "true"}),
        ("option", ("checkpointLocation", "/checkpoints/table")),
        ("queryName", ("lake.table",)),
        ("trigger", {"availableNow": True}),
        ("toTable", ("lake.db.readings",)),
    ]


def test_what_is_not_installed_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "has_delta", lambda: False)
    monkeypatch.setattr(packages, "_spark_version", lambda: "4.3")
    [delta] = refusals(tmp_path, declared(DELTA))
    assert "delta is not installed: name its package in spark.settings" in delta
    assert "io.delta:delta-spark_4.2_2.13:4.4.0" in delta
    [iceberg] = refusals(tmp_path, declared(ICEBERG))
    assert "sinks.table.iceberg: iceberg is not installed, and there is no iceberg package for Spark 4.3 yet" in iceberg
    assert "Install pyspark 4.1 and name its package in spark.settings" in iceberg
    monkeypatch.setattr(packages, "_spark_version", lambda: "4.1")
    [iceberg] = refusals(tmp_path, declared(ICEBERG))
    assert "iceberg is not installed: name its package in spark.settings" in iceberg
    assert "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 (spark.jars for a file)" in iceberg


def test_a_package_for_another_spark_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = "spark.jars.packages: 'org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0'"
    monkeypatch.setattr(packages, "_spark_version", lambda: "4.3")
    [odd] = check(loaded(tmp_path, declared(ICEBERG, named)))
    assert "made for Spark 4.0, and Spark 4.3 is installed: it may not work" in odd
    assert "there is no iceberg package for Spark 4.3 yet" in odd
    delta = "spark.jars.packages: 'io.delta:delta-spark_{}_2.13:4.4.0'"
    assert check(loaded(tmp_path, declared(DELTA, delta.format("4.2")))) == []
    [odd] = check(loaded(tmp_path, declared(DELTA, delta.format("4.0"))))
    assert "it may not work; io.delta:delta-spark_4.2_2.13:4.4.0 does" in odd
    monkeypatch.setattr(packages, "_spark_version", lambda: "4.0")
    assert check(loaded(tmp_path, declared(ICEBERG, named))) == []


@pytest.mark.parametrize(
    ("sink", "settings"),
    [
        (DELTA, "spark.jars: /jars/delta-spark_2.13.jar"),
        (ICEBERG, "spark.jars.packages: 'org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0'"),
    ],
)
def test_jars_that_are_named_are_enough(
    tmp_path: Path, sink: str, settings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "has_delta", lambda: False)
    check(loaded(tmp_path, declared(sink, settings)))


def configured(settings: dict[str, str]) -> dict[str, object]:
    """What a builder is given, by name."""
    builder = Recorder()
    with_delta(cast(SparkSession.Builder, builder), SparkSettings(settings=settings))
    return {given[0]: given[1] for name, given in builder.calls if name == "config" and isinstance(given, tuple)}


def test_jars_of_delta_that_are_named_are_not_fetched() -> None:
    given = {"spark.jars": "/jars/delta-spark.jar", "spark.sql.extensions": "one.Extension"}
    assert configured(given) == {
        "spark.sql.extensions": f"one.Extension,{EXTENSION}",
        "spark.sql.catalog.spark_catalog": CATALOG,
    }


def test_the_package_of_delta_leaves_others_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def configure(builder: Recorder, extra_packages: list[str]) -> Recorder:
        asked.append(extra_packages)
        return builder

    module = ModuleType("delta")
    module.__dict__["configure_spark_with_delta_pip"] = configure
    monkeypatch.setitem(sys.modules, "delta", module)
    given = {"spark.jars.packages": "a:b:1, c:d:2", "spark.sql.catalog.spark_catalog": "my.Catalog"}
    assert configured(given) == {"spark.sql.extensions": EXTENSION, "spark.sql.catalog.spark_catalog": "my.Catalog"}
    assert asked == [["a:b:1", "c:d:2"]]
