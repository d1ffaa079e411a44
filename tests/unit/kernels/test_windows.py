"""Steps in many windows at once, against the same steps one by one."""

from __future__ import annotations

import random
from array import array
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.support.kernels import builds

from penstock.core.descriptions import Tally
from penstock.kernels.entry import FrameEntry
from penstock.kernels.places import Partition, Place
from penstock.kernels.staged import Span, StagedLog
from penstock.kernels.window import Window
from penstock.log.batch import encode, seal
from penstock.log.columns import Columns
from penstock.log.journal.frames import Entry

KERNELS = pytest.mark.parametrize("kernel", builds("windows"))
NOW, NO_LIMIT, GROUP, TIMEOUT_MS = 1_000_000, 1 << 31, 7, 30_000


def stored(first: int, count: int, keys: list[bytes] | None = None, time: int = NOW) -> Entry:
    batch = encode(Columns.of([b"value"] * count, keys=keys))
    seal(batch, first, 0, time)
    return Entry(1, batch, None, first, first + count, count, time, time)


class Lot(Partition):
    """A partition whose batches are all in memory."""

    def __init__(self, number: int) -> None:
        super().__init__(number, StagedLog(number, Span(0, 0, 0)), StagedLog(100 + number, Span(0, 0, 0)))
        self.cursors[GROUP] = Place(GROUP, Window(0), Tally())

    def add(self, count: int, keys: list[bytes] | None = None, time: int = NOW) -> None:
        batch = stored(self.data.bounds.end, count, keys, time)
        self.data.tail.append(batch)
        self.data.bounds.end = self.data.high_watermark = batch.end

    def batches_from(self, offset: int) -> list[FrameEntry]:
        return [batch for batch in self.data.tail if batch.end > offset]


def member_of(kernel: ModuleType, lots: list[Lot], number: int = 1) -> Any:
    member = kernel.Member(number)
    for lot in lots:
        member.holds[lot.partition] = kernel.Share(lot.partition)
        member.ready[lot.partition] = None
    return member


def handed_out(kernel: ModuleType, member: Any, lots: list[Lot], room: int, **bounds: int) -> Any:
    found = kernel.Handed()
    units = {lot.partition: lot for lot in lots}
    limits = bounds.get("limit", NO_LIMIT), bounds.get("most", 99), bounds.get("too_old", -1)
    given = kernel.hand_out(member, units, GROUP, True, NOW, room, *limits, TIMEOUT_MS, found)
    assert given == found.messages == sum(found.counts) == sum(found.amounts)
    return found


def counts_of(found: Any, lots: list[Lot]) -> list[int]:
    return [sum(c for unit, c in zip(found.units, found.counts, strict=True) if unit is lot) for lot in lots]


def seen(lots: list[Lot]) -> list[tuple[object, ...]]:
    places = [lot.cursors[GROUP] for lot in lots]
    windows = [
        (w.next, w.floor, w.pending, w.held, w.held_by(1), w.held_by(2), w.next_due, w.ready, w.parked)
        for w in (place.window for place in places)
    ]
    return [(*window, place.tally) for window, place in zip(windows, places, strict=True)]


