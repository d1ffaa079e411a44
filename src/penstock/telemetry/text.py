"""The text format of Prometheus, version 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO
from itertools import accumulate

from penstock.telemetry.breather import Breather
from penstock.telemetry.samples import Distribution, Family, Labels, Quantiles, Samples, Value

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Between two looks at the clock.
_SAMPLES_AT_ONCE = 50


async def write(samples: Samples, breather: Breather) -> bytes:
    """Families in the order of `samples`, which is empty afterwards: to let go of all of it at once would take some ms.
    Those without a number are left out."""
    page = BytesIO()
    for family in list(samples):
        if not (found := samples.pop(family)):
            continue
        page.write(_head(family).encode())
        for first in range(0, len(found), _SAMPLES_AT_ONCE):
            stop = first + _SAMPLES_AT_ONCE
            some = zip(found.labels[first:stop], found.values[first:stop], strict=True)
            lines = "".join([_text(family.name, labels, value) for labels, value in some])
            page.write(lines.encode(errors="replace"))
            await breather.turn()
    # No copy: joining pieces would hold the loop for some ms at the end.
    return page.getvalue()


def _head(family: Family) -> str:
    text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {family.name} {text}\n# TYPE {family.name} {family.kind}\n"


def _text(name: str, labels: Labels, value: Value) -> str:
    if isinstance(value, int):
        # What is nearly always so.
        return f"{name}{{{labels.text}}} {value}\n" if labels.text else f"{name} {value}\n"
    return "".join(lines_of(name, labels, value))


def lines_of(name: str, labels: Labels, value: Value) -> Iterator[str]:
    if isinstance(value, Distribution):
        yield from _histogram(name, labels.text, value)
    elif isinstance(value, Quantiles):
        yield from _summary(name, labels.text, value)
    elif labels.text:
        yield f"{name}{{{labels.text}}} {_number(value)}\n"
    else:
        yield f"{name} {_number(value)}\n"


def _histogram(name: str, labels: str, value: Distribution) -> Iterator[str]:
    comma, braces = ("," if labels else ""), (f"{{{labels}}}" if labels else "")
    for bound, count in zip(_bounds(value.bounds), accumulate(value.counts), strict=True):
        yield f'{name}_bucket{{{labels}{comma}le="{bound}"}} {count}\n'
    yield f"{name}_sum{braces} {_number(value.total)}\n"
    yield f"{name}_count{braces} {value.count}\n"


def _summary(name: str, labels: str, value: Quantiles) -> Iterator[str]:
    comma, braces = ("," if labels else ""), (f"{{{labels}}}" if labels else "")
    for quantile, found in value.values:
        yield f'{name}{{{labels}{comma}quantile="{quantile}"}} {_number(found)}\n'
    yield f"{name}_sum{braces} {_number(value.total)}\n"
    yield f"{name}_count{braces} {value.count}\n"


@lru_cache(16)
def _bounds(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return (*[_number(bound) for bound in bounds], "+Inf")


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
