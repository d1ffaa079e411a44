"""Queues read as tables by a real Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.support.numbered import purge, put_numbers, put_numbers_soon, until_declared, until_seen

import penstock
from penstock.embedded.database import Database
from penstock.spark.source import PenstockSource

ROWS = 300_000
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with penstock.open(tmp_path_factory.mktemp("batch") / "data") as opened:
        opened.declare("orders", partitions=4, limits={"max_queue_depth": 10 * ROWS})
        for first in range(0, ROWS, 20_000):
            put_numbers_soon(opened, "orders", range(first, first + 20_000))
        until_seen(opened, "orders")
        yield opened


def _load(spark: SparkSession, database: Database, **options: str) -> DataFrame:
    given = {"path": str(database.directory), "queue": "orders", **options}
    return spark.read.format("penstock").options(**given).load()


@contextmanager
def _not_pushing(spark: SparkSession) -> Iterator[None]:
    """As Spark is unless somebody turns it on."""
    spark.conf.set(_PUSHDOWN, "false")
    try:
        yield
    finally:
        spark.conf.set(_PUSHDOWN, "true")


def test_every_message_is_a_row_once(spark: SparkSession, database: Database) -> None:
    rows = _load(spark, database)
    found = rows.selectExpr(
        "count(*)", "sum(cast(cast(value as string) as bigint))", "count(distinct value)", "count(distinct partition)"
    ).first()
    assert found is not None
    assert tuple(found) == (ROWS, ROWS * (ROWS - 1) // 2, ROWS, 4)


def test_a_row_has_kafkas_columns_and_the_queue(spark: SparkSession, database: Database) -> None:
    rows = _load(spark, database, includeHeaders="true")
    assert rows.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("queue", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    row = rows.where("partition = 1 and offset = 5").first()
    assert row is not None
    assert (row.queue, row.partition, row.offset, row.timestampType, row.headers) == ("orders", 1, 5, 0, [])
    assert bytes(row.key) == b"key-%d" % (int(row.value) % 100)


def test_columns_are_picked_by_option_and_by_schema(spark: SparkSession, database: Database) -> None:
    assert _load(spark, database, columns="offset,value").columns == ["offset", "value"]
    reader = spark.read.format("penstock").option("queue", "orders").schema("value binary")
    assert reader.load(str(database.directory)).distinct().count() == ROWS


def test_filters_reach_the_ranges_when_spark_pushes_them(spark: SparkSession, database: Database) -> None:
    wanted = "partition = 2 and offset >= 100 and offset < 110 and timestamp > '2020-01-01'"
    split = {"packRows": "10", "splitRows": str(ROWS // 4)}
    pushed = _load(spark, database, **split).where(wanted)
    assert pushed.rdd.getNumPartitions() == 1
    assert sorted(row.offset for row in pushed.collect()) == list(range(100, 110))
    with _not_pushing(spark):
        plain = _load(spark, database, **split).where(wanted)
        assert plain.rdd.getNumPartitions() >= 4
        assert sorted(row.offset for row in plain.collect()) == list(range(100, 110))


def test_pushed_times_give_what_spark_itself_would(spark: SparkSession, database: Database) -> None:
    middle = _load(spark, database).selectExpr("percentile_approx(timestamp, 0.5)").first()
    assert middle is not None
    for comparison in ("<", "<=", ">", ">=", "="):
        wanted = f"timestamp {comparison} timestamp'{middle[0]}'"
        pushed = _load(spark, database).where(wanted).count()
        with _not_pushing(spark):
            assert _load(spark, database).where(wanted).count() == pushed


def test_large_partitions_are_split(spark: SparkSession, database: Database) -> None:
    rows = _load(spark, database, minPartitions="10")
    assert rows.rdd.getNumPartitions() >= 10
    assert rows.count() == ROWS


def test_options_that_are_none_fail_with_the_nearest(spark: SparkSession, database: Database) -> None:
    with pytest.raises(PySparkException, match="did you mean startingOffsets"):
        _load(spark, database, startingOffset="latest")


def test_an_empty_queue_is_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    with penstock.open(tmp_path / "data") as database:
        database.declare("orders", partitions=2)
        until_declared(database, "orders")
        assert _load(spark, database).count() == 0


def test_trimmed_offsets_are_an_error_that_names_them(spark: SparkSession, tmp_path: Path) -> None:
    with penstock.open(tmp_path / "data") as database:
        database.declare("orders", partitions=1)
        put_numbers(database, "orders", range(10))
        purge(database, "orders")
        put_numbers(database, "orders", range(10, 15))
        start = {"startingOffsets": '{"orders": {"0": 4}}'}
        with pytest.raises(PySparkException, match="6 offsets are gone: offsets 4 to 9 of partition 0"):
            _load(spark, database, **start).count()
        assert _load(spark, database, failOnDataLoss="false", **start).count() == 5


def test_a_source_can_be_registered_by_hand(spark: SparkSession, database: Database) -> None:
    spark.dataSource.register(PenstockSource)
    assert _load(spark, database, endingOffsets='{"orders": {"0": 10, "1": 0, "2": 0, "3": 0}}').count() == 10


def test_a_writer_at_work_is_seen_without_gaps(spark: SparkSession, tmp_path: Path) -> None:
    """Commits of 100 that are there whole or not at all: what is read is a prefix of each partition."""
    with penstock.open(tmp_path / "data") as database:
        database.declare("orders", partitions=2)
        put_numbers(database, "orders", range(100))
        has_read = threading.Event()
        writer = threading.Thread(target=_write_until, args=(database, has_read))
        writer.start()
        try:
            counts = [_check_prefix(_load(spark, database)) for _ in range(5)]
        finally:
            has_read.set()
            writer.join()
        assert counts == sorted(counts) and counts[-1] > counts[0]


def _write_until(database: Database, has_read: threading.Event) -> None:
    number = 100
    while not has_read.is_set():
        put_numbers_soon(database, "orders", range(number, number + 100))
        number += 100


def _check_prefix(rows: DataFrame) -> int:
    found = rows.groupBy("partition").agg({"offset": "max", "value": "count"}).collect()
    for row in found:
        assert row["count(value)"] == row["max(offset)"] + 1, row
    return sum(row["count(value)"] for row in found)
