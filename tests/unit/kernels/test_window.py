from __future__ import annotations

import tracemalloc
from array import array

import pytest
from tests.support.window_words import (
    BACKOFF_MS,
    EVERYTHING,
    Kernel,
    ack,
    deliver,
    give_back,
    kernels,
    nack,
    states,
    take,
    words,
)

import penstock.kernels
from penstock.core.errors import InvalidArgument
from penstock.kernels.pending import NEVER_MS, EntryState
from penstock.kernels.window import Window


@kernels
def test_what_is_delivered_is_pending_until_it_is_settled(kernel: Kernel) -> None:
    window = kernel.Window(5)
    assert (window.floor, window.next, window.pending, window.next_due) == (5, 5, 0, NEVER_MS)
    assert deliver(window, range(5, 9)) == [5, 6, 7, 8]
    assert (window.floor, window.next, window.pending, window.held_by(1)) == (5, 9, 4, 4)
    assert ack(window, 5, 7) == [5, 7]
    assert (window.floor, window.pending, window.held_by(1)) == (6, 2, 2)
    assert ack(window, 6, 8) == [6, 8]
    assert (window.floor, window.next, window.pending, window.held_by(1)) == (9, 9, 0, 0)


@kernels
def test_offset_0_is_an_ordinary_offset(kernel: Kernel) -> None:
    window = kernel.Window(0)
    assert ack(window, 0) == []
    assert deliver(window, range(1)) == [0]
    assert window.floor == 0
    assert ack(window, 0) == [0]
    assert window.floor == 1


@kernels
@pytest.mark.parametrize("keys", [None, [7, 8, 9, 7, 8]])
def test_delivery_stops_when_the_room_or_the_window_is_full(kernel: Kernel, keys: list[int] | None) -> None:
    window = kernel.Window(0)
    assert deliver(window, range(5), keys, room=2) == [0, 1]
    assert (window.stopped_row, window.next) == (2, 2)
    assert deliver(window, range(5), keys, limit=3) == [2]
    assert (window.stopped_row, window.next) == (3, 3)
    assert deliver(window, range(5), keys, limit=3) == []


@kernels
def test_skipped_rows_are_settled_by_being_passed(kernel: Kernel) -> None:
    window = kernel.Window(0)
    assert deliver(window, range(4), skip=b"\1\0\1\1") == [1]
    assert (window.skipped_last, window.next, window.floor, window.pending) == (3, 4, 1, 1)


@kernels
@pytest.mark.parametrize("keys", [None, [1, 1]])
def test_offsets_that_do_not_rise_are_refused(kernel: Kernel, keys: list[int] | None) -> None:
    window, hashes = kernel.Window(0), array("Q", keys) if keys else None
    with pytest.raises(InvalidArgument):
        window.deliver(array("q", [3, 3]), hashes, None, 0, 2, 1, 9, 0, -1, 9, array("i", bytes(8)))


@kernels
def test_a_buffer_too_short_is_refused_before_anything_changes(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(3))
    with pytest.raises(InvalidArgument):
        window.ack(array("q", range(3)), None, 1, words(2))
    with pytest.raises(InvalidArgument):
        window.nack(array("q", range(3)), array("i", [1]), 1, 0, 0, BACKOFF_MS, 0, words(3), words(3))
    with pytest.raises(InvalidArgument):
        window.give_back(1, True, 9, 0, words(2), words(3))
    assert (window.pending, window.held) == (3, 3)


@kernels
def test_a_settlement_that_is_not_current_is_stale(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(3))
    assert ack(window, 0, consumer=2) == []
    assert ack(window, 0, count=2) == []
    assert ack(window, 9) == []
    marks = bytearray(3)
    assert window.ack(array("q", [0, 0, 2]), None, 1, words(3), marks) == 2
    assert (bytes(marks), window.stale_last) == (b"\0\1\0", 1)


@kernels
def test_whoever_holds_it_is_named_by_the_delivery_count_alone(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(2), consumer=3)
    assert ack(window, 0, 1, consumer=-1, count=1) == [0, 1]


