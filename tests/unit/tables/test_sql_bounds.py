"""What a filter says about partitions, offsets and times is found out from expressions of Arrow."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.tables.sql.bounds import ALL_TIMES_MS, FilterBounds, Interval
from penstock.tables.sql.dataset import TEXT_SCHEMA

partition, offset, time, key = (pc.field(name) for name in ("partition", "offset", "timestamp", "key"))


def bounds(expression: pc.Expression | None) -> FilterBounds:
    return FilterBounds(expression, TEXT_SCHEMA, "orders")


def moment(ms: int, microseconds: int = 0) -> pa.Scalar:
    return pa.scalar(ms * 1000 + microseconds, TEXT_SCHEMA.field("timestamp").type)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (offset >= 5, Interval(5, 100)),
        (offset > 5, Interval(6, 100)),
        (offset < 5, Interval(0, 5)),
        (offset <= 5, Interval(0, 6)),
        (offset == 5, Interval(5, 6)),
        ((offset >= 5) & (offset < 9) & (key == "a"), Interval(5, 9)),
        (((offset > 7) & (offset <= 9)) | (offset == 20), Interval(8, 21)),
        (offset.isin([9, 5]), Interval(5, 10)),
        ((offset >= 5) | (key == "a"), Interval(0, 100)),
        (~(offset < 5), Interval(5, 100)),
        (key == "offset", Interval(0, 100)),
        (offset >= 1000, Interval(100, 100)),
        (None, Interval(0, 100)),
    ],
    ids=str,
)
def test_offsets_are_those_that_a_filter_may_let_through(expression: pc.Expression, expected: Interval) -> None:
    assert bounds(expression).offsets(0, 0, 100) == expected


def test_offsets_outside_of_the_partition_are_none() -> None:
    found = bounds(offset < 5).offsets(0, 50, 100)
    assert found.start >= found.until


def test_each_partition_has_its_own_offsets() -> None:
    resumed = bounds(((partition == 0) & (offset >= 10)) | ((partition == 1) & (offset >= 30)))
    assert resumed.offsets(0, 0, 100) == Interval(10, 100)
    assert resumed.offsets(1, 0, 100) == Interval(30, 100)
    assert [resumed.may_have(number) for number in range(3)] == [True, True, False]


def test_partitions_and_queues_that_a_filter_excludes_have_no_rows() -> None:
    assert [bounds(partition.isin([0, 2])).may_have(number) for number in range(4)] == [True, False, True, False]
    assert not bounds(pc.field("queue") == "other").may_have(0)
    assert bounds(pc.field("queue") == "orders").may_have(0)


def test_times_are_rounded_so_that_no_row_is_missed() -> None:
    noon = round(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp() * 1000)
    assert bounds((time >= moment(noon)) & (time < moment(noon + 60_000))).times_ms() == Interval(noon, noon + 60_000)
    assert bounds(time <= moment(noon, 500)).times_ms() == Interval(0, noon + 1)
    assert bounds(time > moment(noon, 500)).times_ms().start in (noon, noon + 1)
    assert bounds(offset > 3).times_ms() == ALL_TIMES_MS
