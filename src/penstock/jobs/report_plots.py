"""Plots as SVG inside a page: no script, no font, no file. Each says in words what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

# As wide as a telephone, so that its letters are readable there; larger screens show it larger.
_WIDTH, _HEIGHT = 360, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 8, 10, 26
_LINES = 4


@dataclass(frozen=True, slots=True)
class Axis:
    """Labels under the plot: (place from 0 to 1, text)."""

    labels: Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Plot:
    """`name` tells plots of a page apart; `summary` is read to those who do not see it."""

    name: str
    title: str
    summary: str
    unit: str
    values: Sequence[float]
    axis: Axis
    is_count: bool = False
    """there is nothing between two whole numbers"""


def area(plot: Plot) -> str:
    """Values one after the other, joined by a line."""
    ticks = _ticks(plot)
    top = ticks[-1]
    step = _inner_width() / max(1, len(plot.values))
    points = [f"{_LEFT + step * at:.1f},{_y(value, top):.1f}" for at, value in _stairs(plot.values)]
    ground = _y(0, top)
    shape = f"{_LEFT},{ground:.1f} {' '.join(points)} {_LEFT + _inner_width()},{ground:.1f}"
    body = f'<polygon class="area" points="{shape}"/><polyline class="line" points="{" ".join(points)}"/>'
    return _framed(plot, ticks, body)


def columns(plot: Plot) -> str:
    """A bar for each value."""
    ticks = _ticks(plot)
    top = ticks[-1]
    step = _inner_width() / max(1, len(plot.values))
    bars = "".join(
        f'<rect class="bar" x="{_LEFT + step * at + step * 0.1:.1f}" y="{_y(value, top):.1f}" '
        f'width="{step * 0.8:.1f}" height="{_y(0, top) - _y(value, top):.1f}"/>'
        for at, value in enumerate(plot.values)
    )
    return _framed(plot, ticks, bars)


def bar(share: float) -> str:
    """For a cell beside the number that it shows."""
    width = max(0.0, min(1.0, share)) * 100
    return (
        '<svg class="cell" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="bar" width="{width:.1f}" height="10"/></svg>'
    )


def nice_ticks(largest: float, is_count: bool = False) -> list[float]:
    """From 0 to the first that is not below the largest value, at most _LINES apart: multiples of 1, 2 or 5 times a
    power of ten, and whole numbers for counts."""
    step = _nice(largest / _LINES)
    if is_count:
        step = max(1.0, step)
    return [step * at for at in range(max(1, ceil(largest / step - 1e-9)) + 1)]


def _nice(least: float) -> float:
    """1, 2 or 5 times a power of ten, not below."""
    if least <= 0:
        return 1.0
    power = 10.0 ** floor(log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _ticks(plot: Plot) -> list[float]:
    return nice_ticks(max(plot.values, default=0), plot.is_count)


def number_text(value: float) -> str:
    """`950`, `1.2k`, `3.4M`; small ones with a fraction."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def _framed(plot: Plot, ticks: Sequence[float], body: str) -> str:
    lines = "".join(_line(tick, ticks[-1]) for tick in ticks)
    texts = "".join(
        f'<text x="{_LEFT + _inner_width() * place:.1f}" y="{_HEIGHT - 8}" text-anchor="{_anchor(place)}">'
        f"{escape(label)}</text>"
        for place, label in plot.axis.labels
    )
    title, description = f"{plot.name}-title", f"{plot.name}-summary"
    return (
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="{title} {description}">'
        f'<title id="{title}">{escape(plot.title)}</title><desc id="{description}">{escape(plot.summary)}</desc>'
        f"{lines}{body}{texts}</svg>"
    )


def _line(value: float, top: float) -> str:
    y = _y(value, top)
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 4}" y="{y + 3:.1f}" text-anchor="end">{number_text(value)}</text>'
    )


def _stairs(values: Sequence[float]) -> list[tuple[int, float]]:
    """A value holds over the whole of its span."""
    return [(place, value) for at, value in enumerate(values) for place in (at, at + 1)]


def _anchor(place: float) -> str:
    return "start" if place < 0.1 else "end" if place > 0.9 else "middle"


def _inner_width() -> int:
    return _WIDTH - _LEFT - _RIGHT


def _y(value: float, top: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / top)
