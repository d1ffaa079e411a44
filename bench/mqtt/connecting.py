"""Connections: how many a second are taken, and the memory of those that do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit, interleaved
from bench.mqtt.load import Outcome
from bench.mqtt.many import Many, generator
from bench.mqtt.meter import compared
from bench.mqtt.mqtt_speech import connected, connected_many
from bench.mqtt.peers import Broker, Start, running, start_mosquitto, start_penstock

_CONNECTS, _LEAST_CONNECTS, _ASKED_A_SECOND = 30_000, 1_000, 10_000
IDLE_CONNECTIONS = 10_000
# Ports of one address are not enough for 50,000 connections to one server.
_CONNECTIONS_AN_ADDRESS = 20_000
_ALLOWED_BYTES = 4 << 10


def run_connects(settings: Run) -> list[Comparison]:
    if (many := generator(settings)) is None:
        return []
    connects = settings.size(_CONNECTS, _LEAST_CONNECTS)
    with running(settings.directory, start_penstock, start_mosquitto) as brokers:
        one = partial(_connects, many, connects)
        return compared(settings, brokers, one, "a connect, 100 at a time", {}, a_second=_ASKED_A_SECOND)


def _connects(many: Many, connects: int, broker: Broker) -> Outcome:
    """Clients that connect, are answered, say goodbye and go. At most a hundred wait for their answer at a time, for
    which the listening socket of mosquitto has room: a connection beyond it would wait a second for its next try."""
    return many.run(broker, connects=connects)[1]


def run_idle(settings: Run) -> list[Comparison]:
    connections, fresh = settings.size(IDLE_CONNECTIONS), _directories(settings.directory)
    calls = {
        name: partial(bytes_a_connection, fresh, start, connections)
        for name, start in {"Penstock": start_penstock, "mosquitto": start_mosquitto}.items()
    }
    samples = interleaved(settings.rounds, calls)
    mine, other = (Series(name, taken, Unit.BYTES) for name, taken in samples.items())
    subject = Series(f"memory of an idle connection, {connections:,} of them", mine.samples, Unit.BYTES)
    allowed = Series("4 KiB", (float(_ALLOWED_BYTES),) * settings.rounds, Unit.BYTES)
    shown = Comparison(subject) if 0.0 in other.samples else Comparison(subject, other, Ratio.COST)
    return [shown, Comparison(subject, allowed, Ratio.COST, Target("<=", 1))]


def _directories(parent: Path) -> Iterator[Path]:
    for number in count():
        directory = parent / str(number)
        directory.mkdir()
        yield directory


def bytes_a_connection(directories: Iterator[Path], start: Start, connections: int) -> float:
    """What a fresh server grows by for each of so many clients that are connected and silent; 0 if it is not there."""
    with running(next(directories), start) as brokers:
        return sum(_growth(broker, connections) / connections for broker in brokers)


def _growth(broker: Broker, connections: int) -> int:
    connected(broker.address, "first").close()
    before = broker.server.resident_bytes()
    links = []
    for place, first in enumerate(range(0, connections, _CONNECTIONS_AN_ADDRESS)):
        last = min(first + _CONNECTIONS_AN_ADDRESS, connections)
        names = [f"idle-{number}" for number in range(first, last)]
        links += connected_many(broker.address, names, source=f"127.0.0.{2 + place}")
    grown = broker.server.resident_bytes() - before
    for link in links:
        link.close()
    return grown


CONNECTS = Benchmark("mqtt-connects", "connects a second, 100 at a time, beside mosquitto", run_connects, syncs=False)
IDLE = Benchmark("mqtt-connections", "memory of 10,000 idle connections, beside mosquitto", run_idle, syncs=False)
