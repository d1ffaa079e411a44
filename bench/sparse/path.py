"""Publish, deliver and settle over one durable queue and over a hundred: ten publishers to all, ten consumers."""

from __future__ import annotations

from functools import partial

from bench.measure import Benchmark, Comparison, Run
from bench.mqtt.durable import CONNECTIONS, WINDOW
from bench.mqtt.many import Many, generator
from bench.mqtt.meter import compared
from bench.mqtt.peers import start_redis
from bench.sparse.loads import side_by_side
from bench.sparse.peers import start_penstock
from bench.sparse.stores import queues_text

_ROUND_MS, _LEAST_MS = 3000, 300
_ASKED_A_SECOND = {1: 400_000, 100: 250_000}


def run(settings: Run) -> list[Comparison]:
    if (many := generator(settings)) is None:
        return []
    return [comparison for queues in _ASKED_A_SECOND for comparison in _compared(settings, many, queues)]


def _compared(settings: Run, many: Many, queues: int) -> list[Comparison]:
    shape = {"publishers": CONNECTIONS, "consumers": CONNECTIONS, "window": WINDOW}
    shape |= {"ms": settings.size(_ROUND_MS, _LEAST_MS)}
    starts = (start_penstock, start_redis)
    with side_by_side(settings, many, f"over-{queues}", *starts, queues=queues, is_consumed=True) as loads:
        through = partial(loads.outcome, shape)
        subject = f"publish + deliver + settle over {queues_text(queues)}"
        return compared(settings, loads.brokers, through, subject, {}, a_second=_ASKED_A_SECOND[queues])


BENCHMARK = Benchmark("sparse-path", "publish + deliver + settle over 1 and 100 durable queues, beside Redis", run)
