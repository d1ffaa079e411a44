"""Publishes to many queues at once: what one queue after the other would do."""

from __future__ import annotations

from array import array
from types import SimpleNamespace

from penstock.kernels.takers import NO_LIMIT, Passage, Taker, data_logs, leave, release, spreading, take, targets


class CountingGate(Passage):
    def __init__(self) -> None:
        super().__init__()
        self.emptied_times = 0

    def emptied(self) -> None:
        self.emptied_times += 1


class SomeQueue(Taker):
    """As the broker's: a class in Python over the kernel's."""


def queue(depth_limit: int = NO_LIMIT, allowance: int = 0, changed: set[SomeQueue] | None = None) -> SomeQueue:
    made = SomeQueue(CountingGate(), changed)
    made.depth_limit, made.allowance, made.largest_value = depth_limit, allowance, 100
    made.groups["workers"] = None
    return made


def test_all_that_nothing_has_to_be_asked_of_are_taken_together() -> None:
    queues, taken = [queue(), queue(10, allowance=5), queue()], dict[SomeQueue, int]()
    assert take(queues, array("i", [2, 5, 0]), 0, 77, True, taken) == 3
    assert taken == {queues[0]: 2, queues[1]: 5}
    assert [(each.expected, each.gate.under_way, each.used_ms) for each in queues] == [
        (2, 1, 77),
        (5, 1, 77),
        (0, 0, 0),
    ]
    assert queues[1].allowance == 0
    release(taken)
    assert [each.expected for each in queues] == [0, 0, 0]


def test_it_stops_before_a_queue_that_has_to_be_asked() -> None:
    full, closed, twice = queue(10, allowance=4), queue(), queue()
    closed.gate.is_closed = True
    for odd in (full, closed, twice):
        taken = {twice: 1}
        queues = [queue(), odd, queue()]
        assert take(queues, array("i", [5, 5, 5]), 0, 1, False, taken) == 1
        assert (odd.gate.under_way, odd.expected, odd.used_ms) == (0, 0, 0)
        assert take(queues, array("i", [5, 5, 5]), 2, 1, False, taken) == 3
    assert full.allowance == 4


def test_a_depth_matters_only_where_a_group_reads() -> None:
    unread = queue(10, allowance=0)
    unread.groups.clear()
    assert take([unread], array("i", [50]), 0, 1, False, {}) == 1


def test_gates_are_left_and_whoever_waits_for_the_last_is_told() -> None:
    changed: set[SomeQueue] = set()
    first, awaited, deleted = queue(changed=changed), queue(changed=changed), queue(changed=changed)
    taken = dict[SomeQueue, int]()
    for _ in range(2):
        taken.clear()
        take([first, awaited, deleted], array("i", [1, 2, 3]), 0, 1, False, taken)
    awaited.gate.is_awaited = deleted.is_deleted = True
    assert leave(taken, True, True) == 6
    assert isinstance(awaited.gate, CountingGate)
    assert awaited.gate.emptied_times == 0
    assert changed == {first, awaited}, "one that is gone has not changed"
    assert leave(taken, False, False) == 0
    assert (awaited.gate.emptied_times, awaited.gate.under_way, awaited.published) == (1, 0, 2)


def test_what_is_moved_counts_as_a_change_and_not_as_published() -> None:
    changed: set[SomeQueue] = set()
    moved = queue(changed=changed)
    take([moved], array("i", [3]), 0, 1, False, taken := dict[SomeQueue, int]())
    assert leave(taken, True, False) == 0
    assert (moved.published, changed) == (0, {moved})


def test_those_that_spread_are_found() -> None:
    queues = [queue(), queue()]
    queues[1].spreads = True
    assert spreading(queues) == [1]


def test_the_logs_of_lanes_that_get_rows() -> None:
    queues, logs = [queue(), queue()], list[object]()
    queues[0].units.update({0: SimpleNamespace(data="a0"), 2: SimpleNamespace(data="a2")})
    queues[1].units.update({1: SimpleNamespace(data="b1")})
    first_lanes = array("i", [0, 3, 5])
    assert data_logs(queues, first_lanes, array("i", [1, 0, 4, 0, 9]), logs) == -1
    assert logs == ["a0", "a2", "b1"]
    assert data_logs(queues, first_lanes, array("i", [0, 0, 1, 1, 1]), []) == 1


def test_the_queues_that_topics_feed_are_numbered() -> None:
    first, second, third = queue(), queue(), queue()
    found, begins, numbers = targets([[second], [], [first, second, third], [third]])
    assert found == [second, first, third]
    assert (list(begins), list(numbers)) == ([0, 1, 1, 4, 5], [0, 1, 0, 2, 2])
