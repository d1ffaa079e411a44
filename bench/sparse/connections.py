"""A thousand and five thousand connections with few messages outstanding each, to one durable queue; over TLS too."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from bench.measure import Benchmark, Comparison, Run
from bench.mqtt.many import generator
from bench.mqtt.meter import compared
from bench.mqtt.peers import Start, start_prompt_mosquitto, start_redis, start_tls_mosquitto
from bench.sparse.loads import side_by_side
from bench.sparse.peers import start_penstock, start_tls_penstock

_ROUND_MS, _LEAST_MS, _LEAST_CONNECTIONS = 3000, 300, 50
_PLAIN = (start_penstock, start_prompt_mosquitto, start_redis)


@dataclass(frozen=True, slots=True)
class Case:
    connections: int
    window: int
    a_second: int | None = None
    cpu_s: float | None = None
    targets: dict[str, float] = field(default_factory=dict)
    starts: tuple[Start, ...] = _PLAIN
    is_tls: bool = False


_CASES = (
    Case(1_000, 10, a_second=250_000),
    Case(5_000, 2, a_second=150_000),
    Case(1_000, 1, cpu_s=10e-6, targets={"mosquitto": 1.0}),
    Case(1_000, 1, cpu_s=40e-6, starts=(start_tls_penstock, start_tls_mosquitto), is_tls=True),
)


def run(settings: Run) -> list[Comparison]:
    return [comparison for case in _CASES for comparison in _compared(settings, case)]


def _compared(settings: Run, case: Case) -> list[Comparison]:
    if (many := generator(settings, case.is_tls)) is None:
        return []
    connections = settings.size(case.connections, _LEAST_CONNECTIONS)
    name = f"{connections:,} connections{' over TLS' if case.is_tls else ''}, window {case.window}"
    with side_by_side(settings, many, f"{case.connections} {name}", *case.starts, is_tls=case.is_tls) as loads:
        shape = {"publishers": connections, "window": case.window, "ms": settings.size(_ROUND_MS, _LEAST_MS)}
        one = partial(loads.outcome, shape)
        return compared(
            settings, loads.brokers, one, f"a publish, {name}", case.targets, a_second=case.a_second, cpu_s=case.cpu_s
        )


BENCHMARK = Benchmark(
    "sparse-connections",
    "durable publishes from 1,000 and 5,000 connections, over TLS too, beside mosquitto and Redis",
    run,
)
