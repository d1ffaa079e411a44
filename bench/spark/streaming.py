"""Queue to queue through a stream of Spark at 10,000 messages a second: how long a message takes from when it was due
until a consumer of MQTT has it, read over `url` and from `path`, against the same query with a source and a sink that
have nothing to do, and from topic to topic of Kafka where that is installed. Where the time of a micro-batch goes is
printed beside it."""

from __future__ import annotations

import multiprocessing
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import penstock
from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target
from bench.process import BenchmarkFailed
from bench.spark.ends import consume, produce
from bench.spark.kafka import FLUSHES, Kafka, stop, where_installed
from bench.spark.kafka import taken as taken_of
from bench.spark.null_streams import NullSink, NullStream, rows_due
from bench.spark.stage import served, spark_session
from penstock.client.flight import FlightClient

_RATE = 10_000
_ROUND_S, _LEAST_S = 20, 6
# Workers are started and code compiled with rows that nobody counts; then the ends begin, and have a moment to meet.
_FIRST_BATCHES, _WARM_UP_S = 40, 6
_ROUNDS = 3
# What a stream may take from queue to queue, whatever Spark does.
_ALLOWED_S = 0.15
_INPUT, _OUTPUT = "due", "done"
_PARTITIONS = 2
_PARTS = ("latestOffset", "queryPlanning", "getBatch", "addBatch", "walCommit", "commitOffsets", "triggerExecution")


@dataclass(frozen=True, slots=True)
class Round:
    """How long each message took, and what Spark tells of its micro-batches."""

    taken_ns: list[int]
    micro_batches: list[dict[str, int]]

    def percentile(self, share: float) -> float:
        rising = sorted(self.taken_ns)
        return rising[min(int(len(rising) * share), len(rising) - 1)] / 1e9


@dataclass(slots=True)
class Progress:
    """The durations of micro-batches with rows, in ms, by Spark's names; complete when the query has ended."""

    query: StreamingQuery
    micro_batches: list[dict[str, int]] = field(default_factory=list)

    def after(self, count: int, work: Callable[[], object] = lambda: None) -> None:
        """Work is done again and again until so many micro-batches are."""
        while (last := self.query.lastProgress) is None or last.batchId < count:
            work()
            if (error := self.query.exception()) is not None:
                raise BenchmarkFailed(str(error))
            time.sleep(0.1)


def run(settings: Run) -> list[Comparison]:
    place, round_s = settings.directory, settings.size(100 * _ROUND_S) // 100 or _LEAST_S
    with (
        served(place / "data", place) as server,
        where_installed(place / "kafka") as kafka,
        spark_session(place) as spark,
        penstock.Client(server["http"]) as http,
    ):
        prepare(spark, http)
        ways: dict[str, Callable[[Path], Round]] = {
            "null": partial(through_nothing, spark, round_s=round_s),
            "url": partial(through_queues, spark, server, {"url": server["flight"]}, round_s=round_s),
            "path": partial(through_queues, spark, server, {"path": str(place / "data")}, round_s=round_s),
        }
        for name, flush in FLUSHES.items() if kafka is not None else ():
            assert kafka is not None
            topics = (f"{_INPUT}-{flush}", f"{_OUTPUT}-{flush}")
            for topic in topics:
                kafka.create(topic, _PARTITIONS, flush)
            ways[name] = partial(through_topics, spark, kafka, topics, round_s=round_s)
        rounds: dict[str, list[Round]] = {name: [] for name in ways}
        for number in range(_ROUNDS):
            for name in list(ways) if number % 2 == 0 else list(ways)[::-1]:
                rounds[name].append(ways[name](place / f"{_file_name(name)}-{number}"))
    return _comparisons(rounds)


def prepare(spark: SparkSession, http: penstock.Client) -> None:
    for source in (NullStream, NullSink):
        spark.dataSource.register(source)
    for queue in (_INPUT, _OUTPUT):
        http.create_queue(queue, {"partitions": _PARTITIONS, "limits": {"max_queue_depth": 1 << 30}})


def _comparisons(rounds: Mapping[str, list[Round]]) -> list[Comparison]:
    def series(about: str, name: str, share: float) -> Series:
        return Series(f"{about}, p{share * 100:.0f}", tuple(each.percentile(share) for each in rounds[name]))

    own = series("null source and sink", "null", 0.5)
    url, path = series("queue to queue over url", "url", 0.5), series("queue to queue from path", "path", 0.5)
    allowed = Series(f"{_ALLOWED_S} s", (_ALLOWED_S,) * len(url.samples))
    notes = {name: parts_text(each for one in rounds[name] for each in one.micro_batches) for name in rounds}
    parts = {f"median ms of a micro-batch, {name}": text for name, text in notes.items()}
    return [
        Comparison(url, own, Ratio.COST, notes=parts),
        Comparison(url, allowed, Ratio.COST, Target("<=", 1.0)),
        Comparison(path, url, Ratio.COST, Target("<=", 1.1)),
        Comparison(
            series("queue to queue over url", "url", 0.99), series("null source and sink", "null", 0.99), Ratio.COST
        ),
        *(
            Comparison(url, series(f"topic to topic, {name}", name, 0.5), Ratio.COST)
            for name in FLUSHES
            if name in rounds
        ),
    ]


