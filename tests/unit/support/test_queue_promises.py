"""The checker of histories finds what it is there to find."""

from __future__ import annotations

import pytest
from tests.support.queue_fates import GroupRules
from tests.support.queue_history import (
    BrokenPromise,
    Drained,
    Event,
    Left,
    Letter,
    Message,
    Opening,
    Put,
    Putting,
    Refused,
    Settled,
    Settling,
    Took,
    Where,
    id_of,
    value_of,
)
from tests.support.queue_promises import Findings, check

RULES = {("q", "g"): GroupRules(max_retries=1)}


def put(number: int, *ids: str, base: int, key: str = "k") -> list[Event]:
    return [
        Putting(str(number), "p", [Message("q", name, key) for name in ids]),
        Put(str(number), [Where("q", 0, base, len(ids))]),
    ]


def took(*offsets: int, ids: str, count: int = 1, consumer: int = 1) -> Took:
    return Took("q", "g", consumer, 0, list(offsets), list(ids), [count] * len(offsets), 0)


def settling(call: str, verb: str, *offsets: int, consumer: int = 1) -> Settling:
    return Settling(call, "q", "g", consumer, verb, [(0, offset) for offset in offsets], 0)


def settle(call: str, verb: str, *offsets: int, done: int | None = None, consumer: int = 1) -> list[Event]:
    count = len(offsets) if done is None else done
    return [settling(call, verb, *offsets, consumer=consumer), Settled(call, count)]


def checked(*events: Event) -> Findings:
    return check([Opening(1), *events, Drained(1)], RULES)


def test_a_history_in_which_nothing_went_wrong_is_accepted() -> None:
    found = checked(*put(1, "a", "b", base=0), took(0, 1, ids="ab"), *settle("s", "ack", 0, 1))
    assert found == Findings(messages=2)


def test_a_value_carries_its_id() -> None:
    assert id_of(value_of("p1.2.3")) == "p1.2.3"
    with pytest.raises(AssertionError, match="not what was put"):
        id_of(value_of("p1.2.3") + b"x")


TWO = put(1, "a", "b", base=0)
THREE = put(1, "a", "b", "c", base=0)
ONE_ACKED = [*put(1, "a", base=0), took(0, ids="a"), *settle("s", "ack", 0)]
FAILED_ONCE = [*TWO, took(0, 1, ids="ab"), *settle("s", "fail", 0)]


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([*TWO, took(0, ids="a"), *settle("s", "ack", 0)], "lost"),
        ([*put(1, "a", base=0), took(0, ids="x")], "never put"),
        ([*TWO, took(0, 1, ids="aa")], "is in q at"),
        ([*TWO, took(0, ids="a"), took(0, ids="b", count=2)], "was a, then b"),
        ([*put(1, "a", base=0), *put(2, "b", base=2), took(0, ids="a"), took(2, ids="b")], "still held|offsets"),
        ([*put(1, "a", base=1), *put(2, "b", base=0), took(0, 1, ids="ba"), *settle("s", "ack", 0, 1)], "came after"),
        ([*TWO, took(1, ids="b"), took(0, ids="a")], "before 0"),
        ([*TWO, took(0, ids="a"), took(1, ids="b", consumer=2)], "while 0:0 of its key"),
        ([*ONE_ACKED, took(0, ids="a", count=2)], "after it was settled"),
        ([*ONE_ACKED, Opening(2), took(0, ids="a")], "after it was settled"),
        ([*TWO, took(0, 1, ids="ab"), took(0, ids="a", count=2)], "while consumer 1 had it"),
        ([*FAILED_ONCE, *settle("t", "ack", 1)], "was done for 1, not 0"),
        ([*TWO, took(0, 1, ids="ab"), *settle("s", "ack", 0, 1, done=1)], "was done for 1, not 2"),
        ([*put(1, "a", base=0), took(0, ids="a"), *settle("s", "reject", 0)], "a dead letter is there: False"),
        ([*ONE_ACKED, Letter("q", "g", 0, 0, "a")], "a dead letter is there: True"),
        ([*put(1, "a", base=0), took(0, ids="a"), *settle("s", "fail", 0)], "still waiting"),
        ([Putting("1", "p", [Message("q", "a", "k"), Message("q", "b", "k")]), took(0, ids="a")], "1 of 2|held"),
        ([*put(1, "a", base=0), took(0, ids="a"), settling("s", "ack", 0), Refused("s")], "all it names was held"),
    ],
)
def test_what_may_not_happen_is_found(events: list[Event], what: str) -> None:
    with pytest.raises(BrokenPromise, match=what):
        checked(*events)


def test_a_history_that_was_not_drained_proves_nothing() -> None:
    with pytest.raises(BrokenPromise, match="ends before"):
        check([Opening(1), *ONE_ACKED], RULES)