@kernels
def test_a_commit_settles_what_waits_and_what_others_hold(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(2), consumer=1)
    deliver(window, range(2, 6), consumer=2)
    nack(window, 0)
    assert window.settle_below(4) == 4
    assert (states(window), window.next) == ({4: "INFLIGHT", 5: "INFLIGHT"}, 6)
    assert window.settle_below(9) == 2
    assert (window.floor, window.next) == (9, 9)


@kernels
def test_settling_beyond_what_was_handed_out_loses_nothing_before_it(kernel: Kernel) -> None:
    window = kernel.Window(2)
    window.settle_range(4, 6)
    assert (window.floor, window.next) == (2, 6)
    assert take(window) == [(2, 1), (3, 1)]


# Failure


@kernels
def test_a_failure_waits_for_its_backoff_and_then_any_consumer_may_get_it(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(1))
    nack(window, 0, now=1000)
    assert (window.next_due, window.waiting, take(window)) == (1010, 1, [])
    window.expire(1009, words(0))
    assert window.ready == 0
    window.expire(1010, words(0))
    assert take(window, consumer=2) == [(0, 2)]
    assert ack(window, 0, count=1) == []
    nack(window, 0, consumer=2, now=2000)
    assert window.next_due == 2020
    entry = window.entry(0)
    assert entry is not None
    assert (entry.failures, entry.deliveries, entry.first) == (2, 2, 1000)


@kernels
def test_a_delay_of_0_retries_at_once(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(1))
    nack(window, 0, delay=0)
    assert take(window) == [(0, 2)]


@kernels
def test_one_failure_more_than_backoffs_is_the_last(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(1))
    for _ in BACKOFF_MS:
        assert nack(window, 0, delay=0) == []
        take(window)
    assert nack(window, 0) == [0]
    assert (window.held, window.stale_last) == (1, 0)
    assert window.settle_range(0, 1) == 1
    assert (window.pending, window.held_by(1)) == (0, 0)


@kernels
def test_a_failure_that_is_named_twice_is_one(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(2), now=1000)
    assert nack(window, 1, 0, 1, 0, now=2000, age=500) == [1, 0]
    assert window.stale_last == 2
    with pytest.raises(InvalidArgument):
        window.give_back_some(array("q", [0, 0]), 1, False, 9, 0, words(2), words(2))
    assert window.held == 2


@kernels
def test_what_came_first_too_long_ago_fails_for_good(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(2), now=1000)
    assert nack(window, 0, now=1499, age=500) == []
    assert nack(window, 1, now=1500, age=500) == [1]


@kernels
def test_leases_run_out_each_at_its_own_time_and_can_be_extended(kernel: Kernel) -> None:
    window, out = kernel.Window(0), words(2)
    deliver(window, range(1), deadline=50)
    deliver(window, range(1, 2), deadline=80)
    assert (window.expire(49, out), window.expire(50, out), out[0], window.held) == (0, 1, 0, 2)
    assert window.extend(array("q", [0]), array("i", [1]), 1, 100) == 1
    assert window.extend(array("q", [0]), array("i", [2]), 1, 900) == 0
    assert (window.expire(99, out), out[0]) == (1, 1)


@kernels
def test_returns_are_counted_apart_from_failures(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(2))
    for _ in range(2):
        assert give_back(window) == ([0, 1], [])
        take(window)
    assert give_back(window, counted=False) == ([0, 1], [])
    take(window)
    assert give_back(window) == ([], [0, 1])
    entry = window.entry(0)
    assert entry is not None
    assert (entry.returns, entry.failures, entry.state) == (3, 0, EntryState.INFLIGHT)


@kernels
def test_leases_outlive_a_connection_unless_asked(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(1))
    deliver(window, range(1, 2), deadline=5000)
    assert give_back(window) == ([0], [])
    assert give_back(window, leases=True) == ([1], [])


# Order


