"""What a turn brought of all connections, against the same said plainly."""

from __future__ import annotations

from array import array
from functools import reduce
from operator import or_
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

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
    every = turn.contents(array("i", heads), array("i", present), array("i", regions), contents)
    assert every == reduce(or_, contents)
    for region in range(REGIONS):
        mine = [row for row, each in enumerate(regions) if each == region]
        assert list(range(firsts[region], firsts[region + 1])) == mine
        publishes = [row for row in mine if heads[row] >> 4 == names.PUBLISH]
        expected = turn.PUBLISHES * bool(publishes) | turn.ACKNOWLEDGES * (len(publishes) < len(mine))
        expected |= turn.HAS_QOS_2 * any(heads[row] & 6 == 4 for row in publishes)
        expected |= turn.HAS_ALIASES * any(present[row] & names.HAS_ALIAS for row in publishes)
        assert contents[region] == expected


@pytest.mark.parametrize("turn", builds("turn"))
@given(rows=ROWS, wanted=st.lists(st.booleans(), min_size=REGIONS, max_size=REGIONS), topics=st.data())
@settings(max_examples=200, deadline=None)
def test_publishes_of_some_regions_and_who_may_send_them(
    turn: ModuleType, rows: list[tuple[int, int, int]], wanted: list[bool], topics: st.DataObject
) -> None:
    regions, heads, _ = columns(rows)
    picked = zeros(len(rows))
    count = turn.pick_publishes(array("i", heads), array("i", regions), array("i", wanted), picked)
    expected = [row for row, head in enumerate(heads) if head >> 4 == names.PUBLISH and wanted[regions[row]]]
    assert list(picked[:count]) == expected

    mine = array("i", [regions[row] for row in expected])
    again = zeros(count)
    assert turn.pick_regions(mine, array("i", wanted), again) == count
    assert list(again) == list(range(count))

    index = array("i", topics.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
    marks = bytes(topics.draw(st.lists(st.integers(0, 1), min_size=4, max_size=4)))
    marked = zeros(REGIONS)
    turn.mark_topics(mine, index, marks, marked)
    pairs = list(zip(mine, index, strict=True))
    assert {region for region in range(REGIONS) if marked[region]} == {region for region, t in pairs if marks[t]}

    granted = topics.draw(st.sets(st.tuples(st.integers(0, REGIONS - 1), st.integers(0, 3))))
    table, named = array("q", [-1]) * (2 << 8), (array("i", [3, 9, 1, 4, 7]), array("i", [0, 5, 2, 2, 1 << 29]))
    numbers = array("i", [11, 7, 1 << 30, 2])
    for region, topic in granted:
        turn.grant(named[0][region], named[1][region], numbers[topic], table)
    found = zeros(count)
    found = found[: turn.ungranted(mine, index, *named, numbers, array("i", [-1]) * 4, table, found)]
    assert [pairs[row] for row in found] == [pair for pair in dict.fromkeys(pairs) if pair not in granted]


@pytest.mark.parametrize("turn", builds("turn"))
@given(rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 0xFFFF), st.sampled_from([0x32, 0x34, 0x3B]))))
@settings(max_examples=200, deadline=None)
def test_answers_of_a_region_lie_behind_each_other(turn: ModuleType, rows: list[tuple[int, int, int]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    regions, ids = array("i", [row[0] for row in rows]), array("i", [row[1] for row in rows])
    heads = bytes([row[2] for row in rows])
    named = array("i", [7, 3, 9, 0, 5]), array("i", [1, 2, 3, 4, 5])
    out, slots, generations, starts, stops, counts = turn.answers(regions, heads, ids, *named)
    owners, count = [named[0].index(slot) for slot in slots], len(slots)
    assert list(generations) == [named[1][owner] for owner in owners]
    expected, pubacks = dict[int, bytes](), dict[int, int]()
    for region, packet_id, head in rows:
        if packet_id:
            is_puback = head & 6 == 2
            answer = (b"\x40\x02" if is_puback else b"\x50\x02") + packet_id.to_bytes(2, "big")
            expected[region] = expected.get(region, b"") + answer
            pubacks[region] = pubacks.get(region, 0) + is_puback
    assert {owners[n]: bytes(out[starts[n] : stops[n]]) for n in range(count)} == expected
    assert {owners[n]: counts[n] for n in range(count)} == pubacks


@pytest.mark.parametrize("turn", builds("turn"))
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), HEADS)),
    before=st.lists(st.integers(0, 3), min_size=REGIONS, max_size=REGIONS),
)
@settings(max_examples=200, deadline=None)
def test_no_client_has_more_unanswered_than_it_may(
    turn: ModuleType, rows: list[tuple[int, int]], before: list[int]
) -> None:
    rows = sorted(rows)
    slots, maximum = array("i", [2, 0, 5, 1, 4]), 4
    unanswered, received = zeros(6), array("q", bytes(48))
    for slot, count in zip(slots, before, strict=True):
        unanswered[slot] = count
    counts, over, regions = zeros(REGIONS), zeros(REGIONS), array("i", [row[0] for row in rows])
    maxima, heads = array("i", [maximum]) * 6, bytes([row[1] for row in rows])
    is_limited, namespaces, places = zeros(6), zeros(6), array("q", range(6))
    is_limited[5], namespaces[1], by_row = 1, 1, array("q", bytes(8 * len(rows)))
    by_slot = unanswered, maxima, received, is_limited, namespaces, places
    found = turn.count_in(regions, heads, slots, *by_slot, counts, over, by_row)
    owners = [slots[region] for region in regions]
    assert list(by_row) == owners
    for region, slot in enumerate(slots):
        mine = [head for each, head in rows if each == region]
        more = sum(head & 6 == 2 for head in mine)
        is_over = before[region] + more > maximum
        assert bool(over[region]) is is_over
        assert counts[region] == (0 if is_over else more)
        assert unanswered[slot] == before[region] + counts[region]
        assert received[slot] == (0 if is_over else len(mine))
    expected = turn.IS_OVER if any(over) else 0
    expected |= turn.IS_LIMITED if 5 in owners else 0
    assert found == expected | (turn.ARE_APART if 1 in owners and len(set(owners)) > 1 else 0)


@pytest.mark.parametrize("turn", builds("turn"))
def test_answers_leave_in_turn_and_only_to_those_who_are_still_there(turn: ModuleType) -> None:
    slots, waiting, owed = array("i", [3, 1, 0, 2]), array("i", [0, 2, 0, 0]), array("i", [0, 0, 0, 1])
    direct, current, unanswered = zeros(4), array("i", [7, 7, 7, 7]), array("i", [1, 5, 5, 5])
    assert turn.owe(slots, waiting, owed, direct) == 1
    assert (list(direct), list(owed)) == ([1, 0, 1, 1], [1, 0, 1, 2])
    waiting[0] = waiting[3] = 1
    generations, counts, behind = array("i", [7, 7, 7, 6]), array("i", [2, 2, 3, 2]), zeros(4)
    columns = (current, unanswered, owed, waiting)
    assert turn.settle(slots, generations, counts, direct, *columns, behind) == 1
    assert (behind[0], list(owed), list(unanswered)) == (2, [0, 0, 1, 1], [0, 5, 5, 3])


@pytest.mark.parametrize("turn", builds("turn"))
def test_positions_are_moved(turn: ModuleType) -> None:
    values = array("i", [5, 6, 7])
    turn.shift(values, -5)
    assert list(values) == [0, 1, 2]