def test_a_call_of_which_a_part_is_there_is_found() -> None:
    begun = Putting("1", "p", [Message("q", "a", "k"), Message("q", "b", "k")])
    with pytest.raises(BrokenPromise, match="1 of 2 are there"):
        checked(begun, took(0, ids="a"), *settle("s", "ack", 0))


def test_a_transaction_that_was_refused_leaves_nothing() -> None:
    begun = Putting("1", "", [Message("q", "a", "k")])
    with pytest.raises(BrokenPromise, match="refused and is there"):
        checked(begun, Refused("1"), took(0, ids="a"), *settle("s", "ack", 0))


def test_a_message_moved_twice_is_found() -> None:
    puts = [*put(1, "x:a", base=0), *put(2, "y:a", base=1)]
    taken = Took("q", "g", 1, 0, [0, 1], ["x:a", "y:a"], [1, 1], 0)
    with pytest.raises(BrokenPromise, match="moved twice"):
        checked(*puts, taken, *settle("s", "ack", 0, 1))


def test_a_dead_letter_twice_is_found() -> None:
    letter = Letter("q", "g", 0, 0, "a")
    with pytest.raises(BrokenPromise, match="among the dead letters twice"):
        checked(*put(1, "a", base=0), took(0, ids="a"), *settle("s", "reject", 0), letter, letter)


def test_a_settlement_under_way_at_a_crash_may_be_done_or_not() -> None:
    begun: list[Event] = [*put(1, "a", base=0), took(0, ids="a"), settling("s", "ack", 0), Opening(2)]
    assert checked(*begun).unsure == 1
    assert checked(*begun, took(0, ids="a"), *settle("t", "ack", 0)).unsure == 0


def test_what_a_later_delivery_shows_to_be_done_does_not_come_again() -> None:
    begun: list[Event] = [*TWO, took(0, ids="a"), settling("s", "ack", 0), Opening(2), took(1, ids="b")]
    with pytest.raises(BrokenPromise, match="after it was settled"):
        checked(*begun, took(0, ids="a"))


def test_a_move_under_way_at_a_crash_is_whole() -> None:
    begun: list[Event] = [*put(1, "a", base=0), took(0, ids="a"), settling("s", "reject", 0), Opening(2)]
    assert checked(*begun, Letter("q", "g", 0, 0, "a")).letters == 1
    with pytest.raises(BrokenPromise, match="a dead letter is there: False"):
        checked(*begun)
    with pytest.raises(BrokenPromise, match="a dead letter is there: True"):
        checked(*begun, took(0, ids="a"), *settle("t", "ack", 0), Letter("q", "g", 0, 0, "a"))


def test_what_failed_too_often_is_a_dead_letter() -> None:
    again = took(0, 1, ids="ab", count=2)
    events = [*FAILED_ONCE, again, *settle("t", "fail", 0), *settle("u", "ack", 1)]
    assert checked(*events, Letter("q", "g", 0, 0, "a")).letters == 1


def test_what_a_failure_takes_back_is_stale_and_comes_again() -> None:
    events = [*FAILED_ONCE, *settle("t", "ack", 1, done=0), took(0, 1, ids="ab", count=2), *settle("u", "ack", 0, 1)]
    found = checked(*events)
    assert (found.stale, found.redelivered) == (1, 2)


def test_what_a_consumer_held_that_left_comes_again() -> None:
    events = [*TWO, took(0, 1, ids="ab"), Left("q", "g", 1), took(0, 1, ids="ab", count=2, consumer=2)]
    assert checked(*events, *settle("s", "ack", 0, 1, consumer=2)).redelivered == 2


def test_a_message_behind_is_not_in_flight_any_more_once_its_lease_is_over() -> None:
    def leased(count: int, now: int) -> Took:
        return Took("q", "g", 1, 0, [0, 1], ["a", "b"], [count, count], now, now + 10)

    late = Settling("late", "q", "g", 1, "ack", [(0, 0)], 20)
    checked(*put(1, "a", "b", base=0), leased(1, 0), late, Settled("late", 0), leased(2, 20), *settle("s", "ack", 0, 1))


def test_a_delivery_whose_lease_was_over_before_it_was_told_proves_nothing() -> None:
    def leased(consumer: int, count: int, now: int, end: int) -> Took:
        return Took("q", "g", consumer, 0, [0], ["a"], [count], now, end)

    told = *put(1, "a", base=0), leased(2, 2, 15, 25), *settle("s", "ack", 0, consumer=2)
    checked(*told, leased(1, 1, 20, 10), *settle("late", "ack", 0, done=0))
    for delivery in (leased(1, 1, 20, 30), leased(1, 3, 20, 10)):
        with pytest.raises(BrokenPromise, match="after it was settled"):
            checked(*told, delivery)