@kernels
def test_a_key_in_flight_is_given_to_no_other_consumer(kernel: Kernel) -> None:
    window = kernel.Window(0)
    assert deliver(window, range(2), [7, 8], consumer=1) == [0, 1]
    assert deliver(window, range(2, 4), [7, 9], consumer=2) == [3]
    assert take(window, consumer=2) == []
    ack(window, 0)
    assert take(window, consumer=2) == [(2, 1)]


@kernels
def test_later_ones_of_a_failed_key_are_taken_back_and_come_after_it(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(5), [7, 8, 7, 7, 0])
    ack(window, 2)
    nack(window, 0, now=1000)
    assert states(window) == {0: "BACKOFF", 1: "INFLIGHT", 3: "PARKED", 4: "INFLIGHT"}
    assert ack(window, 3) == []
    assert deliver(window, range(5, 6), [7]) == []
    window.expire(1010, words(0))
    assert take(window) == [(0, 2), (3, 2), (5, 1)]
    entry = window.entry(3)
    assert entry is not None
    assert (entry.failures, entry.returns) == (0, 0)


@kernels
def test_a_backoff_cut_short_by_an_earlier_failure_goes_on_after_it(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(2), [7, 7])
    nack(window, 1, now=1000, delay=500)
    nack(window, 0, now=1000, delay=0)
    assert states(window) == {0: "READY", 1: "PARKED"}
    take(window)
    assert states(window) == {0: "INFLIGHT", 1: "BACKOFF"}
    window.expire(1100, words(0))
    ack(window, 0)
    assert (states(window), window.next_due) == ({1: "BACKOFF"}, 1500)


@kernels
def test_a_backoff_that_ended_while_it_was_parked_is_found_due(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(2), [7, 7])
    nack(window, 1, now=1000, delay=500)
    nack(window, 0, now=1000, delay=0)
    window.expire(1600, words(0))
    assert window.next_due == NEVER_MS
    take(window)
    assert window.next_due <= 1600
    window.expire(1600, words(0))
    assert take(window) == [(1, 2)]


@kernels
def test_a_settled_end_of_a_key_does_not_hide_what_comes_after_it(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(3), [7, 7, 7])
    nack(window, 0, delay=0)
    window.settle_range(2, 3)
    window.settle_range(1, 2)
    assert take(window) == [(0, 2)]
    assert deliver(window, range(3, 5), [7, 7]) == [3, 4]
    nack(window, 0, delay=0)
    assert states(window) == {0: "READY", 3: "PARKED", 4: "PARKED"}


@kernels
def test_a_key_that_goes_back_and_forth_leaves_no_trace(kernel: Kernel) -> None:
    """What was ready and is parked again stays in the heap until that is sifted."""
    window = kernel.Window(0)
    deliver(window, range(60), [7] * 30 + [8] * 30)
    for _ in range(200):
        give_back(window, counted=False)
        assert [offset for offset, _ in take(window, room=2)] == [0, 1]
    give_back(window, counted=False)
    assert [offset for offset, _ in take(window)] == list(range(60))


@kernels
def test_a_key_is_claimed_whole_or_not_at_all(kernel: Kernel) -> None:
    window, out = kernel.Window(0), words(3)
    deliver(window, range(3), [7, 7, 0], consumer=1, now=1000)
    assert window.claim(array("q", [0, 2]), 1, 2, 4000, -1, out) == 1
    assert (out[0], window.held_by(1), window.held_by(2)) == (2, 2, 1)
    assert window.claim(array("q", [0, 1]), 1, 2, 4000, 9000, out) == 2
    entry = window.entry(1)
    assert entry is not None
    assert (entry.consumer, entry.deliveries, entry.time, entry.state) == (2, 2, 9000, EntryState.LEASED)
    assert ack(window, 1, consumer=1) == []
    assert deliver(window, range(3, 4), [7], consumer=1) == []


# Memory and looking


