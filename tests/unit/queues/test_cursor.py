from __future__ import annotations

import random
from array import array

from penstock.kernels.window import EntryState, PendingEntry
from penstock.queues.cursor import Cursor, Limits
from penstock.queues.records import Kind, StateRecord, decode, encode

LIMITS = Limits(array("q", [1000, 2000]), 0, 2, 1000)
CONSUMER, OTHER, LEASE = 5, 6, 9_000
MANY = 1 << 30


def offsets(*numbers: int) -> array[int]:
    return array("q", numbers)


def hand_out(
    cursor: Cursor, stop: int, keys: array[int] | None = None, consumer: int = CONSUMER, lease: int = -1
) -> int:
    """Offsets up to `stop`, each a row of a batch that begins at 0."""
    rows = array("i", bytes(4 * stop))
    found = array("q", range(stop))
    return cursor.hand_out(found, keys, None, 0, stop, consumer, MANY, 1, lease, 1000, rows)


def again(cursor: Cursor, now: int = 1) -> list[int]:
    cursor.due(now)
    out, counts = array("q", bytes(800)), array("i", bytes(400))
    return list(out[: cursor.hand_out_again(MANY, CONSUMER, 100, now, -1, out, counts)])


def entries(cursor: Cursor) -> list[PendingEntry]:
    window = cursor.window
    return [entry for offset in window.offsets() if (entry := window.entry(offset)) is not None]


def drained(cursor: Cursor, room: int = MANY) -> list[StateRecord]:
    """What the state log is told, in pieces of so many bytes."""
    found: list[StateRecord] = []
    while True:
        unsaid = cursor.unsaid(room)
        assert cursor.unsaid(room) == unsaid, "asking changes nothing"
        if not unsaid.records:
            cursor.said(unsaid)
            assert not cursor.is_dirty
            return found
        assert sum(map(len, unsaid.records)) <= room
        cursor.said(unsaid)
        found += map(decode, unsaid.records)


def replayed(found: list[StateRecord], max_returns: int = MANY) -> Cursor:
    cursor = Cursor(1, 0, 0)
    for record in found:
        cursor.apply(decode(encode(record)))
    cursor.restored(0, max_returns)
    return cursor


def test_nothing_is_noted_of_a_cursor_that_did_nothing() -> None:
    cursor = Cursor(1, 0, 0)
    assert not cursor.is_dirty
    assert drained(cursor) == []


def test_deliveries_are_one_range_without_what_was_settled_since() -> None:
    cursor = Cursor(1, 0, 0)
    hand_out(cursor, 10)
    cursor.ack(offsets(3, 4), None, CONSUMER)
    [record] = drained(cursor)
    assert (record.kind, list(record.words)) == (Kind.DELIVERED, [10, 0, 3, 5, 10])
    assert not cursor.is_dirty
    cursor.ack(offsets(9, 0, 1), None, CONSUMER)
    [record] = drained(cursor)
    assert (record.kind, list(record.words)) == (Kind.SETTLED, [0, 2, 9, 10])


def test_replaying_records_twice_changes_nothing() -> None:
    cursor = Cursor(1, 0, 0)
    hand_out(cursor, 6)
    cursor.fail(offsets(1), None, CONSUMER, 10, None, LIMITS)
    first = drained(cursor)
    cursor.ack(offsets(0, 3), None, CONSUMER)
    second = drained(cursor)
    assert entries(replayed(first + second)) == entries(replayed(first + second + first + second))


def test_what_comes_back_from_the_records_is_what_was_there() -> None:
    draw = random.Random(3)
    cursor, found = Cursor(1, 0, 0), list[StateRecord]()
    hand_out(cursor, 50)
    for now in range(1, 200):
        mine = [e.offset for e in entries(cursor) if e.state == EntryState.INFLIGHT]
        picked = array("q", sorted(draw.sample(mine, min(len(mine), 3))))
        if draw.random() < 0.3:
            cursor.ack(picked, None, CONSUMER)
        elif draw.random() < 0.6:
            for spent in cursor.fail(picked, None, CONSUMER, now, None, LIMITS):
                cursor.settle(spent, spent + 1)
        else:
            cursor.give_back(CONSUMER, False, LIMITS, now)
            again(cursor, now)
        if draw.random() < 0.2:
            found += drained(cursor, draw.choice([MANY, 200, 100]))
    cursor.give_back(CONSUMER, False, LIMITS, 200)
    found += drained(cursor)
    back, snapshot = replayed(found), replayed(cursor.dump())
    assert entries(back) == entries(cursor) == entries(snapshot)
    assert (back.window.floor, back.window.next) == (cursor.window.floor, cursor.window.next)


def test_a_restart_counts_as_a_return_for_what_was_held_only() -> None:
    cursor = Cursor(1, 0, 0)
    hand_out(cursor, 4)
    cursor.fail(offsets(1), None, CONSUMER, 10, None, LIMITS)
    cursor.give_back(OTHER, True, LIMITS, 10)
    back = replayed(drained(cursor))
    assert [(e.offset, e.returns, e.deliveries) for e in entries(back)] == [(0, 1, 1), (1, 0, 1), (2, 1, 1), (3, 1, 1)]


def test_what_was_parked_and_never_handed_out_counts_as_nothing_after_a_restart() -> None:
    cursor = Cursor(1, 0, 0)
    keys = array("Q", [7, 7, 8])
    assert hand_out(cursor, 1, keys) == 1
    assert hand_out(cursor, 3, keys, OTHER) == 1
    back = replayed(drained(cursor))
    assert [(e.offset, e.returns, e.deliveries) for e in entries(back)] == [(0, 1, 1), (1, 0, 0), (2, 1, 1)]


