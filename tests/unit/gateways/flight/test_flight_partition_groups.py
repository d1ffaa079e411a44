from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import TooLarge
from penstock.gateways.flight.partition_groups import Group, Partitions, appended_groups, cut, staged_groups
from penstock.log.columns import Columns
from penstock.log.encoded import Encoded
from penstock.log.reading.arrow_encoding import ArrowColumns

KEYS = st.lists(st.binary(max_size=3), min_size=1, max_size=30)


def rows_of(keys: list[bytes]) -> ArrowColumns:
    return ArrowColumns(pa.array([b"%d" % number for number in range(len(keys))]), pa.array(keys, pa.binary()))


def values(group: Group) -> list[bytes]:
    taken = Encoded.checked(bytearray().join(group.pieces))
    assert (taken.count, taken.bytes) == (group.rows, group.size_bytes)
    return [row.value for row in taken.batch]


@given(KEYS, st.integers(1, 5), st.data())
def test_keys_lead_where_a_publish_would_put_them(keys: list[bytes], count: int, data: st.DataObject) -> None:
    unkeyed = data.draw(st.integers(0, count - 1))
    columns = rows_of(keys)
    found = {group.partition: values(group) for group in appended_groups(columns, None, Partitions(count, unkeyed))}
    plain = Columns.of(columns.value.to_pylist(), keys=keys)
    wanted = {
        number: [bytes(mine.source[a:b]) for a, b in zip(mine.value.starts, mine.value.ends, strict=True)]
        for number, mine in plain.scatter(count, unkeyed)
    }
    assert found == wanted


def test_rows_go_where_they_ask_to_and_the_others_by_key() -> None:
    columns, wanted = rows_of([b"a", b"", b"a", b""]), pa.array([2, None, None, 0], pa.int32())
    groups = appended_groups(columns, wanted, Partitions(3, None))
    named = {group.partition: values(group) for group in groups if group.partition is not None and not group.is_by_key}
    assert named == {2: [b"0"], 0: [b"3"]}
    assert [values(group) for group in groups if group.partition is None] == [[b"1"]]
    assert [values(group) for group in groups if group.is_by_key] == [[b"2"]]


def test_staged_rows_are_parted_only_by_what_they_ask_for() -> None:
    columns = rows_of([b"a", b"b", b"c"])
    [whole] = staged_groups(columns, None, Partitions(3, 0))
    assert (whole.partition, values(whole)) == (None, [b"0", b"1", b"2"])
    groups = staged_groups(columns, pa.array([1, None, 1], pa.int32()), Partitions(3, 0))
    assert {group.partition: values(group) for group in groups} == {None: [b"1"], 1: [b"0", b"2"]}


@given(st.lists(st.integers(0, 300), min_size=1, max_size=40))
def test_large_batches_are_cut_into_ranges_that_fit(sizes: list[int]) -> None:
    columns = ArrowColumns(pa.array([bytes(size) for size in sizes], pa.binary()))
    ranges = list(cut(columns, 500))
    assert [row for first, stop in ranges for row in range(first, stop)] == list(range(len(sizes)))
    assert all(columns.part(*each).bytes <= 500 for each in ranges)


def test_a_message_larger_than_a_frame_is_refused() -> None:
    with pytest.raises(TooLarge, match="a message is"):
        list(cut(ArrowColumns(pa.array([b"", bytes(1000)])), 500))
