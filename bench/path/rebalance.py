"""What a change of members costs: the new assignment, and every partition that moves given up and handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bench.measure import Benchmark, Comparison, Run, Series, Target, interleaved, seconds
from bench.process import BenchmarkFailed
from penstock.queues.assignment import assign
from penstock.queues.members import Event, Members, Revoking

_PARTITIONS, _MEMBERS = 1_000, 50
_ALLOWED_SECONDS = 0.1


def run(settings: Run) -> list[Comparison]:
    """Not smaller in a quick run: it takes milliseconds."""
    calls: dict[str, Callable[[], float]] = {
        "the assignment alone, from nothing": _assignment_seconds,
        "the last member joins": _join_seconds,
        "a member expires": _expiry_seconds,
        "all members join one after the other": _cold_seconds,
    }
    samples = interleaved(settings.rounds, calls)
    allowed = Series("allowed", (_ALLOWED_SECONDS,) * settings.rounds)
    return [Comparison(Series(name, taken), allowed, target=Target(">=", 1.0)) for name, taken in samples.items()]


def _assignment_seconds() -> float:
    return seconds(lambda: assign(_PARTITIONS, range(_MEMBERS), {}))


def _join_seconds() -> float:
    group = _settled_group(_MEMBERS - 1)
    took = seconds(lambda: _give_up(group, group.join(_MEMBERS, 1)))
    _check(group, _MEMBERS)
    return took


def _expiry_seconds() -> float:
    """Of one that nobody heard of since it joined; the others are immortal."""
    group = _settled_group(_MEMBERS - 1)
    _give_up(group, group.join(_MEMBERS, 0))
    due_ms = group.next_due_ms
    if due_ms is None:
        raise BenchmarkFailed("a member that sends no heartbeats is not waited for")
    took = seconds(lambda: _give_up(group, group.tick(due_ms)))
    _check(group, _MEMBERS - 1)
    return took


def _cold_seconds() -> float:
    group = Members("bench", _PARTITIONS)
    took = seconds(lambda: _join_all(group, _MEMBERS))
    _check(group, _MEMBERS)
    return took


def _settled_group(members: int) -> Members:
    group = Members("bench", _PARTITIONS)
    _join_all(group, members)
    return group


def _join_all(group: Members, members: int) -> None:
    for member in range(members):
        _give_up(group, group.join(member, 0, is_immortal=True))


def _give_up(group: Members, events: Iterable[Event]) -> None:
    """Every owner hands over at once what it is asked for."""
    for event in events:
        if isinstance(event, Revoking):
            group.released(event.member, event.partition, 1)


def _check(group: Members, members: int) -> None:
    shares = [len(group.partitions_of(member)) for member in group.members]
    if len(shares) != members or sum(shares) != _PARTITIONS or max(shares) - min(shares) > 1 or group.is_rebalancing:
        raise BenchmarkFailed(f"{members} members were left with {shares} of {_PARTITIONS} partitions")


BENCHMARK = Benchmark(
    "rebalance", "1,000 partitions over 50 members, until each is with its new owner", run, syncs=False
)
