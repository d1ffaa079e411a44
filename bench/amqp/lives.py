"""Exclusive queues: declare, bind, consume and delete, one life after the other on eight connections; and the memory of
connections that have a channel and a consumer and do nothing."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.amqp.peers import start_penstock
from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit, interleaved
from bench.mqtt.amqp_speech import Life
from bench.mqtt.load import Outcome
from bench.mqtt.meter import compared
from bench.mqtt.peers import Broker, Start, running, start_rabbitmq

_CONNECTIONS, _LIVES, _LEAST_LIVES = 8, 4000, 80
_IDLE, _ALLOWED_BYTES = 2000, 12 << 10
_ASKED_A_SECOND = 3000


def run_lives(settings: Run) -> list[Comparison]:
    lives = settings.size(_LIVES, _LEAST_LIVES) // _CONNECTIONS
    with running(settings.directory, start_penstock, start_rabbitmq) as brokers:
        return compared(
            settings,
            brokers,
            partial(_lived, lives),
            "the life of an exclusive queue",
            {"RabbitMQ": 3.0},
            a_second=_ASKED_A_SECOND,
        )


def _lived(lives: int, broker: Broker) -> Outcome:
    """A thread a connection: all of them wait nearly always."""
    connections = [Life(broker.address, f"life-{number}") for number in range(_CONNECTIONS)]
    begun, cpu_s, server_s = time.perf_counter(), time.process_time(), broker.server.cpu_seconds()
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        for done in [pool.submit(connection.live, lives) for connection in connections]:
            done.result()
    seconds, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_s
    server_s = broker.server.cpu_seconds() - server_s
    for connection in connections:
        connection.close()
    return Outcome(lives * _CONNECTIONS, seconds, cpu_s, server_s)


def run_idle(settings: Run) -> list[Comparison]:
    connections = settings.size(_IDLE, 50)
    starts: dict[str, Start] = {"Penstock": start_penstock, "RabbitMQ": start_rabbitmq}
    directories = iter(settings.directory / str(number) for number in range(10_000))

    def one(start: Start) -> float:
        directory: Path = next(directories)
        directory.mkdir()
        return _bytes_a_connection(directory, start, connections)

    samples = interleaved(settings.rounds, {name: partial(one, start) for name, start in starts.items()})
    mine, other = (Series(name, taken, Unit.BYTES) for name, taken in samples.items())
    subject = Series(f"memory of an idle connection with a consumer, {connections:,} of them", mine.samples, Unit.BYTES)
    allowed = Series("12 KiB", (float(_ALLOWED_BYTES),) * settings.rounds, Unit.BYTES)
    beside = Comparison(subject, other, Ratio.COST) if all(other.samples) else Comparison(subject)
    return [beside, Comparison(subject, allowed, Ratio.COST, Target("<=", 1))]


def _bytes_a_connection(directory: Path, start: Start, connections: int) -> float:
    """0 where the peer is not installed."""
    with running(directory, start) as found:
        if not found:
            return 0.0
        [broker] = found
        first = Life(broker.address, "first")
        first.consume_shared()
        before = broker.server.resident_bytes()
        opened = [Life(broker.address, f"idle-{number}") for number in range(connections)]
        for connection in opened:
            connection.consume_shared()
        each = (broker.server.resident_bytes() - before) / connections
        for connection in (first, *opened):
            connection.close()
        return max(each, 1.0)


LIVES = Benchmark("amqp-lives", "exclusive queues made and deleted over AMQP 0.9.1, against RabbitMQ", run_lives)
IDLE = Benchmark("amqp-idle", "memory of idle AMQP 0.9.1 connections with a consumer, against RabbitMQ", run_idle)
