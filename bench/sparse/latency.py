"""How long a durable message takes at 1,000, 5,000 and 20,000 a second, from 4 and 1,000 publishers to one consumer.

What counts is the time since a message was due: until its acknowledgement, which comes when it is on the disk, and
until its delivery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit, interleaved
from bench.mqtt.many import Many, Said, generator
from bench.mqtt.meter import Meter
from bench.mqtt.peers import Broker, start_redis
from bench.report import number_text
from bench.sparse.loads import Loads, side_by_side
from bench.sparse.peers import start_penstock

_PUBLISHERS, _RATES = (4, 1_000), (1_000, 5_000, 20_000)
_LEAST_PUBLISHERS, _WINDOW = 50, 1_000
_ROUND_MS, _LEAST_MS = 4000, 500
# Times Redis takes to acknowledge: the place of a percentile in what the generator says, its name, and what is allowed.
_ALLOWED = ((0, "p50", 1.5), (1, "p99", 2.0))
_ALLOWED_BEHIND_ACK_S = 0.3e-3
# Of a core, at the lowest rate.
_ALLOWED_SHARE, _SHARE_RATE = 0.15, 1_000


@dataclass(slots=True)
class Taken:
    """The rounds of one broker."""

    said: list[Said] = field(default_factory=list)

    def to_acknowledged(self, place: int) -> tuple[float, ...]:
        return tuple(said.to_acknowledged_ns[place] / 1e9 for said in self.said)

    def to_delivered(self, place: int) -> tuple[float, ...]:
        return tuple(said.to_delivered_ns[place] / 1e9 for said in self.said)


def run(settings: Run) -> list[Comparison]:
    if (many := generator(settings)) is None:
        return []
    return [comparison for publishers in _PUBLISHERS for comparison in _from(settings, many, publishers)]


def _from(settings: Run, many: Many, full: int) -> list[Comparison]:
    publishers, starts = settings.size(full, min(full, _LEAST_PUBLISHERS)), (start_penstock, start_redis)
    with side_by_side(settings, many, f"from-{full}", *starts, is_consumed=True) as loads:
        return [comparison for rate in _RATES for comparison in _at(settings, loads, publishers, rate)]


def _at(settings: Run, loads: Loads, publishers: int, rate: int) -> list[Comparison]:
    meter, taken = Meter(), {broker.name: Taken() for broker in loads.brokers}
    shape = {"publishers": publishers, "consumers": 1, "window": _WINDOW}
    shape |= {"rate": rate, "ms": settings.size(_ROUND_MS, _LEAST_MS)}
    rounds = {broker.name: partial(_round, loads, shape, meter, taken[broker.name], broker) for broker in loads.brokers}
    shares = interleaved(settings.rounds, rounds)
    name = f"{rate:,} a second from {publishers:,}"
    found = _compared(name, taken["Penstock"], taken.get("Redis"))
    found[0] = replace(found[0], notes=_notes(taken) | meter.notes(*taken))
    return [*found, _share(name, shares["Penstock"])] if rate == _SHARE_RATE else found


def _round(loads: Loads, shape: dict[str, int], meter: Meter, taken: Taken, broker: Broker) -> float:
    """The share of a core that the server took."""
    said, outcome = loads.run(shape, broker)
    taken.said.append(said)
    meter.add(broker.name, outcome)
    return outcome.server_cpu_s / outcome.seconds


def _compared(name: str, mine: Taken, redis: Taken | None) -> list[Comparison]:
    found = []
    for place, percentile, allowed in _ALLOWED:
        subject = Series(f"{name}, {percentile} to acknowledged", mine.to_acknowledged(place))
        if redis is None:
            found.append(Comparison(subject))
            continue
        other = Series("Redis", redis.to_acknowledged(place))
        found.append(Comparison(subject, other, Ratio.COST, Target("<=", allowed)))
    for place, percentile, _ in _ALLOWED:
        subject = Series(f"{name}, {percentile} to delivered", mine.to_delivered(place))
        latest = tuple(sample + _ALLOWED_BEHIND_ACK_S for sample in mine.to_acknowledged(place))
        behind = Series(f"{percentile} to acknowledged and 0.3 ms", latest)
        found.append(Comparison(subject, behind, Ratio.COST, Target("<=", 1)))
        if redis is not None:
            found.append(Comparison(subject, Series("Redis", redis.to_delivered(place)), Ratio.COST))
    return found


def _share(name: str, shares: Sequence[float]) -> Comparison:
    subject = Series(f"{name}, processor time in a second", tuple(shares))
    return Comparison(
        subject, Series(f"{_ALLOWED_SHARE:.0%} of a core", (_ALLOWED_SHARE,) * len(shares)), Ratio.COST, Target("<=", 1)
    )


def _notes(taken: dict[str, Taken]) -> dict[str, str]:
    return {f"p99.9 to acknowledged, {name}": _text(each.to_acknowledged(2)) for name, each in taken.items()}


def _text(samples: Sequence[float]) -> str:
    return ", ".join(number_text(sample, Unit.SECONDS) for sample in samples)


BENCHMARK = Benchmark(
    "sparse-latency", "acknowledgement and delivery at 1,000 to 20,000 durable messages a second, beside Redis", run
)
