"""Stages of a commit are read ahead of being written."""

from __future__ import annotations

import threading

import pytest

from penstock.broker.staging.prefetch import fetched_ahead


def test_all_come_in_order_and_the_next_is_fetched_while_one_is_worked_on() -> None:
    begun = [threading.Event() for _ in range(4)]

    def fetch(number: int) -> int:
        begun[number].set()
        return number * 10

    for number, fetched in enumerate(fetched_ahead(fetch, range(4))):
        assert fetched == number * 10
        assert number == 3 or begun[number + 1].wait(10), "the next one was not begun"


def test_what_fails_is_raised_where_it_belongs_and_ends_the_thread() -> None:
    def fetch(number: int) -> int:
        if number == 2:
            raise OSError("damaged")
        return number

    taken: list[int] = []
    with pytest.raises(OSError, match="damaged"):
        taken.extend(fetched_ahead(fetch, range(4)))
    assert taken == [0, 1]
    assert not [each for each in threading.enumerate() if each.name.startswith("penstock-ahead")]


def test_nothing_is_fetched_of_nothing() -> None:
    assert list(fetched_ahead(str, [])) == []
