"""A queue read by Spark from its directory and over Flight, all columns and two of them, against Parquet with the same
rows and against Python sources that have nothing to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import penstock
from bench.measure import Benchmark, Comparison, Run, Series, Target, interleaved, seconds
from bench.process import BenchmarkFailed
from bench.spark.stage import served, spark_session
from bench.spark.yardsticks import VALUE_BYTES, NullSource, TupleSource

_ROWS = 8_390_000
"""of 256 bytes: 2 GiB"""
_COMMIT_ROWS = 10_000
_PARTITIONS = 4
# The JVM compiles what it runs often: the first runs of a query take up to four times as long as those after.
_WARM_UPS = 2
_TWO = "key,value"


def run(settings: Run) -> list[Comparison]:
    rows = settings.size(_ROWS, _COMMIT_ROWS) // _COMMIT_ROWS * _COMMIT_ROWS
    _write_queue(settings.directory / "data", rows)
    data = settings.directory / "data"
    with served(data, settings.directory) as server, spark_session(settings.directory) as spark:
        frames = _frames(spark, settings.directory, rows, server["flight"])
        for frame in frames.values():
            _check(frame, rows)
        calls = {name: partial(seconds, _consuming(frame)) for name, frame in frames.items()}
        interleaved(_WARM_UPS, calls)
        samples = interleaved(settings.rounds, calls)
    return _comparisons({name: Series(name, taken, bytes=rows * VALUE_BYTES) for name, taken in samples.items()})


def _comparisons(series: dict[str, Series]) -> list[Comparison]:
    queue, two = series["queue, all columns"], series["queue, key and value"]
    remote, remote_two = series["queue over Flight, all columns"], series["queue over Flight, key and value"]
    return [
        Comparison(queue, series["parquet, all columns"], target=Target(">=", 0.6)),
        Comparison(queue, series["null source"], target=Target(">=", 0.8)),
        Comparison(queue, series["row source"], target=Target(">=", 3.0)),
        Comparison(two, series["parquet, key and value"], target=Target(">=", 0.7)),
        Comparison(remote, series["parquet, all columns"], target=Target(">=", 0.4)),
        Comparison(remote_two, series["parquet, key and value"]),
    ]


def _frames(spark: SparkSession, directory: Path, rows: int, url: str) -> dict[str, DataFrame]:
    for source in (NullSource, TupleSource):
        spark.dataSource.register(source)
    queue = spark.read.format("penstock").option("queue", "orders")
    remote = spark.read.format("penstock").option("queue", "orders").option("url", url)
    everything = queue.load(str(directory / "data"))
    everything.write.parquet(str(directory / "parquet"))
    parquet = spark.read.parquet(str(directory / "parquet"))
    return {
        "queue, all columns": everything,
        "queue, key and value": queue.option("columns", _TWO).load(str(directory / "data")),
        "queue over Flight, all columns": remote.load(),
        "queue over Flight, key and value": remote.option("columns", _TWO).load(),
        "parquet, all columns": parquet,
        "parquet, key and value": parquet.select(*_TWO.split(",")),
        "null source": spark.read.format("null_batches").option("rows", str(rows)).load(),
        "row source": spark.read.format("null_tuples").option("rows", str(rows)).load(),
    }


def _consuming(frame: DataFrame) -> Callable[[], None]:
    """Every row and column is made, and dropped."""
    return frame.write.format("noop").mode("overwrite").save


def _check(frame: DataFrame, rows: int) -> None:
    found = frame.selectExpr("count(*)", "sum(length(value))").first()
    if found is None or tuple(found) != (rows, rows * VALUE_BYTES):
        raise BenchmarkFailed(f"{rows} rows of {VALUE_BYTES} bytes were written, Spark reads {found}")


def _write_queue(path: Path, rows: int) -> None:
    with penstock.open(path) as database:
        database.declare("orders", partitions=_PARTITIONS, limits={"max_queue_depth": rows + 1})
        for _ in range(0, rows, _COMMIT_ROWS):
            database.put_many("orders", _table())


def _table() -> pa.Table:
    """Values that nothing compresses and no dictionary shortens."""
    whole = os.urandom(_COMMIT_ROWS * VALUE_BYTES)
    values = [whole[at : at + VALUE_BYTES] for at in range(0, len(whole), VALUE_BYTES)]
    keys = [b"key-%02d" % (number % 100) for number in range(_COMMIT_ROWS)]
    return pa.table({"value": pa.array(values, pa.binary()), "key": pa.array(keys, pa.binary())})


BENCHMARK = Benchmark("spark-batch", "a queue read by Spark against Parquet and sources with nothing to do", run)
