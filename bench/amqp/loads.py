"""AMQP 0.9.1 beside RabbitMQ: 256 bytes, ten connections with 1,000 messages outstanding each, unless it is said.

The generator speaks the same to both: publishes with confirms through the default exchange, consumers with a prefetch
of 1,000 that acknowledge with `multiple` whatever one receive brought. Each round has queues of its own, which are
deleted after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from bench.amqp.peers import start_penstock
from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit, interleaved
from bench.mqtt.amqp_speech import delete_queues
from bench.mqtt.load import Outcome
from bench.mqtt.many import Many, Said, generator
from bench.mqtt.meter import Meter, compared
from bench.mqtt.peers import Broker, running, start_rabbitmq

CONNECTIONS, WINDOW = 10, 1000
_ROUND_MS, _LEAST_MS = 3000, 300
RATE = 6600
_rounds = count()


@dataclass(frozen=True, slots=True)
class Row:
    subject: str
    target: float
    """times RabbitMQ"""
    queues: int = 1
    publishers: int = CONNECTIONS
    consumers: int = 0
    window: int = WINDOW
    is_transient: bool = False


PUBLISHES = (
    Row("a durable publish, one queue", 20.0),
    Row("a durable publish, ten queues", 20.0, queues=10),
)
PATHS = (
    Row("publish + deliver + ack, one queue", 8.0, consumers=CONNECTIONS),
    Row("publish + deliver + ack, ten queues", 10.0, queues=10, consumers=CONNECTIONS),
    Row("publish + deliver + ack, transient, ten queues", 6.0, queues=10, consumers=CONNECTIONS, is_transient=True),
    Row("publish + deliver + ack, one pair, window 1", 3.0, publishers=1, consumers=1, window=1),
)


def played(many: Many, row: Row, broker: Broker, **more: int) -> tuple[Said, Outcome]:
    """A round on queues of its own."""
    topic = f"r{next(_rounds):04d}."
    shape = {"publishers": row.publishers, "consumers": row.consumers, "window": row.window, **more}
    speech = "amqp-transient" if row.is_transient else "amqp"
    try:
        return many.run(broker, speech=speech, topic=topic, topics=row.queues, **shape)
    finally:
        delete_queues(broker.address, [f"{topic}{number:05d}".encode() for number in range(row.queues)])


def _compared(settings: Run, rows: Sequence[Row]) -> list[Comparison]:
    if (many := generator(settings)) is None:
        return []
    duration_ms = settings.size(_ROUND_MS, _LEAST_MS)

    def one(row: Row, broker: Broker) -> Outcome:
        return played(many, row, broker, ms=duration_ms)[1]

    with running(settings.directory, start_penstock, start_rabbitmq) as brokers:
        return [
            comparison
            for row in rows
            for comparison in compared(settings, brokers, partial(one, row), row.subject, {"RabbitMQ": row.target})
        ]


def run_publish(settings: Run) -> list[Comparison]:
    return _compared(settings, PUBLISHES)


def run_path(settings: Run) -> list[Comparison]:
    return _compared(settings, PATHS)


def run_latency(settings: Run) -> list[Comparison]:
    if (many := generator(settings)) is None:
        return []
    row, meter = Row("", 0.0, queues=CONNECTIONS, consumers=CONNECTIONS), Meter()
    taken: dict[str, list[Said]] = {}

    def one(broker: Broker) -> float:
        said, outcome = played(many, row, broker, rate=RATE, ms=settings.size(_ROUND_MS, _LEAST_MS))
        meter.add(broker.name, outcome)
        taken.setdefault(broker.name, []).append(said)
        return outcome.seconds

    with running(settings.directory, start_penstock, start_rabbitmq) as brokers:
        interleaved(settings.rounds, {broker.name: partial(one, broker) for broker in brokers})
    return [_p99(name, taken, meter, place) for place, name in enumerate(("acknowledged", "delivered"))]


def _p99(name: str, taken: Mapping[str, Sequence[Said]], meter: Meter, place: int) -> Comparison:
    def p99(said: Said) -> float:
        return (said.to_acknowledged_ns, said.to_delivered_ns)[place][1] / 1e9

    subject, *others = (
        Series(f"p99 to {name} at {RATE:,} a second: {broker}", tuple(map(p99, said)), Unit.SECONDS)
        for broker, said in taken.items()
    )
    notes = meter.notes(*taken)
    if not others:
        return Comparison(subject, notes=notes)
    return Comparison(subject, others[0], Ratio.COST, Target("<=", 0.7), notes)


PUBLISH = Benchmark("amqp-publish", "durable publishes with confirms over AMQP 0.9.1, against RabbitMQ", run_publish)
PATH = Benchmark("amqp-path", "publish + deliver + ack over AMQP 0.9.1, against RabbitMQ", run_path)
LATENCY = Benchmark("amqp-latency", f"p99 over AMQP 0.9.1 at {RATE:,} a second, against RabbitMQ", run_latency)
