"""Connections that end without DISCONNECT: the memory of the server after each 5,000 of 40,000."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import count

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit, interleaved
from bench.mqtt.many import Many, generator
from bench.mqtt.peers import Broker, Start, running, start_mosquitto
from bench.report import number_text
from bench.sparse.peers import start_penstock

_CONNECTS, _STEPS = 5_000, 8
# What is let go of at the end of a turn, or by a timer that runs every second.
_SETTLE_S = 1.5
_FLAT = 1.05
_SERVERS: dict[str, Start] = {"Penstock": start_penstock, "mosquitto": start_mosquitto}


class Churn:
    """Resident bytes of fresh servers after each step, a list a round."""

    def __init__(self, settings: Run, many: Many) -> None:
        self._settings, self._many = settings, many
        self._numbers = count()
        self.connects = settings.size(_CONNECTS)
        self.resident: dict[str, list[list[int]]] = {name: [] for name in _SERVERS}

    def round(self, name: str) -> float:
        """What the server has at the end; 0 if it is not there."""
        directory = self._settings.directory / f"{name}-{next(self._numbers)}"
        directory.mkdir()
        with running(directory, _SERVERS[name]) as brokers:
            for broker in brokers:
                self.resident[name].append([self._after(broker, step) for step in range(_STEPS)])
                return self.resident[name][-1][-1]
        return 0.0

    def _after(self, broker: Broker, step: int) -> int:
        self._many.run(broker, connects=self.connects, first=step * self.connects, goodbye=0)
        time.sleep(0 if self._settings.quick else _SETTLE_S)
        return broker.server.resident_bytes()


def run(settings: Run) -> list[Comparison]:
    if (many := generator(settings)) is None:
        return []
    churn = Churn(settings, many)
    interleaved(settings.rounds, {name: partial(churn.round, name) for name in _SERVERS})
    return [
        _compared(name, churn.connects, rounds, Target("<=", _FLAT) if name == "Penstock" else None)
        for name, rounds in churn.resident.items()
        if rounds
    ]


def _compared(name: str, connects: int, rounds: Sequence[Sequence[int]], target: Target | None) -> Comparison:
    first, last = tuple(float(taken[0]) for taken in rounds), tuple(float(taken[-1]) for taken in rounds)
    steps = ", ".join(number_text(taken, Unit.BYTES) for taken in rounds[-1])
    return Comparison(
        Series(f"memory after {_STEPS * connects:,} connects without DISCONNECT: {name}", last, Unit.BYTES),
        Series(f"after the first {connects:,}", first, Unit.BYTES),
        Ratio.COST,
        target,
        {f"after each {connects:,}, last round": steps},
    )


BENCHMARK = Benchmark(
    "connection-churn", "memory after 40,000 connects that end without DISCONNECT, beside mosquitto", run, syncs=False
)
