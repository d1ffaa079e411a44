"""Answers of a peer, against a naive reference."""

from __future__ import annotations

from array import array
from itertools import accumulate, count, islice
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

from penstock.core.errors import InvalidArgument

KERNELS = pytest.mark.parametrize("kernel", builds("flights"))


def flight_of(kernel: ModuleType, names: list[str], counts: list[int], ids: list[int]) -> Any:
    return kernel.Flight([None] * len(names), names, array("i", accumulate(counts)), ids)


def taken(kernel: ModuleType, words: dict[int, int], flights: dict[int, Any], ids: list[int]) -> list[tuple[str, int]]:
    """Delivery and place of each message."""
    found: list[str] = []
    firsts, stops = array("i", bytes(4 * len(ids))), array("i", bytes(4 * len(ids)))
    runs = kernel.take(words, flights, ids, found, firsts, stops)
    assert runs == len(found)
    return [(found[i], place) for i in range(runs) for place in range(firsts[i], stops[i])]


@KERNELS
@given(
    sent=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), min_size=1, max_size=4),
    data=st.data(),
)
@settings(max_examples=150, deadline=None)
def test_answers_find_what_was_sent_with_their_identifiers(
    kernel: ModuleType, sent: list[list[int]], data: st.DataObject
) -> None:
    words: dict[int, int] = {}
    flights: dict[int, Any] = {}
    expected: dict[int, tuple[str, int]] = {}
    free = count(1)
    for number, counts in enumerate(sent, 1):
        names = [f"{number}-{part}" for part in range(len(counts))]
        ids = list(islice(free, sum(counts)))
        places = [(name, place) for name, size in zip(names, counts, strict=True) for place in range(size)]
        expected.update(zip(ids, places, strict=True))
        kernel.add(words, flights, number, flight_of(kernel, names, counts, ids))
    order = list(expected)
    if data.draw(st.booleans()):
        order = data.draw(st.permutations(order))
    while order:
        cut = data.draw(st.integers(1, len(order)))
        answers, order = order[:cut], order[cut:]
        mine = [expected.pop(packet_id) for packet_id in answers]
        answers.insert(data.draw(st.integers(0, cut)), 60_000)
        assert taken(kernel, words, flights, answers) == mine
        left = {place[0] for place in expected.values()}
        assert {name for flight in flights.values() for name in flight.deliveries if name is not None} == left
    assert not words
    assert not flights


@KERNELS
def test_an_identifier_answered_twice_is_found_once(kernel: ModuleType) -> None:
    words: dict[int, int] = {}
    flights: dict[int, Any] = {}
    kernel.add(words, flights, 1, flight_of(kernel, ["a"], [3], [7, 8, 9]))
    assert taken(kernel, words, flights, [8, 8, 7]) == [("a", 1), ("a", 0)]
    assert flights[1].left == 1


@KERNELS
def test_a_flight_has_an_identifier_for_each_message(kernel: ModuleType) -> None:
    for stops, ids in (([2], [1]), ([1, 2], [1, 2])):
        with pytest.raises(InvalidArgument):
            kernel.Flight([None], ["a"], array("i", stops), ids)
