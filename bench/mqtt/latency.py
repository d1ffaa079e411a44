"""How long a message takes at 20,000 a second: without queues against mosquitto, through a durable queue against a sync
of the same disk by a process outside the broker.

A message is due every 50 µs on average: one of each of ten connections every 500 µs. What counts is the time since it
was due, so that a broker that makes the publisher wait is not excused."""

from __future__ import annotations

import multiprocessing
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit, interleaved
from bench.mqtt.durable import CONNECTIONS, WINDOW
from bench.mqtt.ends import Consumer, Gate, PacedPublisher
from bench.mqtt.load import Load
from bench.mqtt.meter import Meter
from bench.mqtt.mqtt_speech import MqttSpeech, topic
from bench.mqtt.peers import Broker, running, start_penstock, start_prompt_mosquitto
from bench.path.raw import RawFile
from bench.report import number_text

_MESSAGES_A_SECOND = 20_000
_LIVE_ROUND_MS, _DURABLE_ROUND_MS, _LEAST_MS = 6_000, 15_000, 500
_ALLOWED_S, _ALLOWED_TAIL_S = 1e-3, 25e-3
_TIMES_MOSQUITTO, _TIMES_PROBE = 3, 4
_PROBE_BYTES, _PROBE_FILE_BYTES, _PROBE_EVERY_S = 4096, 16 << 20, 0.05
_PREFIX = "live"


class Latencies:
    """Of one kind, over all rounds."""

    def __init__(self) -> None:
        self._rounds: list[list[int]] = []

    def add(self, taken_ns: Sequence[array[int]]) -> float:
        """The p99 of a round, in seconds."""
        self._rounds.append(sorted(value for part in taken_ns for value in part))
        return percentile(self._rounds[-1], 0.99)

    def series(self, name: str, share: float) -> Series:
        return Series(name, tuple(percentile(taken, share) for taken in self._rounds))

    def text(self) -> str:
        pooled = sorted(value for taken in self._rounds for value in taken)
        parts = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
        shares = (f"{name} {number_text(percentile(pooled, share), Unit.SECONDS)}" for name, share in parts.items())
        return f"{len(pooled):,}: {', '.join(shares)}"


def percentile(rising_ns: Sequence[int], share: float) -> float:
    return rising_ns[min(int(len(rising_ns) * share), len(rising_ns) - 1)] / 1e9


def run(settings: Run) -> list[Comparison]:
    live, durable = settings.directory / "live", settings.directory / "durable"
    live.mkdir()
    durable.mkdir()
    return [*_live(settings, live), *_durable(settings, durable)]


def _live(settings: Run, directory: Path) -> list[Comparison]:
    duration_s, meter = settings.size(_LIVE_ROUND_MS, _LEAST_MS) / 1000, Meter()
    with running(directory, start_penstock, start_prompt_mosquitto) as brokers:
        found = {broker.name: Latencies() for broker in brokers}
        interleaved(
            settings.rounds,
            {broker.name: partial(_live_round, broker, meter, duration_s, found[broker.name]) for broker in brokers},
        )
    mine, *others = (found[broker.name].series(broker.name, 0.99) for broker in brokers)
    subject = Series("QoS 1 without a queue, p99 from due to delivered", mine.samples)
    notes = {f"all rounds, {name}": taken.text() for name, taken in found.items()} | meter.notes(*found)
    if not others:
        return [Comparison(subject, notes=notes)]
    allowed = tuple(max(_TIMES_MOSQUITTO * sample, _ALLOWED_S) for sample in others[0].samples)
    return [
        Comparison(subject, others[0], Ratio.COST, notes=notes),
        Comparison(subject, Series("3 times mosquitto's, at least 1 ms", allowed), Ratio.COST, Target("<=", 1)),
    ]


def _live_round(broker: Broker, meter: Meter, duration_s: float, found: Latencies) -> float:
    speech, senders, receivers = MqttSpeech(broker.address), [], []
    for number in range(CONNECTIONS):
        name = topic(number, _PREFIX)
        receivers.append(Consumer(speech.subscriber(number, name, 1), timed=True))
        senders.append(PacedPublisher(speech.to_topics(number, [name], 1, WINDOW), WINDOW, Gate()))
    _paced(broker, meter, senders, receivers, duration_s)
    return found.add([receiver.latencies_ns for receiver in receivers])


def _paced(
    broker: Broker, meter: Meter, senders: list[PacedPublisher], receivers: list[Consumer], duration_s: float
) -> None:
    load = Load(broker.server, senders, receivers, fenced=True)
    meter.add(broker.name, load.at_rate(_MESSAGES_A_SECOND, duration_s))
    load.close()


def _durable(settings: Run, directory: Path) -> list[Comparison]:
    duration_s, meter = settings.size(_DURABLE_ROUND_MS, _LEAST_MS) / 1000, Meter()
    acknowledged, delivered, probed = Latencies(), Latencies(), Latencies()
    with running(directory, start_penstock) as [penstock]:
        for _ in range(settings.rounds):
            with _probing(directory / "probe", probed):
                _durable_round(penstock, meter, duration_s, acknowledged, delivered)
    probe = probed.series("a sync of 4 KiB outside the broker, p99", 0.99)
    tail = delivered.series("through a durable queue, p99.9 from due to delivered", 0.999)
    return [
        Comparison(
            taken.series(f"through a durable queue, p99 from due to {name}", 0.99),
            probe,
            Ratio.COST,
            Target("<=", _TIMES_PROBE),
            {"all rounds": taken.text(), "all rounds, the sync": probed.text(), **meter.notes(penstock.name)},
        )
        for name, taken in {"acknowledged": acknowledged, "delivered": delivered}.items()
    ] + [Comparison(tail, Series("25 ms", (_ALLOWED_TAIL_S,) * len(tail.samples)), Ratio.COST, Target("<=", 1))]


def _durable_round(
    broker: Broker, meter: Meter, duration_s: float, acknowledged: Latencies, delivered: Latencies
) -> None:
    speech = MqttSpeech(broker.address)
    receivers = [Consumer(speech.consumer(number, WINDOW), timed=True) for number in range(CONNECTIONS)]
    senders = [PacedPublisher(speech.publisher(number, WINDOW), WINDOW, Gate()) for number in range(CONNECTIONS)]
    _paced(broker, meter, senders, receivers, duration_s)
    acknowledged.add([sender.latencies_ns for sender in senders])
    delivered.add([receiver.latencies_ns for receiver in receivers])


@contextmanager
def _probing(path: Path, found: Latencies) -> Iterator[None]:
    """Sync a little twenty times a second in a process of its own, for as long as the body runs."""
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    process = context.Process(target=_probe, args=(its, path))
    process.start()
    mine.recv()
    try:
        yield
    finally:
        mine.send(None)
        found.add([mine.recv()])
        process.join()


def _probe(asked: Connection, path: Path) -> None:
    file, data, taken_ns = RawFile(path, _PROBE_FILE_BYTES), [bytes(_PROBE_BYTES)], array("q")
    asked.send(None)
    while not asked.poll(_PROBE_EVERY_S):
        begun = time.monotonic_ns()
        file.write_synced(data, 1)
        taken_ns.append(time.monotonic_ns() - begun)
    file.close()
    asked.send(taken_ns)


BENCHMARK = Benchmark(
    "mqtt-latency", "p99 at 20,000 messages a second, against mosquitto and against a sync of the disk", run
)
