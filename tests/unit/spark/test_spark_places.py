"""Where reading starts and ends, and what is said of offsets that are gone."""

from __future__ import annotations

import logging

import pytest

from penstock.core.errors import InvalidArgument
from penstock.spark.offsets import AtTime, Edge, Named, OffsetRange, PartitionId
from penstock.spark.places import (
    DataLost,
    RowBounds,
    Visible,
    check_start,
    readable,
    resolve,
    resumed,
    vanished,
    within,
)

A, B = PartitionId("orders", 0), PartitionId("orders", 1)
SEEN = {A: Visible(10, 100, 900), B: Visible(0, 50)}


def _at_time(source: PartitionId, timestamp_ms: int) -> int:
    """A row a millisecond."""
    return min(max(timestamp_ms, SEEN[source].start), SEEN[source].end)


def test_a_bound_becomes_an_offset_for_each_partition() -> None:
    assert resolve(Edge.EARLIEST, SEEN, Edge.EARLIEST, _at_time) == {A: 10, B: 0}
    assert resolve(Edge.LATEST, SEEN, Edge.EARLIEST, _at_time) == {A: 100, B: 50}
    assert resolve(AtTime(60), SEEN, Edge.EARLIEST, _at_time) == {A: 60, B: 50}


def test_partitions_that_are_not_named_are_read_whole() -> None:
    assert resolve(Named(((A, 42),)), SEEN, Edge.EARLIEST, _at_time) == {A: 42, B: 0}
    assert resolve(Named(((A, -2), (B, 7))), SEEN, Edge.LATEST, _at_time) == {A: 10, B: 7}
    assert resolve(Named(((A, -1),)), SEEN, Edge.EARLIEST, _at_time) == {A: 100, B: 0}


def test_a_partition_that_is_not_there_cannot_be_named() -> None:
    with pytest.raises(InvalidArgument, match=r"partition 7 of queue 'orders', .*there are orders/0, orders/1"):
        resolve(Named(((PartitionId("orders", 7), 0),)), SEEN, Edge.EARLIEST, _at_time)


def test_a_start_above_the_end_is_a_mistake_and_not_an_empty_answer() -> None:
    with pytest.raises(InvalidArgument, match=r"51 of partition 1 of queue 'orders' is above its end: .* will be 50"):
        check_start({A: 100, B: 51}, SEEN, is_whole=True)
    check_start({A: 100, B: 50}, SEEN, is_whole=True)
    check_start({A: 101}, SEEN, is_whole=False)


def test_filters_narrow_ranges_and_drop_those_that_are_empty() -> None:
    ranges = [OffsetRange(A, 10, 100), OffsetRange(B, 0, 50)]
    assert within(ranges, RowBounds(partitions=frozenset({1})), _at_time) == [OffsetRange(B, 0, 50)]
    assert within(ranges, RowBounds(offset_from=60, offset_until=70), _at_time) == [OffsetRange(A, 60, 70)]
    assert within(ranges, RowBounds(time_from_ms=20, time_until_ms=30), _at_time) == [
        OffsetRange(A, 20, 30),
        OffsetRange(B, 20, 30),
    ]


def test_trimmed_offsets_are_an_error_that_names_them() -> None:
    with pytest.raises(DataLost, match=r"5 offsets are gone: offsets 5 to 9 of partition 0 of queue 'orders'; 10 is"):
        readable([OffsetRange(A, 5, 20)], SEEN, True, fails=True)


def test_trimmed_offsets_are_passed_over_and_counted_when_asked(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert readable([OffsetRange(A, 5, 20), OffsetRange(B, 1, 2)], SEEN, True, fails=False) == [
            OffsetRange(A, 10, 20),
            OffsetRange(B, 1, 2),
        ]
    assert "5 offsets are gone: offsets 5 to 9" in caplog.text


def test_a_range_that_is_gone_whole_leaves_nothing_to_read() -> None:
    gone = PartitionId("orders", 9)
    assert readable([OffsetRange(A, 2, 8), OffsetRange(gone, 0, 5)], SEEN, True, fails=False) == []


def test_offsets_above_the_end_are_not_taken_for_read() -> None:
    with pytest.raises(DataLost, match="20 offsets are not there: offsets 50 to 69"):
        readable([OffsetRange(B, 40, 70)], SEEN, True, fails=True)


def test_offsets_above_the_end_are_left_to_those_who_read_while_a_broker_is_dead() -> None:
    assert readable([OffsetRange(B, 40, 70)], SEEN, False, fails=True) == [OffsetRange(B, 40, 70)]


def test_an_error_of_many_partitions_stays_readable() -> None:
    ranges = [OffsetRange(PartitionId("orders", number), 0, 5) for number in range(10, 20)]
    with pytest.raises(DataLost, match="and 5 more") as caught:
        readable(ranges, SEEN, True, fails=True)
    assert len(caught.value.losses) == 10


def test_a_new_partition_of_a_known_queue_begins_at_0_and_a_new_queue_with_what_it_holds() -> None:
    other = PartitionId("returns", 0)
    assert resumed({A: 42}, {**SEEN, other: Visible(7, 9)}) == {A: 42, B: 0, other: 7}


def test_a_queue_that_was_declared_anew_is_noticed() -> None:
    gone = PartitionId("orders", 9)
    losses = list(vanished({A: 42, B: 51, gone: 3}, {}, SEEN))
    assert len(losses) == 2
    assert "ends at offset 50 and was read to 51" in losses[0] and "not there any more" in losses[1]
