"""Counts of a report add up whatever the pieces, and stay small whatever the rows."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from penstock.jobs import report_counts
from penstock.jobs.report_counts import MOST_SPANS, KeyCounts, RowCounts, TimeCounts, powers
from penstock.jobs.report_groups import quantile_ms

_NOON_MS = round(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp() * 1000)


def times(*seconds: int) -> pa.Array:
    return pa.array([_NOON_MS + 1000 * each for each in seconds], pa.int64())


def ones(count: int) -> pa.Array:
    return pa.array([1] * count, pa.int64())


def test_spans_get_wider_before_there_are_too_many() -> None:
    counts = TimeCounts()
    counts.add(times(*range(3 * MOST_SPANS)), ones(3 * MOST_SPANS))
    assert counts.width_ms == 4_000
    assert len(counts.rows) <= MOST_SPANS
    assert counts.rows.total() == counts.size_bytes.total() == 3 * MOST_SPANS


def test_counts_of_pieces_with_spans_of_different_widths_add_up() -> None:
    fine, wide = TimeCounts(), TimeCounts()
    fine.add(times(0, 1, 2, 3), ones(4))
    wide.add(times(0, 2), ones(2))
    wide.widen()
    fine.merge(wide)
    assert fine.width_ms == 2_000
    assert sorted(fine.rows.values()) == [3, 3]
    wide.merge(TimeCounts(1_000, Counter(), Counter()))
    assert wide.width_ms == 2_000


def test_what_is_shown_has_spans_without_messages_and_no_more_than_asked_for() -> None:
    counts = TimeCounts()
    counts.add(times(0, 1000), ones(2))
    shown = counts.shown(100)
    assert len(shown.rows) <= 100
    assert shown.rows.total() == 2
    assert sorted(shown.rows) == list(range(min(shown.rows), max(shown.rows) + 1))
    assert len(counts.rows) == 2
    assert TimeCounts().shown(100).rows == {}


def test_sizes_are_told_apart_by_powers_of_two() -> None:
    assert powers(pa.array([0, 1, 2, 3, 4, 7, 8, 1 << 20], pa.int64())) == {0: 1, 1: 1, 2: 2, 3: 2, 4: 1, 21: 1}


def test_many_keys_are_bounded_and_the_hot_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_counts, "MOST_KEYS", 100)
    monkeypatch.setattr(report_counts, "KEPT_KEYS", 10)
    counts = KeyCounts()
    for first in range(0, 1000, 50):
        counts.add(pa.array([b"hot"] * 10 + [b"%d" % number for number in range(first, first + 50)]))
    assert len(counts.rows) <= 100
    assert counts.rows.most_common(1) == [(b"hot", 200)]
    assert not counts.is_exact


def test_rows_are_counted_by_time_size_and_key() -> None:
    batch = pa.record_batch(
        {
            "timestamp": pa.array([_NOON_MS * 1000] * 3, pa.timestamp("us", "UTC")),
            "key": pa.array([b"a", None, b"a"], pa.binary()),
            "value": pa.array([b"", b"four", b"1234567"], pa.binary()),
        }
    )
    counts, both = RowCounts(), RowCounts()
    counts.add(batch)
    both.merge(counts)
    both.merge(counts)
    assert (both.rows, both.size_bytes, both.unkeyed) == (6, 22, 2)
    assert both.sizes == {0: 2, 3: 4}
    assert both.keys.rows == {b"a": 4}
    assert both.times.rows == {_NOON_MS // 1000: 6}


def test_quantiles_are_right_to_a_tenth_and_never_too_small() -> None:
    assert quantile_ms(Counter(), 0.5) is None
    assert quantile_ms(Counter({0: 300}), 0.99) == 0.0
    assert quantile_ms(Counter({8: 300}), 0.5) == 1.0
    assert (quantile_ms(Counter({8 * 10: 100}), 0.5) or 0) >= 1023


def test_of_too_few_nobody_knows_the_slowest_hundredth() -> None:
    assert quantile_ms(Counter({8: 99}), 0.99) is None
    assert quantile_ms(Counter({8: 100}), 0.99) == 1.0
    assert quantile_ms(Counter({8: 9}), 0.9) is None


def test_a_quantile_is_in_the_step_of_its_message() -> None:
    [half] = [quantile_ms(Counter({8 * 10: 50, 8 * 16: 50}), 0.5)]
    assert half == pytest.approx(1023, rel=0.1)
