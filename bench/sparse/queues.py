"""Ten connections, each writing to all of 1, 100, 1,000 or 5,000 durable queues, 1,000 messages outstanding each."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from bench.measure import Benchmark, Comparison, Run
from bench.mqtt.durable import CONNECTIONS, WINDOW, Speeches, publish
from bench.mqtt.load import Outcome
from bench.mqtt.many import Many, generator
from bench.mqtt.meter import compared
from bench.mqtt.peers import Broker, Start, start_nats, start_rabbitmq, start_redis
from bench.sparse.loads import Loads, side_by_side
from bench.sparse.peers import start_penstock
from bench.sparse.stores import queues_text

_ROUND_MS, _LEAST_MS, _LEAST_QUEUES = 3000, 300, 100


@dataclass(frozen=True, slots=True)
class Case:
    queues: int
    a_second: int
    targets: dict[str, float] = field(default_factory=dict)
    peers: tuple[Start, ...] = (start_redis, start_nats)


_CASES = (
    Case(1, 1_000_000),
    Case(100, 500_000),
    Case(1_000, 300_000, {"Redis": 1.0, "RabbitMQ": 10.0}, (start_redis, start_nats, start_rabbitmq)),
    Case(5_000, 200_000),
)
# Spoken to by the generator in Python, which costs less than they do.
_OTHER_SPEECHES = ("JetStream", "RabbitMQ")


def run(settings: Run) -> list[Comparison]:
    if (many := generator(settings)) is None:
        return []
    return [comparison for case in _CASES for comparison in _compared(settings, many, case)]


def _compared(settings: Run, many: Many, case: Case) -> list[Comparison]:
    queues = settings.size(case.queues, min(case.queues, _LEAST_QUEUES))
    duration_ms = settings.size(_ROUND_MS, _LEAST_MS)
    with side_by_side(settings, many, f"to-{case.queues}", start_penstock, *case.peers, queues=queues) as loads:
        speeches = Speeches.to([broker for broker in loads.brokers if broker.name in _OTHER_SPEECHES], queues)
        one = partial(_publish, loads, speeches, duration_ms)
        subject = f"a publish, {CONNECTIONS} connections, each to all of {queues_text(queues)}"
        return compared(settings, loads.brokers, one, subject, case.targets, a_second=case.a_second)


def _publish(loads: Loads, speeches: Speeches, duration_ms: int, broker: Broker) -> Outcome:
    if broker.name in speeches.of:
        return publish(speeches, duration_ms / 1000, True, broker)
    return loads.outcome({"publishers": CONNECTIONS, "window": WINDOW, "ms": duration_ms}, broker)


BENCHMARK = Benchmark(
    "sparse-queues", "durable publishes to 1, 100, 1,000 and 5,000 queues, beside Redis, JetStream and RabbitMQ", run
)
