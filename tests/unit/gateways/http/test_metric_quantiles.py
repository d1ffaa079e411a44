from __future__ import annotations

import math

from penstock.core.metrics import Histogram
from penstock.telemetry.quantiles import Recent, quantile_of


def test_a_quantile_lies_in_its_bucket_in_proportion() -> None:
    assert quantile_of(0.5, (1.0, 2.0), [0, 10, 0]) == 1.5


def test_what_lies_above_all_bounds_is_the_last_one() -> None:
    assert quantile_of(0.99, (1.0, 2.0), [0, 0, 5]) == 2.0


def test_of_nothing_there_is_no_quantile() -> None:
    assert math.isnan(quantile_of(0.5, (1.0,), [0, 0]))


def test_what_was_seen_long_ago_does_not_count() -> None:
    histogram, recent = Histogram((1.0, 2.0)), Recent(0.0)
    histogram.observe(1.5, 1000)
    for now_s in (1.0, 301.0, 602.0):
        recent.quantiles(histogram, now_s)
    histogram.observe(0.5)
    found = recent.quantiles(histogram, 700.0)
    assert dict(found.values)[0.99] <= 1.0
    assert found.count == 1001
