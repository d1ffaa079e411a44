"""Loads against several brokers in turn, with the processor time of both sides: a generator that is the bottleneck says
so, because its ratio says nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from bench.measure import Comparison, Ratio, Run, Series, Target, Unit, interleaved
from bench.mqtt.load import Outcome
from bench.mqtt.peers import Broker
from bench.report import number_text

# Of one core. The generator has one thread.
_BUSY_SHARE = 0.9


@dataclass(slots=True)
class Usage:
    """Shares of a core, and the server's processor time a message, one of each round."""

    generator: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    server_s_a_message: list[float] = field(default_factory=list)

    def text(self) -> str:
        generator, server = median(self.generator), median(self.server)
        each = number_text(median(self.server_s_a_message), Unit.SECONDS)
        line = f"generator {generator:.0%} of a core, server {server:.0%} ({each} each)"
        if generator > _BUSY_SHARE > server:
            return f"{line}: THE GENERATOR IS THE BOTTLENECK"
        return line


@dataclass(slots=True)
class Meter:
    usage: dict[str, Usage] = field(default_factory=dict)

    def add(self, name: str, outcome: Outcome) -> None:
        used = self.usage.setdefault(name, Usage())
        used.generator.append(outcome.generator_cpu_s / outcome.seconds)
        used.server.append(outcome.server_cpu_s / outcome.seconds)
        used.server_s_a_message.append(outcome.server_cpu_s / outcome.messages)

    def notes(self, *names: str) -> dict[str, str]:
        return {f"beside {name}": self.usage[name].text() for name in names if name in self.usage}


def compared(
    settings: Run,
    brokers: Sequence[Broker],
    run: Callable[[Broker], Outcome],
    subject: str,
    targets: Mapping[str, float],
    copies: int = 1,
    a_second: int | None = None,
    cpu_s: float | None = None,
) -> list[Comparison]:
    """Seconds a message of the first broker against each of the others, in turned order. `copies` of each message are
    delivered, which is said; a broker without a target is shown. `a_second` and `cpu_s` are asked of the first broker
    whatever the others do: so many messages, and no more of its processor for each."""
    meter = Meter()
    samples = interleaved(
        settings.rounds,
        {broker.name: partial(_seconds_a_message, meter, broker, run) for broker in brokers},
    )
    mine, *others = (Series(broker.name, samples[broker.name]) for broker in brokers)
    named = Series(f"{subject}: {mine.name}", mine.samples)
    asked = [*_asked_rate(named, a_second), *_asked_cpu(named, meter.usage[mine.name], cpu_s)]
    if not others:
        return [Comparison(named, notes={"a second": _rate(mine, copies), **meter.notes(mine.name)}), *asked]
    return [
        Comparison(
            named,
            other,
            target=Target(">=", targets[other.name]) if other.name in targets else None,
            notes={
                "a second": f"{_rate(mine, copies)} against {_rate(other, copies)}",
                **meter.notes(mine.name, other.name),
            },
        )
        for other in others
    ] + asked


def _asked_rate(subject: Series, a_second: int | None) -> list[Comparison]:
    if a_second is None:
        return []
    wanted = Series(f"{a_second:,} a second", (1 / a_second,) * len(subject.samples))
    return [Comparison(subject, wanted, target=Target(">=", 1))]


def _asked_cpu(subject: Series, used: Usage, cpu_s: float | None) -> list[Comparison]:
    if cpu_s is None:
        return []
    mine = Series(f"{subject.name}, of its processor", tuple(used.server_s_a_message))
    wanted = Series(number_text(cpu_s, Unit.SECONDS), (cpu_s,) * len(mine.samples))
    return [Comparison(mine, wanted, Ratio.COST, Target("<=", 1))]


def _seconds_a_message(meter: Meter, broker: Broker, run: Callable[[Broker], Outcome]) -> float:
    outcome = run(broker)
    meter.add(broker.name, outcome)
    return outcome.seconds_a_message


def _rate(series: Series, copies: int) -> str:
    return f"{copies / series.spread.median:,.0f}"