@KERNELS
@pytest.mark.parametrize("seed", range(25))
def test_many_windows_in_one_call_are_left_as_one_by_one(kernel: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    quick, slow = [Lot(i) for i in range(5)], [Lot(i) for i in range(5)]
    group = SimpleNamespace(number=GROUP, silent=0, switches=[], consumers={})
    sent: list[tuple[int, int, int, int]] = []
    for _ in range(40):
        for i in range(5):
            if rng.random() < 0.6:
                keys = [rng.choice([b"", b"a", b"b", b"c"]) for _ in range(2)] if rng.random() < 0.8 else None
                for lot in (quick[i], slow[i]):
                    lot.add(2, keys)
        number, room = rng.choice([1, 1, 2]), rng.randrange(12)
        handed = handed_out(kernel, member_of(kernel, quick, number), quick, room)
        expected = []
        for lot in slow:
            window = lot.cursors[GROUP].window
            for batch in lot.batches_from(window.next):
                given = window.deliver_whole(batch.data, True, number, NOW, room)
                if not given:
                    break
                room -= given
                lot.cursors[GROUP].tally.delivered += given
                expected.append((lot.partition, batch.first, given))
                sent.append((lot.partition, batch.first, given, number))
        assert [
            (u.partition, b.first, c) for u, b, c in zip(handed.units, handed.batches, handed.counts, strict=True)
        ] == expected
        settle(kernel, rng, group, quick, slow, sent)
        assert seen(quick) == seen(slow)


def settle(
    kernel: ModuleType,
    rng: random.Random,
    group: SimpleNamespace,
    quick: list[Lot],
    slow: list[Lot],
    sent: list[tuple[int, int, int, int]],
) -> None:
    """Runs of some deliveries, of which some came before."""
    deliveries, firsts, stops = [], array("i"), array("i")
    for partition, first, count, number in rng.choices(sent, k=rng.randrange(4)) if sent else ():
        batch = SimpleNamespace(first=first, end=first + count)
        rows = array("i", range(count))
        deliveries.append(
            SimpleNamespace(
                group=group, unit=quick[partition], consumer=number, stored=batch, rows=rows, deliveries=None
            )
        )
        firsts.append(rng.randrange(count))
        stops.append(rng.randrange(firsts[-1], count) + 1)
    units: dict[Any, None] = {}
    rest: list[int] = []
    after: list[int] = []
    done = kernel.ack_runs(deliveries, firsts, stops, NOW, units, {}, after, rest)
    expected, touched = 0, set()
    for i, delivery in enumerate(deliveries):
        first, lot = delivery.stored.first, slow[delivery.unit.partition]
        if not lot.cursors[GROUP].window.ack_whole(first + firsts[i], first + stops[i], delivery.consumer):
            assert i in rest
            continue
        assert i not in rest
        expected += stops[i] - firsts[i]
        lot.cursors[GROUP].note_acked(first + firsts[i], first + stops[i])
        touched.add(delivery.unit)
        window = lot.cursors[GROUP].window
        assert window.ready == 0 or i in after
    assert (done, set(units)) == (expected, touched)


@KERNELS
def test_room_is_for_all_and_what_does_not_fit_is_passed_over(kernel: ModuleType) -> None:
    lots = [Lot(i) for i in range(4)]
    for lot, count in zip(lots, (2, 3, 1, 1), strict=True):
        lot.add(count)
    member = member_of(kernel, lots)
    assert counts_of(handed_out(kernel, member, lots, 4), lots) == [2, 0, 1, 1]
    assert list(member.ready) == [1]
    assert member.held == 4
    assert counts_of(handed_out(kernel, member, lots, 3), lots) == [0, 3, 0, 0]
    assert not member.ready


@KERNELS
def test_the_limits_of_a_window_and_of_a_batch_hold(kernel: ModuleType) -> None:
    for bounds, given in (({"limit": 3}, 2), ({"most": 1}, 0), ({"too_old": NOW}, 0), ({"too_old": NOW - 1}, 4)):
        lot = Lot(0)
        lot.add(2)
        lot.add(2)
        member = member_of(kernel, [lot])
        assert handed_out(kernel, member, [lot], 99, **bounds).messages == given
        assert list(member.ready) == ([] if given == 4 else [0])


@KERNELS
def test_what_is_not_committed_or_is_to_be_given_up_is_not_handed_out(kernel: ModuleType) -> None:
    lots = [Lot(i) for i in range(3)]
    for lot in lots:
        lot.add(1)
        lot.add(1)
    lots[0].data.high_watermark = 1
    del lots[2].cursors[GROUP]
    member = member_of(kernel, lots)
    member.holds[1].is_revoked = True
    assert counts_of(handed_out(kernel, member, lots, 99), lots) == [1, 0, 0]
    assert list(member.ready) == [1, 2]


@KERNELS
def test_clocks_begin_with_what_comes_first_and_times_are_told_in_runs(kernel: ModuleType) -> None:
    lots = [Lot(i) for i in range(3)]
    for lot, time in zip(lots, (5, 5, 6), strict=True):
        lot.add(2, time=time)
    member = member_of(kernel, lots)
    member.holds[1].held, member.holds[1].clock_ms, member.holds[1].alarm_ms = 3, 1, TIMEOUT_MS
    found = handed_out(kernel, member, lots, 99)
    assert (found.times, found.amounts) == ([5, 6], [4, 2])
    assert found.unwatched == [member.holds[0], member.holds[2]]
    assert [(hold.held, hold.clock_ms) for hold in member.holds.values()] == [(2, NOW), (5, 1), (2, NOW)]


@KERNELS
def test_who_settles_is_told_what_follows(kernel: ModuleType) -> None:
    lot = Lot(0)
    lot.add(2)
    member = member_of(kernel, [lot])
    [found] = handed_out(kernel, member, [lot], 9).batches
    group = SimpleNamespace(number=GROUP, silent=0, switches=[], consumers={1: member})
    rows = array("i", [0, 1])
    delivery = SimpleNamespace(group=group, unit=lot, consumer=1, stored=found, rows=rows, deliveries=None)

    def acked(first: int, stop: int) -> tuple[int, list[Any], list[int], list[int]]:
        units: dict[Any, None] = {}
        woken: dict[Any, None] = {}
        after: list[int] = []
        rest: list[int] = []
        firsts, stops = array("i", [first]), array("i", [stop])
        done = kernel.ack_runs([delivery], firsts, stops, NOW + 5, units, woken, after, rest)
        assert list(units) == ([lot] if done else [])
        return done, list(woken), after, rest

    assert acked(0, 1) == (1, [], [], [])
    assert (member.held, member.holds[0].clock_ms) == (1, NOW + 5)
    group.silent = 1
    assert acked(1, 2) == (0, [], [], [0])
    group.silent = 0
    member.ready[3], member.holds[0].is_revoked = None, True
    assert acked(1, 2) == (1, [member], [0], [])
    assert acked(1, 2) == (0, [], [], [0])


@KERNELS
@pytest.mark.parametrize("seed", range(25))
def test_parts_for_those_who_share_partitions_are_what_comes_next(kernel: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    lots = [Lot(i) for i in range(3)]
    units = {lot.partition: lot for lot in lots}
    ready: dict[int, None] = {}
    members = [member_of(kernel, lots, number) for number in (1, 2)]
    for member in members:
        member.ready = ready
    given: dict[int, list[int]] = {lot.partition: [] for lot in lots}
    for _ in range(30):
        lot = rng.choice(lots)
        lot.add(rng.randrange(1, 9))
        ready[lot.partition] = None
        there = sum(each.data.high_watermark - each.cursors[GROUP].window.next for each in lots)
        assert kernel.ready_in(ready, units, GROUP, NO_LIMIT) == there
        member, room, found = rng.choice(members), rng.randrange(1, 12), kernel.Handed()
        before = sum(share.held for share in member.holds.values())
        count = kernel.hand_out_parts(member, units, GROUP, True, NOW, room, NO_LIMIT, -1, found)
        assert count == min(room, there) == found.messages == sum(found.counts)
        assert member.held == before + count
        for unit, batch, row, messages in zip(found.units, found.batches, found.rows, found.counts, strict=True):
            given[unit.partition] += range(batch.first + row, batch.first + row + messages)
        assert set(ready) == {
            each.partition for each in lots if each.cursors[GROUP].window.next != each.data.high_watermark
        }
    for lot in lots:
        window = lot.cursors[GROUP].window
        assert given[lot.partition] == list(range(window.next))
        assert [window.held_by(m.number) for m in members] == [m.holds[lot.partition].held for m in members]


@KERNELS
def test_no_more_is_ready_than_the_window_takes(kernel: ModuleType) -> None:
    lot = Lot(0)
    lot.add(9)
    ready = {0: None, 5: None}
    assert kernel.ready_in(ready, {0: lot}, GROUP, 4) == 4
    assert ready == {0: None}, "a partition that is not there is struck off"
    member, found = member_of(kernel, [lot]), kernel.Handed()
    assert kernel.hand_out_parts(member, {0: lot}, GROUP, False, NOW, 99, 4, -1, found) == 4
    assert kernel.ready_in(ready, {0: lot}, GROUP, 4) == 0
    assert ready == {0: None}, "there is more, when something is settled"


@KERNELS
def test_runs_in_parts_of_batches_are_settled_in_one_call(kernel: ModuleType) -> None:
    lot = Lot(0)
    lot.add(10)
    members = [member_of(kernel, [lot], number) for number in (1, 2)]
    group = SimpleNamespace(number=GROUP, silent=0, switches=[], consumers={m.number: m for m in members})
    deliveries = []
    for member, room in zip(members, (4, 6), strict=True):
        found = kernel.Handed()
        kernel.hand_out_parts(member, {0: lot}, GROUP, False, NOW, room, NO_LIMIT, -1, found)
        [batch], [row], [count] = found.batches, found.rows, found.counts
        stored = SimpleNamespace(first=batch.first, end=batch.end, is_dense=True)
        rows = array("i", range(row, row + count))
        deliveries.append(
            SimpleNamespace(group=group, unit=lot, consumer=member.number, stored=stored, rows=rows, deliveries=None)
        )
    members[0].ready.clear()
    members[1].is_full = True
    woken: dict[Any, None] = {}
    rest: list[int] = []
    firsts, stops = array("i", [1, 0]), array("i", [3, 5])
    assert kernel.ack_runs(deliveries, firsts, stops, NOW, {}, woken, [], rest) == 7
    assert list(lot.cursors[GROUP].window.offsets()) == [0, 3, 9]
    assert [m.held for m in members] == [2, 1]
    assert (list(woken), rest) == ([members[1]], [])
    deliveries[0].rows = array("i", [0, 3])
    assert kernel.ack_runs(deliveries[:1], array("i", [0]), array("i", [2]), NOW, {}, woken, [], rest) == 0
    assert rest == [0], "rows that do not follow each other are looked at one by one"
