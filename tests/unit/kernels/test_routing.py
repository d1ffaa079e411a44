"""What a row feeds and where it goes there, against the same said plainly."""

from __future__ import annotations

from array import array
from itertools import accumulate
from operator import itemgetter
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

from penstock.core.errors import InvalidArgument
from penstock.kernels import hashing
from penstock.kernels.takers import Passage, Taker


def table(feeds: list[list[int]]) -> tuple[array[int], array[int]]:
    """begins and queues of lay_out()."""
    return array("i", accumulate(map(len, feeds), initial=0)), array("i", [queue for some in feeds for queue in some])


@st.composite
def turns(draw: st.DrawFn) -> tuple[list[int], list[list[int]], list[int], list[int], list[int]]:
    """Topics of rows, queues of topics, partitions and steps of queues, places of rows."""
    queues = draw(st.integers(1, 5))
    feeds = draw(st.lists(st.lists(st.integers(0, queues - 1), max_size=3, unique=True), min_size=1, max_size=5))
    index = draw(st.lists(st.integers(0, len(feeds) - 1), max_size=30))
    sizes = draw(st.lists(st.integers(1, 7), min_size=queues, max_size=queues))
    steps = draw(st.lists(st.integers(0, 9), min_size=queues, max_size=queues))
    places = draw(st.lists(st.integers(-(2**31), 2**32 - 1), min_size=len(index), max_size=len(index)))
    return index, feeds, sizes, steps, places


def takers(sizes: list[int], largest: int = 1 << 20) -> list[Taker]:
    """Queues with so many partitions."""
    made = [Taker(Passage(), None) for _ in sizes]
    for taker, size in zip(made, sizes, strict=True):
        taker.partitions, taker.largest_value = size, largest
    return made


@pytest.mark.parametrize("routing", builds("routing"))
@given(turn=turns(), is_spread=st.booleans())
@settings(max_examples=200, deadline=None)
def test_each_row_goes_to_one_lane_of_every_queue_that_its_topic_feeds(
    routing: ModuleType, turn: tuple[list[int], list[list[int]], list[int], list[int], list[int]], is_spread: bool
) -> None:
    topics, feeds, sizes, steps, places = turn
    steps = steps if is_spread else [0] * len(sizes)
    index, (begins, queues) = array("i", topics), table(feeds)
    first_lanes = list(accumulate(sizes, initial=0))
    expected = []
    for row, topic in enumerate(topics):
        for queue in feeds[topic]:
            place = places[row] if places[row] >= 0 else -1 - places[row] + steps[queue]
            expected.append((row, first_lanes[queue] + place % sizes[queue]))
    starts = array("i", range(len(topics)))
    ends = array("i", [start + 3 * start % 11 for start in starts])
    counts, forward = array("i", bytes(4 * len(sizes))), array("i", steps) if is_spread else None
    named = array("q", places), forward, starts, ends
    rows, lanes, firsts, refusing, too_long = routing.lay_out(takers(sizes, 8), index, begins, queues, *named, counts)
    assert list(firsts) == first_lanes
    assert list(rows) == [row for row, _ in sorted(expected, key=itemgetter(1))]
    assert list(lanes) == [[lane for _, lane in expected].count(lane) for lane in range(first_lanes[-1])]
    longest = []
    for queue in range(len(sizes)):
        mine = [row for row, lane in expected if first_lanes[queue] <= lane < first_lanes[queue + 1]]
        assert counts[queue] == len(mine)
        longest.append(max([ends[row] - starts[row] for row in mine], default=0))
    too = [(queue, size) for queue, size in enumerate(longest) if size > 8]
    assert (refusing, too_long) == (too[0] if too else (-1, 0))


@pytest.mark.parametrize("routing", builds("routing"))
def test_a_queue_that_is_deleted_refuses(routing: ModuleType) -> None:
    queues = takers([1, 1])
    queues[1].is_deleted = True
    one, zero = array("i", [0]), array("i", [0])
    laid = routing.lay_out(queues, one, array("i", [0, 1]), one, array("q", [0]), None, zero, zero, array("i", [0, 0]))
    assert laid[3:] == (1, 0)


@pytest.mark.parametrize("routing", builds("routing"))
def test_a_key_places_a_row_as_it_does_everywhere(routing: ModuleType) -> None:
    source, places = b"aabbb", array("q", [-1, -5, -6])
    starts, ends = array("i", [0, 2, 2]), array("i", [2, 2, 5])
    routing.place_by_key(source, starts, ends, places)
    assert list(places) == [hashing.murmur3(source, 0, 2), -5, hashing.murmur3(source, 2, 5)]


@pytest.mark.parametrize("routing", builds("routing"))
@pytest.mark.parametrize(("topic", "partitions", "error"), [(3, 1, IndexError), (0, 0, InvalidArgument)])
def test_a_table_that_leads_nowhere_is_an_error(
    routing: ModuleType, topic: int, partitions: int, error: type[Exception]
) -> None:
    def one(value: int = 0) -> array[int]:
        return array("i", [value])

    table = one(topic), array("i", [0, 1]), one(), array("q", [0]), one()
    with pytest.raises(error):
        routing.lay_out(takers([partitions]), *table, one(), one(), one())
