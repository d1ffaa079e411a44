"""What a turn brought of all connections, against the same said plainly."""

from __future__ import annotations

from array import array
from itertools import groupby
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

from penstock.core.errors import InvalidArgument
from penstock.kernels import mqtt_columns as names

HEADS = st.sampled_from([0x30, 0x32, 0x3A, 0x34, 0x31, 0x33, 0x40, 0x50, 0x62, 0x70])
ROWS = st.lists(st.tuples(st.integers(0, 4), HEADS, st.sampled_from([0, names.HAS_ALIAS, names.HAS_EXPIRY, 0x20])))
REGIONS = 5


def zeros(count: int) -> array[int]:
    return array("i", bytes(4 * count))


def columns(rows: list[tuple[int, int, int]]) -> tuple[list[int], list[int], list[int]]:
    """Regions, heads and what is present, region after region."""
    found = sorted(rows, key=lambda row: row[0])
    return [row[0] for row in found], [row[1] for row in found], [row[2] for row in found]


@pytest.mark.parametrize("turn", builds("turn"))
@given(rows=ROWS)
@settings(max_examples=200, deadline=None)
def test_what_each_region_holds(turn: ModuleType, rows: list[tuple[int, int, int]]) -> None:
    regions, heads, present = columns(rows)
    firsts, contents = zeros(REGIONS + 1), zeros(REGIONS)
    turn.bounds(array("i", regions), firsts)
    turn.contents(array("i", heads), array("i", present), array("i", regions), contents)
    for region in range(REGIONS):
        mine = [row for row, each in enumerate(regions) if each == region]
        assert list(range(firsts[region], firsts[region + 1])) == mine
        publishes = [row for row in mine if heads[row] >> 4 == names.PUBLISH]
        special = [row for row in publishes if heads[row] & 5 or present[row] & names.HOP_BY_HOP]
        expected = turn.PUBLISHES * bool(publishes) | turn.ACKNOWLEDGES * (len(publishes) < len(mine))
        assert contents[region] == expected | turn.IS_SPECIAL * bool(special)


@pytest.mark.parametrize("turn", builds("turn"))
@given(rows=ROWS, wanted=st.lists(st.booleans(), min_size=REGIONS, max_size=REGIONS), topics=st.data())
@settings(max_examples=200, deadline=None)
def test_publishes_of_some_regions_and_the_topics_that_each_has(
    turn: ModuleType, rows: list[tuple[int, int, int]], wanted: list[bool], topics: st.DataObject
) -> None:
    regions, heads, _ = columns(rows)
    picked = zeros(len(rows))
    count = turn.pick_publishes(array("i", heads), array("i", regions), array("i", wanted), picked)
    expected = [row for row, head in enumerate(heads) if head >> 4 == names.PUBLISH and wanted[regions[row]]]
    assert list(picked[:count]) == expected

    mine = array("i", [regions[row] for row in expected])
    index = array("i", topics.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
    firsts = zeros(count)
    found = turn.pairs(mine, index, array("i", [-1]) * 4, firsts)
    pairs = list(zip(mine, index, strict=True))
    assert list(firsts[:found]) == [row for row, pair in enumerate(pairs) if pair not in pairs[:row]]

    places, of_rows = array("q", [10**12 + region for region in range(REGIONS)]), array("q", bytes(8 * count))
    turn.spread(places, mine, of_rows)
    assert list(of_rows) == [10**12 + region for region in mine]


@pytest.mark.parametrize("turn", builds("turn"))
@given(rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 0xFFFF))))
@settings(max_examples=200, deadline=None)
def test_answers_of_a_region_lie_behind_each_other(turn: ModuleType, rows: list[tuple[int, int]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    out, (owners, starts, stops) = bytearray(4 * len(rows)), (zeros(len(rows)) for _ in range(3))
    ids = array("i", [packet_id for _, packet_id in rows])
    count = turn.answers(array("i", [region for region, _ in rows]), ids, out, owners, starts, stops)
    answered = [(region, packet_id) for region, packet_id in rows if packet_id]
    expected = {
        region: b"".join([b"\x40\x02" + packet_id.to_bytes(2, "big") for _, packet_id in some])
        for region, some in groupby(answered, key=lambda row: row[0])
    }
    found = {owners[n]: bytes(out[starts[n] : stops[n]]) for n in range(count)}
    assert found == expected


@pytest.mark.parametrize("turn", builds("turn"))
def test_positions_are_moved_and_room_is_looked_at(turn: ModuleType) -> None:
    values = array("i", [5, 6, 7])
    turn.shift(values, -5)
    assert list(values) == [0, 1, 2]
    with pytest.raises(InvalidArgument):
        turn.answers(zeros(2), array("i", [1, 1]), bytearray(4), zeros(2), zeros(2), zeros(2))
