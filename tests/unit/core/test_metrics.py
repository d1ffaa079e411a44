from __future__ import annotations

import pytest

from penstock.core.metrics import Histogram, ShardMetrics


def test_a_misspelt_counter_is_an_error() -> None:
    with pytest.raises(AttributeError):
        setattr(ShardMetrics(), "frame", 1)  # noqa: B010 - a plain assignment is what mypy refuses already


def test_counters_of_two_shards_are_apart() -> None:
    first, second = ShardMetrics(), ShardMetrics()
    first.checkpoints += 1
    assert second.checkpoints == 0


def test_an_observation_counts_at_the_first_bound_that_is_not_below_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert list(histogram.counts) == [2, 2, 1]
    assert (histogram.count, histogram.total) == (5, 7.5)


def test_many_things_of_one_value_are_one_call() -> None:
    histogram = Histogram((1.0,))
    histogram.observe(0.5, 1000)
    assert (list(histogram.counts), histogram.total) == ([1000, 0], 500.0)


def test_histograms_add_up() -> None:
    first, second = Histogram((1.0,)), Histogram((1.0,))
    first.observe(0.5)
    second.observe(2.0, 3)
    first.add(second)
    assert (list(first.counts), first.total, second.count) == ([1, 3], 6.5, 3)