@kernels
def test_what_is_in_flight_for_long_is_found_but_for_one_consumers(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(3), consumer=1, now=10)
    deliver(window, range(3, 5), consumer=8, now=20)
    assert list(window.in_flight_since(9)) == []
    assert list(window.in_flight_since(20)) == [0, 1, 2, 3, 4]
    assert list(window.in_flight_since(20, 8)) == [0, 1, 2]
    assert list(window.in_flight_since(10, -1, 2)) == [0, 1]


@kernels
def test_a_straggler_costs_one_entry_however_many_pass(kernel: Kernel) -> None:
    window = kernel.Window(0)
    total, step = (1_000_000, 500) if penstock.kernels.compiled() and kernel.Window is Window else (20_000, 100)
    deliver(window, range(1))
    for first in range(1, total, step):
        deliver(window, range(first, first + step))
        ack(window, *range(first, first + step))
    assert (window.floor, window.pending) == (0, 1)
    assert window.count <= 2 + window.slack
    assert window.capacity <= 2048


@pytest.mark.skipif(not penstock.kernels.compiled(), reason="a million entries take a while uncompiled")
def test_a_million_pending_stay_below_48_mib() -> None:
    window, out, column = Window(0), array("i", bytes(4 * 10_000)), array("q", bytes(8 * 10_000))
    tracemalloc.start()
    try:
        for first in range(0, 1_000_000, 10_000):
            column[:] = array("q", range(first, first + 10_000))
            window.deliver(column, None, None, 0, 10_000, 1, 10_000, 1000, -1, EVERYTHING, out)
        allocated = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert window.pending == 1_000_000
    assert allocated < 48 << 20
    window.settle_below(999_999)
    assert (window.count, window.capacity < 2048) == (1, True)


@kernels
def test_the_memory_of_a_crowd_with_keys_is_given_back(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(5000), [1 + offset % 300 for offset in range(5000)])
    nack(window, 0, delay=0)
    window.settle_below(5000)
    assert (window.pending, window.capacity) == (0, 1024)
    assert deliver(window, range(5000, 5002), [4, 4]) == [5000, 5001]
    nack(window, 5000)
    assert states(window) == {5000: "BACKOFF", 5001: "PARKED"}


@kernels
def test_ranges_are_runs_of_offsets_that_are_not_settled(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(10))
    deliver(window, range(12, 14))
    ack(window, 0, 4, 5)
    assert list(window.ranges(0, 99)) == [1, 4, 6, 10, 12, 14]
    assert list(window.ranges(2, 13)) == [2, 4, 6, 10, 12, 13]
    assert [window.pending_from(offset) for offset in (0, 3, 8, 13, 99)] == [9, 7, 4, 1, 0]


@kernels
def test_the_oldest_in_flight_of_a_consumer_is_found(kernel: Kernel) -> None:
    window = kernel.Window(0)
    assert (window.oldest_held(1), window.oldest_time(1)) == (-1, -1)
    deliver(window, range(1), consumer=1, now=300)
    deliver(window, range(1, 2), consumer=2, now=200)
    deliver(window, range(2, 3), consumer=2, now=250)
    assert (window.oldest_held(2), window.oldest_time(2)) == (1, 200)


@kernels
def test_a_restored_window_goes_on_where_it_was(kernel: Kernel) -> None:
    window = kernel.Window(0)
    window.restore_range(0, 3)
    window.restore_range(5, 6)
    window.pass_to(8)
    assert window.restore(1, EntryState.BACKOFF, 900, 4, 3, 2, 100)
    assert window.restore(2, EntryState.LEASED, 950, 2, 0, 0, 200, 6)
    assert not window.restore(3, EntryState.READY, 0, 1, 0, 0, 0)
    window.settle_range(5, 6)
    window.rebuild()
    assert states(window) == {0: "READY", 1: "BACKOFF", 2: "LEASED"}
    assert (window.next, window.next_due, window.held_by(6)) == (8, 900, 1)
    assert window.entry(1) == (1, 0, EntryState.BACKOFF, -1, 900, 4, 3, 2, 100)
    assert take(window) == [(0, 2)]


