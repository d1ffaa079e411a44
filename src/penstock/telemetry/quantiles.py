"""Quantiles of what a histogram has seen of late, where Prometheus is to be told a summary."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate

from penstock.core.metrics import Histogram
from penstock.telemetry.samples import Quantiles

QUANTILES = (0.5, 0.9, 0.99)
_WINDOW_S = 300.0


class Recent:
    """What came in the last five to ten minutes, or since the time before last that somebody asked if that is longer
    ago."""

    def __init__(self, now_s: float) -> None:
        self._older = self._newer = array("Q")
        self._turned_s = now_s

    def quantiles(self, histogram: Histogram, now_s: float) -> Quantiles:
        counts = histogram.counts
        if now_s - self._turned_s >= _WINDOW_S:
            self._older, self._newer, self._turned_s = self._newer, array("Q", counts), now_s
        fresh = [now - before for now, before in zip(counts, self._older, strict=True)] if self._older else counts
        values = [(quantile, quantile_of(quantile, histogram.bounds, fresh)) for quantile in QUANTILES]
        return Quantiles(values, histogram.total, histogram.count)


def quantile_of(quantile: float, bounds: Sequence[float], counts: Sequence[int]) -> float:
    """Between the bounds of its bucket in proportion; the last bound for what lies above all; NaN for nothing."""
    total = sum(counts)
    if not total:
        return float("nan")
    rank, lower, below = quantile * total, 0.0, 0
    for bound, count, upto in zip(bounds, counts, accumulate(counts), strict=False):
        if count and upto >= rank:
            return lower + (bound - lower) * (rank - below) / count
        lower, below = bound, upto
    return bounds[-1]
