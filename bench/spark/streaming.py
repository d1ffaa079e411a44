"""Queue to queue through a stream of Spark at 10,000 messages a second: how long a message takes from when it was due
until a consumer has it, against the same query with a source and a sink that have nothing to do."""

from __future__ import annotations

import multiprocessing
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import penstock
from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target
from bench.process import BenchmarkFailed
from bench.spark.null_streams import NullSink, NullStream, due_ns, rows_due
from bench.spark.stage import served, spark_session
from penstock.client.flight import FlightClient

_RATE = 10_000
_ROUND_S, _LEAST_S, _WARM_UP_S = 30, 6, 15
_ROUNDS = 3
_STEP_S = 0.01
# What the issue allows above Spark's own time.
_ALLOWED_S = 0.25
_INPUT, _OUTPUT = "due", "done"


def run(settings: Run) -> list[Comparison]:
    place, round_s = settings.directory, settings.size(100 * _ROUND_S) // 100 or _LEAST_S
    with (
        served(place / "data", place) as server,
        spark_session(place) as spark,
        penstock.Client(server["http"]) as http,
    ):
        for source in (NullStream, NullSink):
            spark.dataSource.register(source)
        for queue in (_INPUT, _OUTPUT):
            http.create_queue(queue, {"partitions": 2, "limits": {"max_queue_depth": 1 << 30}})
        null, queues = list[list[int]](), list[list[int]]()
        for number in range(_ROUNDS):
            null.append(_through_nothing(spark, place / f"null-{number}", round_s))
            queues.append(_through_queues(spark, place / f"queues-{number}", server, round_s))
    return _comparisons(null, queues)


def _comparisons(null: list[list[int]], queues: list[list[int]]) -> list[Comparison]:
    own = Series("null source and sink, p50", tuple(_percentile(each, 0.5) for each in null))
    allowed = Series(f"the same, and {_ALLOWED_S} s", tuple(each + _ALLOWED_S for each in own.samples))
    middle = Series("queue to queue, p50", tuple(_percentile(each, 0.5) for each in queues))
    tail = Series("queue to queue, p99", tuple(_percentile(each, 0.99) for each in queues))
    null_tail = Series("null source and sink, p99", tuple(_percentile(each, 0.99) for each in null))
    return [
        Comparison(middle, own, Ratio.COST),
        Comparison(middle, allowed, Ratio.COST, Target("<=", 1.0)),
        Comparison(tail, null_tail, Ratio.COST),
    ]


def _percentile(taken_ns: list[int], share: float) -> float:
    rising = sorted(taken_ns)
    return rising[min(int(len(rising) * share), len(rising) - 1)] / 1e9


def _through_nothing(spark: SparkSession, place: Path, round_s: float) -> list[int]:
    file = place.with_suffix(".times")
    rows = spark.readStream.format("null_stream").option("rate", str(_RATE)).load()
    with _streaming(rows, "null_sink", place, file=str(file)):
        time.sleep(_WARM_UP_S)
        before = file.stat().st_size // 8 if file.exists() else 0
        time.sleep(round_s)
    taken = array("q", file.read_bytes())
    return list(taken[before:])


def _through_queues(spark: SparkSession, place: Path, server: dict[str, str], round_s: float) -> list[int]:
    url = {"url": server["flight"]}
    rows = spark.readStream.format("penstock").options(**url, queue=_INPUT, startingOffsets="latest").load()
    processes = multiprocessing.get_context("spawn")
    over, results = processes.Event(), processes.Queue()
    with _streaming(rows.select("key", "value"), "penstock", place, **url, queue=_OUTPUT):
        ends = [
            processes.Process(target=_produce, args=(server["flight"], over), daemon=True),
            processes.Process(target=_consume, args=(server["http"], over, results), daemon=True),
        ]
        for end in ends:
            end.start()
        time.sleep(_WARM_UP_S + round_s)
        over.set()
        taken: list[tuple[int, int]] = results.get(timeout=60)
        for end in ends:
            end.join(60)
    # The last ones: how long a query takes to begin is another question.
    since_ns = max((due for due, _ in taken), default=0) - int(round_s * 1e9)
    counted = [got - due for due, got in taken if due >= since_ns]
    if len(counted) < _RATE * round_s / 4:
        raise BenchmarkFailed(f"{len(counted)} messages came in {round_s} s, of {_RATE} a second")
    return counted


@contextmanager
def _streaming(rows: DataFrame, sink: str, place: Path, **options: str) -> Iterator[None]:
    writing = rows.writeStream.format(sink).options(**options).option("checkpointLocation", str(place))
    query = writing.trigger(processingTime="0 seconds").start()
    try:
        yield
    finally:
        query.stop()
    if (error := query.exception()) is not None:
        raise BenchmarkFailed(str(error))


def _produce(url: str, over: Event) -> None:
    """What is due, every hundredth of a second."""
    sent, begun_ns = 0, time.time_ns()
    with FlightClient(url) as client:
        while not over.wait(_STEP_S):
            due = (time.time_ns() - begun_ns) * _RATE // 1_000_000_000
            client.append(_INPUT, rows_due(begun_ns, sent, due, _RATE))
            sent = due


def _consume(url: str, over: Event, results: multiprocessing.Queue[list[tuple[int, int]]]) -> None:
    """When each was due, and when it came."""
    taken: list[tuple[int, int]] = []
    with (
        penstock.Client(url) as client,
        client.consume(_OUTPUT, "bench", max=1000, wait_s=1.0, start="latest", auto_commit=0.5) as consumer,
    ):
        for message in consumer:
            taken.append((due_ns(message.value), time.time_ns()))
            if over.is_set():
                break
    results.put(taken)


BENCHMARK = Benchmark("spark-streaming", "queue to queue through a stream of Spark at 10,000 messages a second", run)