def _file_name(name: str) -> str:
    return "".join(each if each.isalnum() else "-" for each in name)


def parts_text(micro_batches: Iterator[dict[str, int]]) -> str:
    found = list(micro_batches)
    return ", ".join(
        f"{part} {median(each.get(part, 0) for each in found):.0f}"
        for part in _PARTS
        if any(part in each for each in found)
    )


def through_nothing(spark: SparkSession, place: Path, round_s: float) -> Round:
    file = place.with_suffix(".times")
    rows = spark.readStream.format("null_stream").option("rate", str(_RATE)).load()
    with _streaming(rows, "null_sink", place, file=str(file)) as progress:
        progress.after(_FIRST_BATCHES)
        time.sleep(_WARM_UP_S)
        before = file.stat().st_size // 8 if file.exists() else 0
        time.sleep(round_s)
    taken = array("q", file.read_bytes())
    return Round(list(taken[before:]), progress.micro_batches)


def through_queues(
    spark: SparkSession, server: Mapping[str, str], source: Mapping[str, str], place: Path, round_s: float
) -> Round:
    """`source`: the option that says where rows are read."""
    rows = spark.readStream.format("penstock").options(**source, queue=_INPUT, startingOffsets="latest").load()
    processes = multiprocessing.get_context("spawn")
    over, results = processes.Event(), processes.Queue()
    there = urlsplit(server["mqtt"])
    address = (there.hostname, there.port)
    with _streaming(rows.select("key", "value"), "penstock", place, url=server["flight"], queue=_OUTPUT) as progress:
        ends = [
            processes.Process(target=produce, args=(address, _INPUT, _RATE, over), daemon=True),
            processes.Process(target=consume, args=(address, _OUTPUT, place.name, over, results), daemon=True),
        ]
        with FlightClient(server["flight"]) as client:
            progress.after(_FIRST_BATCHES, lambda: client.append(_INPUT, rows_due(0, 0, 100, _RATE)))
        for end in ends:
            end.start()
        time.sleep(_WARM_UP_S + round_s)
        over.set()
        taken: list[tuple[int, int]] = results.get(timeout=60)
        for end in ends:
            end.join(60)
    return _counted(taken, round_s, progress)


def through_topics(spark: SparkSession, kafka: Kafka, topics: tuple[str, str], place: Path, round_s: float) -> Round:
    """The same with Kafka's source and sink, whose ends are programs of the JVM."""
    there, file = {"kafka.bootstrap.servers": kafka.address}, place.with_suffix(".times")
    rows = spark.readStream.format("kafka").options(**there, subscribe=topics[0], startingOffsets="latest").load()
    acks = {"kafka.acks": "all", "topic": topics[1]}
    with _streaming(rows.select("key", "value"), "kafka", place, **there, **acks) as progress:
        ends = [kafka.end("consume", topics[1], str(file)), kafka.end("produce", topics[0], str(_RATE))]
        progress.after(_FIRST_BATCHES)
        time.sleep(_WARM_UP_S + round_s)
        for end in ends[::-1]:
            stop(end)
    return _counted(taken_of(file), round_s, progress)


def _counted(taken: list[tuple[int, int]], round_s: float, progress: Progress) -> Round:
    # The last ones: how long a query takes to begin is another question.
    since_ns = max((due for due, _ in taken), default=0) - int(round_s * 1e9)
    counted = [got - due for due, got in taken if due >= since_ns]
    if len(counted) < _RATE * round_s / 4:
        raise BenchmarkFailed(f"{len(counted)} messages came in {round_s} s, of {_RATE} a second")
    return Round(counted, progress.micro_batches)


@contextmanager
def _streaming(rows: DataFrame, sink: str, place: Path, **options: str) -> Iterator[Progress]:
    writing = rows.writeStream.format(sink).options(**options).option("checkpointLocation", str(place))
    query = writing.trigger(processingTime="0 seconds").start()
    progress = Progress(query)
    try:
        yield progress
        # The newest: Spark keeps a hundred.
        progress.micro_batches += [dict(each.durationMs) for each in query.recentProgress if each.numInputRows]
    finally:
        query.stop()
    if (error := query.exception()) is not None:
        raise BenchmarkFailed(str(error))


BENCHMARK = Benchmark("spark-streaming", "queue to queue through a stream of Spark at 10,000 messages a second", run)
