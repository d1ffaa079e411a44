"""How long a durable MQTT publish takes at 5,000 a second while Spark reads the same queue from the data directory, on
one core at the lowest priority, against the same while something of that shape only burns the core.

As in bench/mqtt/latency.py what counts is the time since a message was due. Spark reads the whole queue over and over:
a read is under way before the first message of a round is due and after the last is acknowledged. The burner is on the
same core at the same priority, with as many threads as Spark has that want the core."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing, nullcontext
from functools import partial
from statistics import mean

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, interleaved
from bench.mqtt.durable import CONNECTIONS, WINDOW, publishers
from bench.mqtt.ends import Gate, PacedPublisher
from bench.mqtt.latency import Latencies
from bench.mqtt.load import Load
from bench.mqtt.meter import Meter
from bench.mqtt.mqtt_speech import QUEUE, MqttSpeech
from bench.mqtt.peers import Broker, running, start_penstock
from bench.process import BenchmarkFailed
from bench.spark.neighbours import Neighbour, Work, burning, spark_reading

_MESSAGES_A_SECOND = 5_000
_ROUND_MS, _LEAST_MS = 10_000, 500
# What is there to read before the first round: half a million messages where the machine is idle. The core is Spark's
# only when nobody else wants it, and a round waits for a whole read before it begins.
_FILL_MS, _LEAST_FILL_MS = 500, 100
_ALLOWED_TIMES = 1.5
# What is acknowledged is in the files, and so in a table, a moment later.
_VISIBLE_AFTER_S = 1.0

QUIET, BURNER, SPARK = "beside nothing", "beside a burner", "beside Spark reading"


class Rounds:
    """Publishes at a fixed rate, each round beside one of the neighbours or beside nothing."""

    def __init__(self, broker: Broker, duration_s: float, neighbours: Mapping[str, Neighbour]) -> None:
        self.found = {name: Latencies() for name in (QUIET, *neighbours)}
        self.work: dict[str, list[Work]] = {name: [] for name in neighbours}
        self.meter, self.published = Meter(), 0
        self._broker, self._duration_s, self._neighbours = broker, duration_s, neighbours

    def run(self, rounds: int) -> None:
        interleaved(rounds, {name: partial(self._round, name) for name in self.found})

    def _round(self, name: str) -> float:
        neighbour = self._neighbours.get(name)
        speech = MqttSpeech(self._broker.address)
        senders = [PacedPublisher(speech.publisher(number, WINDOW), WINDOW, Gate()) for number in range(CONNECTIONS)]
        with neighbour.at_work() if neighbour else nullcontext(Work()) as work:
            load = Load(self._broker.server, senders)
            outcome = load.at_rate(_MESSAGES_A_SECOND, self._duration_s)
        load.close()
        self.meter.add(name, outcome)
        self.published += outcome.messages
        if neighbour:
            self.work[name].append(work)
        return self.found[name].add([sender.latencies_ns for sender in senders])

    def comparisons(self, threads: int) -> list[Comparison]:
        mine, burner, quiet = (self._series(name) for name in (SPARK, BURNER, QUIET))
        notes = {f"all rounds {name}": taken.text() for name, taken in self.found.items()}
        notes |= {name: _share(work) for name, work in self.work.items()}
        notes |= {"reads": _reads(self.work[SPARK]), "threads that want the core": str(threads)}
        return [
            Comparison(mine, burner, Ratio.COST, Target("<=", _ALLOWED_TIMES), notes),
            Comparison(mine, quiet, Ratio.COST, notes={f"load, {k}": v.text() for k, v in self.meter.usage.items()}),
        ]

    def _series(self, name: str) -> Series:
        return self.found[name].series(f"durable publish {name}, p99 to the acknowledgement", 0.99)


def _share(work: list[Work]) -> str:
    return f"{mean(each.cpu_s / each.seconds for each in work):.0%} of the core"


def _reads(work: list[Work]) -> str:
    """The first and the last of each round go on outside of it."""
    rows = [count for each in work for count in each.results]
    return f"{len(rows)} one after the other, of {min(rows):,} to {max(rows):,} rows; one under way all the time"


def run(settings: Run) -> list[Comparison]:
    data = settings.directory / start_penstock.__name__ / "data"
    with running(settings.directory, start_penstock) as [broker]:
        filled = _fill(broker, settings.size(_FILL_MS, _LEAST_FILL_MS) / 1000)
        with closing(Neighbour(spark_reading, data, QUEUE, settings.directory / "driver")) as spark:
            threads = spark.runnable_threads()
            with closing(Neighbour(burning, threads)) as burner:
                duration_s = settings.size(_ROUND_MS, _LEAST_MS) / 1000
                rounds = Rounds(broker, duration_s, {BURNER: burner, SPARK: spark})
                rounds.run(settings.rounds)
            _check(spark, filled + rounds.published)
    return rounds.comparisons(threads)


def _fill(broker: Broker, duration_s: float) -> int:
    load = Load(broker.server, publishers(MqttSpeech(broker.address)))
    outcome = load.as_fast_as_possible(duration_s)
    load.close()
    time.sleep(_VISIBLE_AFTER_S)
    return outcome.messages


def _check(spark: Neighbour, published: int) -> None:
    time.sleep(_VISIBLE_AFTER_S)
    with spark.at_work() as work:
        pass
    if work.results[-1] != published:
        raise BenchmarkFailed(f"{published:,} messages were acknowledged, Spark reads {work.results[-1]:,}")


BENCHMARK = Benchmark(
    "spark-beside-mqtt", "p99 of durable MQTT publishes while Spark reads the directory, against a CPU burner", run
)