def test_a_lease_that_was_taken_back_is_no_lease_after_a_restart() -> None:
    cursor = Cursor(1, 0, 0)
    hand_out(cursor, 2, array("Q", [7, 7]), CONSUMER, LEASE)
    cursor.fail(offsets(0), None, CONSUMER, 10, 100_000, LIMITS)
    back = replayed(drained(cursor))
    assert [(e.failures, e.returns) for e in entries(back)] == [(1, 0), (0, 0)]
    assert back.due(LEASE) == array("q")


def test_leases_go_on_after_a_restart() -> None:
    cursor = Cursor(1, 0, 0)
    hand_out(cursor, 2, None, CONSUMER, LEASE)
    back = replayed(drained(cursor))
    assert back.due(LEASE - 1) == array("q")
    assert back.due(LEASE) == offsets(0, 1)


def test_what_came_back_too_often_is_set_aside_when_the_records_are_replayed() -> None:
    cursor = Cursor(1, 0, 0)
    hand_out(cursor, 2)
    for _ in range(2):
        assert not cursor.give_back(CONSUMER, True, LIMITS, 1)
        again(cursor)
    found = drained(cursor)
    back = Cursor(1, 0, 0)
    for record in found:
        back.apply(record)
    assert back.restored(0, LIMITS.max_returns) == offsets(0, 1)
    assert again(back, MANY) == [], "nobody gets them any more"


def test_what_is_on_its_way_to_the_dead_letters_is_nobodys() -> None:
    cursor = Cursor(1, 0, 0)
    hand_out(cursor, 3)
    for now in (0, 5_000):
        cursor.fail(offsets(1), None, CONSUMER, now, 0, LIMITS)
        again(cursor, now)
    assert cursor.fail(offsets(1), None, CONSUMER, 9_000, 0, LIMITS) == offsets(1)
    assert cursor.leaving == {1}
    assert cursor.ack(offsets(1), None, CONSUMER) == 0
    assert cursor.fail(offsets(1), None, -1, 9_000, 0, LIMITS) == array("q")
    assert cursor.held(offsets(1), None, CONSUMER) == array("q")
    assert cursor.extend(offsets(1), None, CONSUMER, 20_000) == 0
    assert (cursor.held_by(CONSUMER), cursor.oldest_in_flight(CONSUMER)) == (2, 0)
    cursor.give_back(CONSUMER, True, LIMITS, 9_000)
    assert again(cursor) == [0, 2]
    cursor.settle(1, 2)
    assert (cursor.leaving, cursor.window.pending) == (set(), 2)


def test_place_begins_anew_and_is_replayed() -> None:
    cursor = Cursor(1, 0, 0)
    hand_out(cursor, 10)
    before = drained(cursor)
    cursor.place(4, 10)
    after = drained(cursor)
    back = replayed(before + after)
    assert (back.window.floor, back.window.next, back.history_end) == (4, 4, 10)


def test_depth_leaves_out_history_and_offsets_without_message() -> None:
    cursor = Cursor(1, 0, 5)
    assert cursor.depth(8, 0) == 3
    hand_out(cursor, 7)
    assert cursor.depth(8, 0) == 3
    cursor.ack(offsets(0, 1, 2, 3, 4, 5), None, CONSUMER)
    assert cursor.depth(8, 0) == 2
    assert cursor.depth(1000, 900) == 94


def test_a_log_that_begins_later_takes_what_was_before_with_it() -> None:
    cursor = Cursor(1, 0, 0)
    hand_out(cursor, 5)
    back = Cursor(1, 0, 0)
    for record in drained(cursor):
        back.apply(record)
    back.restored(3, MANY)
    assert [entry.offset for entry in entries(back)] == [3, 4]


def test_a_settlement_in_somebody_elses_frame_says_only_what_it_needs() -> None:
    for logged, mine, kinds in [(0, [0, 1, 2], [Kind.DELIVERED]), (0, [1], [Kind.DELIVERED, Kind.SETTLED])]:
        cursor = Cursor(1, logged, 0)
        hand_out(cursor, 6)
        cursor.fail(offsets(5), None, CONSUMER, 10, None, LIMITS)
        found = cursor.settlement(array("q", mine))
        assert [decode(record).kind for record in found.records] == kinds
        assert found.next == mine[-1] + 1
        cursor.said(found)
        assert cursor.ack(array("q", mine), None, CONSUMER, is_said=True) == len(mine)
        back = replayed([*map(decode, found.records), *drained(cursor)])
        assert [e.offset for e in entries(back)] == [e.offset for e in entries(cursor)]
        assert (back.window.floor, back.window.next) == (cursor.window.floor, cursor.window.next)


def test_a_settlement_leaves_what_else_was_noted_to_the_next_frame() -> None:
    cursor = Cursor(1, 0, 0)
    hand_out(cursor, 6)
    first = drained(cursor)
    cursor.ack(offsets(0, 2), None, CONSUMER)
    found = cursor.settlement(offsets(4))
    assert [(record.kind, list(record.words)) for record in map(decode, found.records)] == [(Kind.SETTLED, [4, 5])]
    cursor.said(found)
    cursor.ack(offsets(4), None, CONSUMER, is_said=True)
    [rest] = drained(cursor)
    assert list(rest.words) == [0, 1, 2, 3]
    assert [e.offset for e in entries(replayed([*first, *map(decode, found.records), rest]))] == [1, 3, 5]
