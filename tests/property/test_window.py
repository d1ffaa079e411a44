"""A window against a model of messages as objects, through walks of everything that can happen to one."""

from __future__ import annotations

import random
from array import array
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds
from tests.support.window_model import BACKOFF, HELD, INFLIGHT, LEASED, PARKED, READY, ModelWindow

CONSUMERS = range(4)
BACKOFFS = [0, 5, 40]


class Walk:
    """Every step does the same to both and compares all that can be seen."""

    def __init__(self, kernel: ModuleType, seed: int) -> None:
        self.random = random.Random(seed)
        start = self.random.randrange(3)
        self.window, self.model = kernel.Window(start), ModelWindow(start)
        self.window.slack = self.random.choice([0, 1, 7, 64])
        self.keys = self.random.choice([[0], [0, 1, 2, 3], [7], [0, 2**64 - 1, 2**63, 1 << 32], list(range(200))])
        self.now = self.random.randrange(50)
        self.settled: set[int] = set()

    def step(self) -> None:
        names = ["deliver"] * 4 + ["take"] * 4 + ["ack"] * 4 + ["nack"] * 2
        names += ["give_back", "give_back_some", "settle_range", "settle_below", "extend", "claim"]
        names += ["expire", "expire", "restart", "pass_to", "settle", "give_back_many", "settle_unheld"]
        self.now += self.random.choice([0, 0, 1, 3, 30])
        before = set(self.model.messages)
        getattr(self, self.random.choice(names))()
        self.settled |= before - set(self.model.messages)
        self.compare()

    def compare(self) -> None:
        window, model = self.window, self.model
        found = [tuple(window.entry(offset)) for offset in window.offsets()]
        assert found == [model.messages[offset].facts() for offset in sorted(model.messages)]
        assert (window.floor, window.next, window.pending) == (model.floor, model.next, len(model.messages))
        counts = window.held, window.leased, window.waiting, window.ready, window.parked
        states = HELD, [LEASED], [BACKOFF], [READY], [PARKED]
        assert counts == tuple(len(model.in_order(which)) for which in states)
        for consumer in CONSUMERS:
            held = [m for m in model.in_order(HELD) if m.consumer == consumer]
            assert window.held_by(consumer) == len(held)
        assert window.next_due <= min((m.time for m in model.in_order([BACKOFF, LEASED])), default=window.next_due)
        self.check_order()

    def check_order(self) -> None:
        for key in {m.key for m in self.model.messages.values()} - {0}:
            entries = [self.window.entry(m.offset) for m in self.model.of_key(key)]
            held = [e for e in entries if e.state in HELD]
            waiting = [e for e in entries if e.state not in HELD]
            assert len({e.consumer for e in held}) <= 1
            assert entries == held + waiting
            assert all(e.state == PARKED for e in waiting[1:])
            assert not waiting or waiting[0].state != PARKED or held

    # Steps

    def consumer(self) -> int:
        return self.random.choice(CONSUMERS)

    def deadline(self) -> int:
        return self.random.choice([-1, -1, self.now, self.now + 20])

    def named(self) -> list[tuple[int, int]]:
        """Offsets and delivery counts, current ones and others."""
        near = range(max(self.model.floor - 3, 0), self.model.next + 3)
        wanted = self.random.sample(near, min(len(near), self.random.randrange(12)))
        if self.random.random() < 0.1:
            wanted += wanted
        if self.random.random() < 0.8:
            wanted.sort()
        counts = {offset: m.deliveries for offset, m in self.model.messages.items()}
        return [(o, counts.get(o, 1) if self.random.random() < 0.9 else 1) for o in wanted]

    def offset_and_count(
        self, named: list[tuple[int, int]]
    ) -> tuple[array[int], array[int] | None, list[tuple[int, int]]]:
        offsets = array("q", [offset for offset, _ in named])
        if self.random.random() < 0.3:
            return offsets, None, [(offset, -1) for offset, _ in named]
        return offsets, array("i", [count for _, count in named]), named

    def deliver(self) -> None:
        rng, count = self.random, self.random.choice([1, 5, 30])
        first = max(self.model.next + rng.choice([0, 0, 0, -2, 4]), 0)
        steps = [rng.choice([1, 1, 1, 3]) for _ in range(count)]
        offsets = array("q", [first + sum(steps[:i]) for i in range(count)])
        keys = array("Q", [rng.choice(self.keys) for _ in range(count)]) if rng.random() < 0.8 else None
        skip = bytearray(rng.random() < 0.2 for _ in range(count)) if rng.random() < 0.3 else None
        consumer, room, deadline, limit = (
            self.consumer(),
            rng.choice([0, 2, 50]),
            self.deadline(),
            rng.choice([20, 200]),
        )
        rows = [(o, keys[i] if keys else 0, bool(skip[i]) if skip else False) for i, o in enumerate(offsets)]
        out, now = array("i", bytes(4 * 50)), self.now
        given = self.window.deliver(offsets, keys, skip, 0, count, consumer, room, now, deadline, limit, out)
        assert list(out[:given]) == self.model.deliver(rows, consumer, room, now, deadline, limit)
        assert all(offset < self.model.next for offset in offsets[: self.window.stopped_row])
        assert all(offset >= self.model.next for offset in offsets[self.window.stopped_row :])
        assert not self.settled & {offsets[row] for row in out[:given]}

    def take(self) -> None:
        consumer, room, deadline = self.consumer(), self.random.choice([0, 1, 3, 50]), self.deadline()
        below = self.random.choice([self.model.next, self.model.floor + 5])
        offsets, counts = array("q", bytes(8 * 50)), array("i", bytes(4 * 50))
        given = self.window.take(consumer, room, self.now, deadline, below, offsets, counts)
        found = list(zip(offsets[:given], counts, strict=False))
        assert found == self.model.take(consumer, room, self.now, deadline, below)
        assert not self.settled & set(offsets[:given])

    def ack(self) -> None:
        offsets, counts, named = self.offset_and_count(self.named())
        consumer, out, stale = (
            self.random.choice([-1, *CONSUMERS]),
            array("q", bytes(8 * len(named))),
            bytearray(len(named)),
        )
        done = self.window.ack(offsets, counts, consumer, out, stale)
        assert list(out[:done]) == self.model.ack(named, consumer)
        assert [o for o, is_stale in zip(offsets, stale, strict=True) if not is_stale] == list(out[:done])
        assert self.window.stale_last == len(named) - done

    def nack(self) -> None:
        offsets, counts, named = self.offset_and_count(self.named())
        consumer, delay = self.random.choice([-1, *CONSUMERS]), self.random.choice([-1, -1, 0, 12])
        max_age = self.random.choice([0, 0, 60])
        failed, exhausted = array("q", bytes(8 * len(named))), array("q", bytes(8 * len(named)))
        backoffs = array("q", BACKOFFS)
        count = self.window.nack(offsets, counts, consumer, self.now, delay, backoffs, max_age, failed, exhausted)
        expected = self.model.nack(named, consumer, self.now, delay, BACKOFFS, max_age)
        assert (list(failed[:count]), list(exhausted[: self.window.exhausted_last])) == expected
        self.settle_exhausted(expected[1])

    def settle_exhausted(self, offsets: list[int]) -> None:
        for offset in offsets if self.random.random() < 0.7 else []:
            assert self.window.settle_range(offset, offset + 1) == self.model.settle_range(offset, offset + 1)

    def give_back(self) -> None:
        consumer, counted, leases = self.consumer(), self.random.random() < 0.5, self.random.random() < 0.5
        mine = [m.offset for m in self.model.in_order(HELD if leases else [INFLIGHT]) if m.consumer == consumer]
        room = self.window.held_by(consumer)
        returned, exhausted = array("q", bytes(8 * room)), array("q", bytes(8 * room))
        count = self.window.give_back(consumer, counted, 2, self.now, returned, exhausted, leases)
        expected = self.model.give_back(mine, consumer, counted, 2)
        assert (list(returned[:count]), list(exhausted[: self.window.exhausted_last])) == expected
        self.settle_exhausted(expected[1])

    def give_back_many(self) -> None:
        consumers = sorted(self.random.sample(CONSUMERS, self.random.randrange(len(CONSUMERS) + 1)))
        counted, spared = self.random.random() < 0.5, {offset for offset, _ in self.named()[:2]}
        mine = [m for m in self.model.in_order([INFLIGHT]) if m.consumer in consumers and m.offset not in spared]
        room = sum(self.window.held_by(consumer) for consumer in consumers)
        returned, exhausted = array("q", bytes(8 * room)), array("q", bytes(8 * room))
        numbers = array("i", consumers)
        count = self.window.give_back_many(numbers, spared, counted, 2, self.now, returned, exhausted)
        expected = self.model.give_back([m.offset for m in mine], -1, counted, 2)
        assert (list(returned[:count]), list(exhausted[: self.window.exhausted_last])) == expected
        self.settle_exhausted(expected[1])

    def settle_unheld(self) -> None:
        if self.random.random() < 0.8:
            return
        out = array("q", bytes(8 * (self.window.ready + self.window.parked)))
        unheld = [m.offset for m in self.model.in_order([READY, PARKED])]
        assert list(out[: self.window.settle_unheld(out)]) == unheld
        for offset in unheld:
            self.model.settle_range(offset, offset + 1)

    def give_back_some(self) -> None:
        consumer, counted = self.consumer(), self.random.random() < 0.5
        wanted = sorted({offset for offset, _ in self.named()})
        returned, exhausted = array("q", bytes(8 * len(wanted))), array("q", bytes(8 * len(wanted)))
        count = self.window.give_back_some(array("q", wanted), consumer, counted, 2, self.now, returned, exhausted)
        expected = self.model.give_back(wanted, consumer, counted, 2)
        assert (list(returned[:count]), list(exhausted[: self.window.exhausted_last])) == expected

    def settle_range(self) -> None:
        first = self.model.floor + self.random.randrange(40)
        stop = first + self.random.randrange(6)
        assert self.window.settle_range(first, stop) == self.model.settle_range(first, stop)

    def settle(self) -> None:
        wanted = [offset for offset, _ in self.named()]
        assert self.window.settle(array("q", wanted)) == sum(self.model.settle_range(o, o + 1) for o in wanted)

    def settle_below(self) -> None:
        if self.random.random() < 0.3:
            stop = self.model.floor + self.random.randrange(40)
            assert self.window.settle_below(stop) == self.model.settle_below(stop)

    def pass_to(self) -> None:
        offset = self.model.next + self.random.randrange(-3, 3)
        self.window.pass_to(offset)
        self.model.next = max(self.model.next, offset)

    def extend(self) -> None:
        offsets, counts, named = self.offset_and_count(self.named())
        consumer, deadline = self.random.choice([-1, *CONSUMERS]), self.now + self.random.randrange(50)
        assert self.window.extend(offsets, counts, consumer, deadline) == self.model.extend(named, consumer, deadline)

    def claim(self) -> None:
        wanted = [offset for offset, _ in self.named()]
        giver, taker, deadline = self.random.choice([-1, *CONSUMERS]), self.consumer(), self.deadline()
        out = array("q", bytes(8 * len(wanted)))
        count = self.window.claim(array("q", wanted), giver, taker, self.now, deadline, out)
        assert sorted(out[:count]) == self.model.claim(wanted, giver, taker, self.now, deadline)

    def expire(self) -> None:
        out = array("q", bytes(8 * self.window.held))
        if self.now < self.window.next_due:
            assert not [m for m in self.model.in_order([BACKOFF, LEASED]) if m.time <= self.now]
        assert list(out[: self.window.expire(self.now, out)]) == self.model.expire(self.now)

    def restart(self) -> None:
        """A new window from what a log would know; leases go on, everything else waits."""
        if self.random.random() < 0.7:
            return
        model, old = self.model, self.window
        self.window = type(old)(model.floor)
        self.window.slack = old.slack
        for first, stop in zip(*[iter(old.ranges(0, model.next))] * 2, strict=True):
            self.window.restore_range(first, stop)
        self.window.pass_to(model.next)
        for offset, state, time, deliveries, failures, returns, first in zip(*old.dump(), strict=True):
            kept = state if state in (LEASED, BACKOFF) else READY
            consumer = model.messages[offset].consumer
            assert self.window.restore(offset, kept, time, deliveries, failures, returns, first, max(consumer, 0))
        offsets = sorted(model.messages)
        self.window.set_keys(array("q", offsets), array("Q", [model.messages[o].key for o in offsets]))
        self.window.rebuild()
        for message in model.messages.values():
            if message.state not in (LEASED, BACKOFF):
                model.free(message, READY, 0)
        for key in {message.key for message in model.messages.values()}:
            model.put_key_in_order(key)


@pytest.mark.parametrize("kernel", builds("window"))
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_a_window_does_what_the_model_does(kernel: ModuleType, seed: int) -> None:
    walk = Walk(kernel, seed)
    for _ in range(100):
        walk.step()


@pytest.mark.parametrize("kernel", builds("window"))
@pytest.mark.parametrize("seed", range(3))
def test_a_long_walk_ends_where_the_model_does(kernel: ModuleType, seed: int) -> None:
    walk = Walk(kernel, seed)
    for _ in range(1500):
        walk.step()
