"""One client that floods the server beside a hundred that send a message every 100 ms each: what these wait for their
acknowledgements, with and without the flood."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, interleaved
from bench.mqtt.many import generator
from bench.mqtt.peers import Broker, start_mosquitto
from bench.sparse.loads import Loads, side_by_side
from bench.sparse.peers import start_penstock

_CLIENTS, _RATE, _WINDOW, _FLOOD_WINDOW = 100, 1_000, 10, 1_000
_ROUND_MS, _LEAST_MS = 4000, 500
# Of what a sync of this disk takes at most, and a turn full of the flood.
_ALLOWED_S = 20e-3
_PLACES = ((0, "p50"), (1, "p99"))


def run(settings: Run) -> list[Comparison]:
    if (many := generator(settings)) is None:
        return []
    slow = {"publishers": _CLIENTS, "rate": _RATE, "window": _WINDOW, "ms": settings.size(_ROUND_MS, _LEAST_MS)}
    # A name of its own: a second client of the same name would send the first one away.
    flood = {"publishers": 1, "window": _FLOOD_WINDOW, "ms": slow["ms"], "first": _CLIENTS}
    found: dict[tuple[str, bool], list[list[int]]] = {}
    with side_by_side(settings, many, "fairness", start_penstock, start_mosquitto) as loads:
        rounds = {
            f"{broker.name} {is_flooded}": partial(_round, loads, slow, flood if is_flooded else None, broker, found)
            for broker in loads.brokers
            for is_flooded in (False, True)
        }
        interleaved(settings.rounds, rounds)
    return [
        comparison
        for broker in dict.fromkeys(name for name, _ in found)
        for place, percentile in _PLACES
        for comparison in _compared(found, broker, place, percentile)
    ]


def _round(
    loads: Loads,
    slow: Mapping[str, int],
    flood: Mapping[str, int] | None,
    broker: Broker,
    found: dict[tuple[str, bool], list[list[int]]],
) -> float:
    said = loads.together([slow] if flood is None else [slow, flood], broker)[0]
    found.setdefault((broker.name, flood is not None), []).append(said.to_acknowledged_ns)
    return said.to_acknowledged_ns[0] / 1e9


def _compared(
    found: Mapping[tuple[str, bool], list[list[int]]], broker: str, place: int, percentile: str
) -> list[Comparison]:
    alone, flooded = (tuple(said[place] / 1e9 for said in found[broker, each]) for each in (False, True))
    subject = Series(f"{percentile} to acknowledged beside a flood: {broker}", flooded)
    without = Comparison(subject, Series("without it", alone), Ratio.COST)
    if broker != "Penstock":
        return [without]
    limit = Series("20 ms", (_ALLOWED_S,) * len(flooded))
    return [without, Comparison(subject, limit, Ratio.COST, Target("<=", 1))]


BENCHMARK = Benchmark(
    "sparse-fairness", "100 clients with 10 durable messages a second each beside one that floods, and mosquitto", run
)
