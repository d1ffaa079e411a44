"""What a benchmark gives back: samples of a subject and its baseline, their ratio, and the ratio asked for."""

from __future__ import annotations

import enum
import gc
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal

ROUNDS = 5


class Unit(enum.Enum):
    SECONDS = "s"
    BYTES = "bytes"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: tuple[float, ...]) -> Spread:
        return cls(median(samples), min(samples), max(samples))


@dataclass(frozen=True, slots=True)
class Series:
    """One number a round. `bytes` is what a sample moved, 0 where that says nothing."""

    name: str
    samples: tuple[float, ...]
    unit: Unit = Unit.SECONDS
    bytes: int = 0

    @property
    def spread(self) -> Spread:
        return Spread.of(self.samples)


class Ratio(enum.Enum):
    SPEED = "speed"
    """how many times as fast as the baseline: baseline / subject of seconds"""
    COST = "cost"
    """how many times the baseline: subject / baseline"""


@dataclass(frozen=True, slots=True)
class Target:
    """The ratio that is asked for; the median is held against it."""

    bound: Literal[">=", "<="]
    value: float

    def is_met_by(self, ratio: float) -> bool:
        return ratio >= self.value if self.bound == ">=" else ratio <= self.value


@dataclass(frozen=True, slots=True)
class Comparison:
    subject: Series
    baseline: Series | None = None
    kind: Ratio = Ratio.SPEED
    target: Target | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def ratio(self) -> Spread | None:
        """Taken round by round, so that what slows a whole round down counts for both; by medians where the numbers of
        samples differ."""
        if self.baseline is None:
            return None
        subject, baseline = self.subject.samples, self.baseline.samples
        if len(subject) != len(baseline):
            subject, baseline = (self.subject.spread.median,), (self.baseline.spread.median,)
        pairs = zip(subject, baseline, strict=True)
        if self.kind is Ratio.SPEED:
            return Spread.of(tuple(other / own for own, other in pairs))
        return Spread.of(tuple(own / other for own, other in pairs))

    @property
    def is_met(self) -> bool | None:
        """None where nothing is asked for."""
        ratio = self.ratio
        return None if self.target is None or ratio is None else self.target.is_met_by(ratio.median)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one benchmark: an empty directory on the disk that is measured, and how much to do."""

    directory: Path
    quick: bool = False

    @property
    def rounds(self) -> int:
        return ROUNDS

    def size(self, full: int, least: int = 1) -> int:
        """`full`, or a hundredth of it in a quick run."""
        return max(full // 100, least) if self.quick else full


@dataclass(frozen=True, slots=True)
class Benchmark:
    name: str
    about: str
    run: Callable[[Run], list[Comparison]]
    syncs: bool = True
    """whether it says nothing on a file system that lives in memory"""


def interleaved(rounds: int, calls: Mapping[str, Callable[[], float]]) -> dict[str, tuple[float, ...]]:
    """Call each once a round, turning the order round every time, so that a drift of the machine hits all alike."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        names = list(calls) if number % 2 == 0 else list(calls)[::-1]
        for name in names:
            gc.collect()
            samples[name].append(calls[name]())
    return {name: tuple(taken) for name, taken in samples.items()}


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def cpu_seconds(call: Callable[[], object], times: int) -> float:
    """Processor time of this thread for one call, the mean over so many."""
    begun = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - begun) / times


def peak_bytes(call: Callable[[], object]) -> int:
    """The most memory that Python had allocated for one call at a time. Slows the call: never while it is timed."""
    tracemalloc.start()
    try:
        call()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        kept = call()
        peak = tracemalloc.get_traced_memory()[1]
        del kept
        return max(peak - before, 0)
    finally:
        tracemalloc.stop()
