from __future__ import annotations

import pytest

from penstock.gateways.pace import Pace

WINDOW_S = 0.006
LONG_AGO_S = 0.0


class Clock:
    """Windows of one pace, one behind the other."""

    def __init__(self) -> None:
        self.pace, self.now_s = Pace(), 1.0
        self.pace.wait_s(self.now_s)
        self.pace.looks(self.now_s)

    def window(self, peers: int, receives_of_each: int, messages_a_receive: int, waited_s: float = 0.003) -> float:
        """How long it is to wait behind a look at the end of a window with such receives and so much waiting."""
        self.pace.waited(waited_s)
        for number in range(peers * receives_of_each):
            self.pace.heard(LONG_AGO_S if number < peers else self.now_s, messages_a_receive)
        self.now_s += WINDOW_S
        self.pace.wait_s(self.now_s)
        self.pace.looks(self.now_s)
        return self.pace.wait_s(self.now_s)


def test_at_the_beginning_it_is_looked_at_once() -> None:
    assert Clock().window(0, 0, 0) <= 0


def test_many_peers_that_send_a_little_each_are_gathered_from() -> None:
    assert Clock().window(peers=10, receives_of_each=10, messages_a_receive=1) == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("peers", "receives_of_each", "messages_a_receive"),
    [
        pytest.param(2, 50, 1, id="few peers, who may wait for their answers"),
        pytest.param(10, 1, 1, id="so few receives that there is time for each"),
        pytest.param(10, 10, 100, id="receives that bring much already"),
    ],
)
def test_others_are_not(peers: int, receives_of_each: int, messages_a_receive: int) -> None:
    assert Clock().window(peers, receives_of_each, messages_a_receive) <= 0


def test_it_goes_on_while_receives_bring_more_than_one_message() -> None:
    clock = Clock()
    clock.window(10, 10, 1)
    assert clock.window(10, 5, 2) > 0
    assert clock.window(10, 5, 2) > 0


def test_where_receives_bring_no_more_it_ends_and_is_not_tried_again_for_a_while() -> None:
    clock = Clock()
    assert clock.window(10, 10, 1) > 0
    assert clock.window(10, 10, 1) <= 0
    assert clock.window(10, 10, 1) <= 0
    clock.now_s += 1.0
    clock.window(0, 0, 0)
    assert clock.window(10, 10, 1) > 0


def test_it_ends_with_the_crowd() -> None:
    clock = Clock()
    clock.window(10, 10, 1)
    assert clock.window(1, 5, 2) <= 0


def test_where_the_work_does_not_fit_it_looks_less_often_and_again_more_often_where_it_does() -> None:
    clock = Clock()
    assert clock.window(10, 10, 1) == pytest.approx(0.001)
    assert clock.window(10, 10, 2, waited_s=0.0) == pytest.approx(0.00125)
    for _ in range(10):
        longest = clock.window(10, 3, 4, waited_s=0.001)
    assert longest == pytest.approx(0.003)
    assert clock.window(10, 3, 4, waited_s=0.003) == pytest.approx(0.003)
    for _ in range(10):
        shortest = clock.window(10, 6, 2, waited_s=0.005)
    assert shortest == pytest.approx(0.001)
