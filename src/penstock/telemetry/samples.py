"""Numbers on their way out: whose they are, and what they belong to. Text and OTLP are both made from these."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from penstock.core.metrics import Histogram

# Names of queues have 255 bytes at most; filters of groups may be longer.
_MAX_VALUE_CHARACTERS = 256
_KEPT_CHARACTERS = 230


class Kind(enum.StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """All numbers of one name. Labels that only some of them have are in brackets."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram as it was at one moment."""

    bounds: tuple[float, ...]
    counts: Sequence[int]
    """one more than there are bounds; each for itself, not added up"""
    total: float

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """`values`: quantile and what it is, NaN where nothing was observed of late; the others since the start."""

    values: Sequence[tuple[float, float]]
    total: float
    count: int


Value: TypeAlias = int | float | Distribution | Quantiles


class Labels:
    """Names and values, and the same as text between braces, escaped once however many numbers share them."""

    __slots__ = ("pairs", "text")

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self.pairs = tuple((name, shortened(value)) for name, value in pairs)
        self.text = ",".join([f'{name}="{escaped(value)}"' for name, value in self.pairs])

    def having(self, *more: tuple[str, str]) -> Labels:
        """With others behind them."""
        found = Labels(*more)
        found.pairs = self.pairs + found.pairs
        found.text = f"{self.text},{found.text}" if self.text else found.text
        return found


NO_LABELS = Labels()


class Series:
    """The numbers of one family. Two lists: a pair for each number would be one object more for the garbage collector,
    which looked at those of a page of 100,000 for up to tens of ms."""

    __slots__ = ("labels", "values")

    def __init__(self, *pairs: tuple[Labels, Value]) -> None:
        self.labels = [labels for labels, _ in pairs]
        self.values = [value for _, value in pairs]

    def put(self, labels: Labels, value: Value) -> None:
        self.labels.append(labels)
        self.values.append(value)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[Labels, Value]]:
        return zip(self.labels, self.values, strict=True)


Samples: TypeAlias = dict[Family, Series]


def escaped(value: str) -> str:
    """As the text format wants label values."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def shortened(value: str) -> str:
    """A client may choose a long name; two of them that begin alike stay apart."""
    if len(value) <= _MAX_VALUE_CHARACTERS:
        return value
    digest = blake2b(value.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{value[:_KEPT_CHARACTERS]}…{digest}"


def distribution(histogram: Histogram) -> Distribution:
    return Distribution(histogram.bounds, list(histogram.counts), histogram.total)
