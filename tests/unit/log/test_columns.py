from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.batches import Records, records

from penstock.core.errors import InvalidArgument
from penstock.kernels.hashing import murmur3
from penstock.log.batch import HEADER_BYTES, Batch, encode, seal
from penstock.log.columns import Columns, Spans


def fields_of(columns: Columns) -> list[tuple[bytes | int | None, ...]]:
    batch = encode(columns)
    seal(batch, 0, 0, 0)
    return [row[2:] for row in Batch.parse(batch)]


@given(some=records(), draw=st.data())
@settings(max_examples=100, deadline=None)
def test_selected_rows_are_those_of_the_whole(some: Records, draw: st.DataObject) -> None:
    columns = some.columns()
    picked = draw.draw(st.lists(st.integers(0, columns.count - 1), min_size=1, max_size=20))
    every = fields_of(columns)
    assert fields_of(columns.select(array("i", picked))) == [every[row] for row in picked]


@given(keys=st.lists(st.binary(max_size=8), min_size=1, max_size=30), partitions=st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_scattered_rows_are_where_their_keys_belong_in_order(keys: list[bytes], partitions: int) -> None:
    columns = Columns.of([b"%d" % i for i in range(len(keys))], keys=keys)
    scattered = columns.scatter(partitions)
    expected: dict[int, list[bytes]] = {}
    for i, key in enumerate(keys):
        expected.setdefault(murmur3(key, 0, len(key)) % partitions, []).append(b"%d" % i)
    assert {number: [fields[1] for fields in fields_of(part)] for number, part in scattered} == expected
    assert all(part.source is columns.source for _, part in scattered)


@given(some=records(), partitions=st.integers(2, 5))
@settings(max_examples=100, deadline=None)
def test_scattered_rows_keep_all_their_fields_and_no_topic_of_others(some: Records, partitions: int) -> None:
    columns = some.columns()
    every, seen = fields_of(columns), []
    for _, part in columns.scatter(partitions):
        seen += fields_of(part)
        assert (
            part.topics is None
            or part.topic_index is None
            or set(part.topic_index) == set(range(len(part.topics.starts)))
        )
    assert sorted(map(repr, seen)) == sorted(map(repr, every))
    assert fields_of(columns) == every


def test_without_keys_everything_stays_together() -> None:
    columns = Columns.of([b"a", b"b"])
    assert columns.scatter(8) == [(0, columns)]


@given(some=records())
@settings(max_examples=50, deadline=None)
def test_the_bytes_of_admission_are_those_of_the_batch_but_for_padding(some: Records) -> None:
    columns = some.columns()
    stored = len(encode(columns)) - HEADER_BYTES
    assert columns.bytes <= stored <= columns.bytes + 100


def test_bytes_outside_the_source_are_not_admitted() -> None:
    with pytest.raises(InvalidArgument):
        _ = Columns(1, b"ab", Spans(array("i", [0]), array("i", [3]))).bytes


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        Columns.of([b"a"], keys=[b"k", b"l"])


def test_topics_are_listed_once() -> None:
    columns = Columns.of([b"1", b"2", b"3"], topics=[b"x", b"y", b"x"])
    assert columns.topic_index == array("i", [0, 1, 0])
    assert columns.topics is not None
    assert len(columns.topics.starts) == 2
