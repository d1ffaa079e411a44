"""Rows written by Spark to a queue, staged and committed, against a Python sink that drops them, against Parquet, and
against topics of Kafka where that is installed. Each begins with a disk at rest: who does not sync what they write
leaves it to whoever is measured next."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import penstock
from bench.measure import Benchmark, Comparison, Run, Series, Target, interleaved, seconds
from bench.process import BenchmarkFailed
from bench.spark.kafka import FLUSHES, where_installed
from bench.spark.null_streams import NullSink
from bench.spark.stage import served, spark_session
from bench.spark.yardsticks import VALUE_BYTES, NullSource

_ROWS = 400_000
_WARM_UPS = 3
_QUEUE = "copies"
_PARTITIONS = 2
_TIMES_KAFKA = 1.3


def run(settings: Run) -> list[Comparison]:
    rows, place = settings.size(_ROWS, 10_000), settings.directory
    with (
        served(place / "data", place) as server,
        where_installed(place / "kafka") as kafka,
        spark_session(place) as spark,
        penstock.Client(server["http"]) as http,
    ):
        for source in (NullSource, NullSink):
            spark.dataSource.register(source)
        http.create_queue(_QUEUE, {"partitions": _PARTITIONS, "limits": {"max_queue_depth": 100 * rows}})
        frame = spark.read.format("null_batches").option("rows", str(rows)).option("columns", "key,value").load()
        writing = frame.write.mode("append")
        to_queue = {"url": server["flight"], "queue": _QUEUE}
        ways: dict[str, Callable[[], None]] = {
            "queue": writing.format("penstock").options(**to_queue).save,
            "null sink": frame.write.mode("append").format("null_sink").save,
            "parquet": partial(frame.write.mode("append").parquet, str(place / "parquet")),
        }
        topics: dict[str, dict[str, str]] = {}
        for name, flush in FLUSHES.items() if kafka is not None else ():
            assert kafka is not None
            kafka.create(f"{_QUEUE}-{flush}", _PARTITIONS, flush)
            topics[name] = {"kafka.bootstrap.servers": kafka.address, "topic": f"{_QUEUE}-{flush}"}
            ways[name] = (
                frame.write.mode("append").format("kafka").options(**topics[name], **{"kafka.acks": "all"}).save
            )
        calls = {name: partial(_at_rest, call) for name, call in ways.items()}
        interleaved(_WARM_UPS, calls)
        samples = interleaved(settings.rounds, calls)
        written = rows * (_WARM_UPS + settings.rounds)
        _check("the queue", http.queue(_QUEUE).messages, written)
        for name, place_of in topics.items():
            there = {"kafka.bootstrap.servers": place_of["kafka.bootstrap.servers"], "subscribe": place_of["topic"]}
            _check(name, spark.read.format("kafka").options(**there).load().count(), written)
    return _comparisons(samples, rows)


def _at_rest(call: Callable[[], None]) -> float:
    os.sync()
    return seconds(call)


def _check(what: str, held: int, written: int) -> None:
    if held != written:
        raise BenchmarkFailed(f"{written} rows were written, {what} has {held}")


def _comparisons(samples: dict[str, tuple[float, ...]], rows: int) -> list[Comparison]:
    series = {name: Series(f"write, {name}", taken, bytes=rows * VALUE_BYTES) for name, taken in samples.items()}
    speed = f"{rows / series['queue'].spread.median:,.0f} rows/s"
    return [
        Comparison(series["queue"], series["null sink"], notes={"rows": speed}),
        Comparison(series["queue"], series["parquet"]),
        *(
            Comparison(series["queue"], series[name], target=Target(">=", _TIMES_KAFKA))
            for name in FLUSHES
            if name in series
        ),
    ]


BENCHMARK = Benchmark("spark-sink", "rows written by Spark to a queue against sinks that drop or file them", run)
