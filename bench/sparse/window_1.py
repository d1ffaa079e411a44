"""One client that waits for the acknowledgement of each durable message before it sends the next."""

from __future__ import annotations

from functools import partial

from bench.measure import Benchmark, Comparison, Run
from bench.mqtt.many import generator
from bench.mqtt.meter import compared
from bench.mqtt.peers import start_redis
from bench.sparse.loads import side_by_side
from bench.sparse.peers import start_penstock

_ROUND_MS, _LEAST_MS = 3000, 300


def run(settings: Run) -> list[Comparison]:
    if (many := generator(settings)) is None:
        return []
    with side_by_side(settings, many, "one-client", start_penstock, start_redis) as loads:
        one = partial(loads.outcome, {"publishers": 1, "window": 1, "ms": settings.size(_ROUND_MS, _LEAST_MS)})
        return compared(settings, loads.brokers, one, "a publish, one client, one at a time", {"Redis": 1.0})


BENCHMARK = Benchmark("sparse-window-1", "one durable message at a time from one client, beside Redis", run)
