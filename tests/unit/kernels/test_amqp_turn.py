"""Both builds say the same, and what plain Python says."""

from __future__ import annotations

from array import array
from itertools import groupby
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kernels import builds

from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.properties import Properties, properties_bytes, read_properties
from penstock.core.errors import InvalidArgument
from penstock.kernels import amqp_columns as names

BUILDS = pytest.mark.parametrize("amqp_turn", builds("amqp_turn"))
KINDS = [names.PUBLISH, names.ACK, names.NACK, names.REJECT, names.HEARTBEAT]
TEXTS = st.none() | st.text(max_size=20)
PROPERTIES = st.builds(
    Properties,
    content_type=TEXTS,
    content_encoding=TEXTS,
    headers=st.none()
    | st.dictionaries(st.text(max_size=5), st.integers(-9, 9).map(lambda n: Field("l", n)), max_size=3),
    delivery_mode=st.none() | st.integers(0, 255),
    message_id=TEXTS,
    cluster_id=TEXTS,
)


@BUILDS
@given(rows=st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2), st.integers(0, 2)), max_size=40))
def test_runs_are_rows_of_one_sort_on_one_channel(amqp_turn: ModuleType, rows: list[tuple[int, int, int]]) -> None:
    kinds, channels, regions = (array("i", [row[at] for row in rows]) for at in range(3))
    firsts = array("i", bytes(4 * len(rows)))
    count = amqp_turn.runs(kinds, channels, regions, firsts)
    expected, at = [], 0
    for _, run in groupby(rows, key=lambda row: (amqp_turn.sort_of(row[0]), *row[1:])):
        expected.append(at)
        at += len(list(run))
    assert list(firsts[:count]) == expected


@BUILDS
@given(
    rows=st.lists(st.tuples(st.sampled_from(KINDS[1:4]), st.sampled_from([0, 4, 8]), st.integers(0, 5)), max_size=20)
)
def test_settlements_that_rise_by_one_go_together(amqp_turn: ModuleType, rows: list[tuple[int, int, int]]) -> None:
    kinds, flags = array("i", [row[0] for row in rows]), array("i", [row[1] for row in rows])
    tags, firsts = array("q", [row[2] for row in rows]), array("i", bytes(4 * len(rows)))
    count = amqp_turn.tag_runs(kinds, flags, tags, firsts)
    expected = []
    for at, (kind, flag, tag) in enumerate(rows):
        before = rows[at - 1] if at else None
        goes_on = before == (kind, flag, tag - 1) and not flag & names.MULTIPLE
        if not goes_on:
            expected.append(at)
    assert list(firsts[:count]) == expected


@BUILDS
def test_texts_are_found_where_they_are_whole(amqp_turn: ModuleType) -> None:
    data, found = b"\x03abc\x02ab\x03abd\x03abc", array("i", bytes(20))
    count = amqp_turn.find_text(data, array("i", [0, 4, 7, -1, 11]), b"abc", found)
    assert list(found[:count]) == [0, 4]
    with pytest.raises(InvalidArgument):
        amqp_turn.find_text(b"\x03ab", array("i", [0]), b"abc", found)


@BUILDS
@given(blocks=st.lists(st.tuples(PROPERTIES, st.integers(0, 1 << 40)), max_size=5))
def test_a_number_is_one_more_header_and_all_else_stays(
    amqp_turn: ModuleType, blocks: list[tuple[Properties, int]]
) -> None:
    data, starts, ends = bytearray(b"??"), array("i"), array("i")
    for properties, _ in blocks:
        starts.append(len(data))
        data += properties_bytes(properties)
        ends.append(len(data))
    out_ends, values = array("i", bytes(4 * len(blocks))), array("q", [value for _, value in blocks])
    made, begin = amqp_turn.with_number(data, starts, ends, b"x-count", values, out_ends), 0
    for (properties, value), end in zip(blocks, out_ends, strict=True):
        got = read_properties(bytes(made[begin:end]))
        headers = {**(properties.headers or {}), "x-count": Field("l", value)}
        assert {name: getattr(got, name) for name in got.__struct_fields__} == {
            **{name: getattr(properties, name) for name in got.__struct_fields__},
            "headers": headers,
        }
        begin = end
    assert begin == len(made)


@BUILDS
@pytest.mark.parametrize("data", [b"", b"\x20\0", b"\x20\0\0\0\0\x09", b"\x80\0\x05a"])
def test_properties_that_leave_their_span_are_refused(amqp_turn: ModuleType, data: bytes) -> None:
    one = array("i", [len(data)])
    with pytest.raises(InvalidArgument):
        amqp_turn.with_number(data, array("i", [0]), one, b"n", array("q", [1]), array("i", [0]))
