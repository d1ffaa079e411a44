from __future__ import annotations

import pytest

from penstock.core.metrics import ShardMetrics


def test_counters_start_at_zero() -> None:
    assert set(ShardMetrics().as_dict().values()) == {0}


def test_a_counter_is_exported_under_its_name() -> None:
    metrics = ShardMetrics()
    metrics.frames += 2
    metrics.journal_sync_ns_max = 5
    exported = metrics.as_dict()
    assert (exported["frames"], exported["journal_sync_ns_max"], exported["records"]) == (2, 5, 0)


def test_what_was_exported_does_not_move() -> None:
    metrics = ShardMetrics()
    exported = metrics.as_dict()
    metrics.frames += 1
    assert exported["frames"] == 0


def test_a_misspelt_counter_is_an_error() -> None:
    with pytest.raises(AttributeError):
        setattr(ShardMetrics(), "frame", 1)  # noqa: B010 - a plain assignment is what mypy refuses already


def test_counters_of_two_shards_are_apart() -> None:
    first, second = ShardMetrics(), ShardMetrics()
    first.checkpoints += 1
    assert second.checkpoints == 0
