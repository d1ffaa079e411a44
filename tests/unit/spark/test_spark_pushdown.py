"""Filters that become ranges of offsets."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from penstock.spark.places import RowBounds
from penstock.spark.pushdown import pushed

_HALF_MS = datetime(2023, 11, 14, 22, 13, 20, 500, UTC)
_WHOLE_MS = datetime(2023, 11, 14, 22, 13, 20, 0, UTC)
_MS = 1700000000000


def test_partition_and_queue_are_sets_that_narrow_each_other() -> None:
    bounds, left = pushed([In(("partition",), (1, 2, 3)), EqualTo(("partition",), 2), EqualTo(("queue",), "orders")])
    assert (bounds.partitions, bounds.queues, left) == (frozenset({2}), frozenset({"orders"}), [])
    assert bounds.has("orders", 2) and not bounds.has("orders", 1) and not bounds.has("returns", 2)


def test_offsets_are_a_range() -> None:
    bounds, left = pushed([GreaterThan(("offset",), 10), LessThanOrEqual(("offset",), 20), LessThan(("offset",), 90)])
    assert (bounds.offset_from, bounds.offset_until, left) == (11, 21, [])


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (GreaterThan(("timestamp",), _HALF_MS), (_MS + 1, None)),
        (GreaterThanOrEqual(("timestamp",), _HALF_MS), (_MS + 1, None)),
        (LessThan(("timestamp",), _HALF_MS), (None, _MS + 1)),
        (LessThanOrEqual(("timestamp",), _HALF_MS), (None, _MS + 1)),
        (GreaterThan(("timestamp",), _WHOLE_MS), (_MS + 1, None)),
        (GreaterThanOrEqual(("timestamp",), _WHOLE_MS), (_MS, None)),
        (LessThan(("timestamp",), _WHOLE_MS), (None, _MS)),
        (LessThanOrEqual(("timestamp",), _WHOLE_MS), (None, _MS + 1)),
        (EqualTo(("timestamp",), _WHOLE_MS), (_MS, _MS + 1)),
        (EqualTo(("timestamp",), _HALF_MS), (_MS + 1, _MS + 1)),
    ],
)
def test_times_between_two_milliseconds_are_rounded_to_the_rows_that_match(
    filter: Filter, expected: tuple[int | None, int | None]
) -> None:
    bounds, left = pushed([filter])
    assert ((bounds.time_from_ms, bounds.time_until_ms), left) == (expected, [])


def test_what_no_index_answers_is_left_to_spark() -> None:
    filters = [
        EqualTo(("value",), b"x"),
        Not(EqualTo(("partition",), 1)),
        EqualTo(("partition",), None),
        GreaterThan(("partition",), 1),
        EqualTo(("headers", "key"), "a"),
        GreaterThan(("timestamp",), datetime(2023, 1, 1)),
    ]
    assert pushed(filters) == (RowBounds(), filters)


def test_a_column_that_is_never_null_is_not_looked_at() -> None:
    key = IsNotNull(("key",))
    assert pushed([IsNotNull(("offset",)), key]) == (RowBounds(), [key])