@kernels
def test_keys_read_after_a_restart_put_entries_in_order(kernel: Kernel) -> None:
    window = kernel.Window(0)
    window.restore_range(0, 4)
    window.set_keys(array("q", [0, 1, 2, 3]), array("Q", [7, 0, 7, 8]))
    window.rebuild()
    assert states(window) == {0: "READY", 1: "READY", 2: "PARKED", 3: "READY"}
    assert take(window, consumer=1, room=1) == [(0, 2)]
    assert take(window, consumer=2) == [(1, 2), (3, 2)]


@kernels
def test_a_dump_restores_the_same_entries(kernel: Kernel) -> None:
    window, again = kernel.Window(0), kernel.Window(0)
    deliver(window, range(6), deadline=700)
    ack(window, 2)
    nack(window, 4)
    for offset, state, time, deliveries, failures, returns, first in zip(*window.dump(), strict=True):
        again.restore(offset, state, time, deliveries, failures, returns, first, consumer=1)
    again.pass_to(window.next)
    again.rebuild()
    assert [again.entry(o) for o in again.offsets()] == [window.entry(o) for o in window.offsets()]
    assert [len(column) for column in kernel.Window(3).dump()] == [0] * 7


@kernels
def test_an_entry_in_flight_cannot_be_restored(kernel: Kernel) -> None:
    with pytest.raises(InvalidArgument):
        kernel.Window(0).restore(0, EntryState.INFLIGHT, 0, 1, 0, 0, 0)


@kernels
def test_an_empty_window_that_rests_has_no_memory(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(300), [1 + offset % 7 for offset in range(300)])
    window.give_memory_back()
    assert window.pending == 300, "not while something is pending"
    window.settle_below(300)
    window.give_memory_back()
    assert window.capacity == 0
    assert deliver(window, range(300, 303), [4, 0, 4]) == [300, 301, 302]
    ack(window, 300, 301, 302)
    assert (window.pending, window.floor) == (0, 303)


@kernels
def test_many_consumers_give_back_what_they_hold_in_one_pass(kernel: Kernel) -> None:
    window = kernel.Window(0)
    for offset in range(8):
        deliver(window, range(offset, offset + 1), consumer=1 + offset % 4)
    returned, spent = words(6), words(6)
    assert window.give_back_many(array("i", [1, 2, 4]), {4}, False, 9, 1000, returned, spent) == 5
    assert (list(returned[:5]), window.held_by(1), window.held_by(3)) == ([0, 1, 3, 5, 7], 1, 2)
    assert [offset for offset, _ in take(window, consumer=9)] == [0, 1, 3, 5, 7]


@kernels
@pytest.mark.parametrize("numbers", [[2, 1], [1, 1]])
def test_numbers_of_consumers_that_do_not_rise_are_refused(kernel: Kernel, numbers: list[int]) -> None:
    window = kernel.Window(0)
    deliver(window, range(2))
    with pytest.raises(InvalidArgument):
        window.give_back_many(array("i", numbers), set(), False, 9, 0, words(9), words(9))
    with pytest.raises(InvalidArgument):
        window.give_back_many(array("i", [1]), set(), False, 9, 0, words(1), words(2))
    assert window.held_by(1) == 2


@kernels
def test_what_nobody_holds_is_settled_at_once(kernel: Kernel) -> None:
    window = kernel.Window(0)
    deliver(window, range(6), [0, 7, 7, 0, 0, 7])
    nack(window, 3, delay=500)
    give_back(window, consumer=1)
    assert take(window, consumer=2, room=2) == [(0, 2), (1, 2)]
    with pytest.raises(InvalidArgument):
        window.settle_unheld(words(2))
    out = words(9)
    assert list(out[: window.settle_unheld(out)]) == [2, 4, 5]
    assert (list(window.offsets()), window.ready, window.parked, window.waiting) == ([0, 1, 3], 0, 0, 1)
