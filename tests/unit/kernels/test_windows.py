"""Steps in many windows at once, against the same steps one by one."""

from __future__ import annotations

import random

import pytest

from penstock.core.ports import Buffer
from penstock.kernels.window import Window
from penstock.kernels.windows import ack_each, deliver_each
from penstock.log.batch import encode, seal
from penstock.log.columns import Columns

NOW, NO_LIMIT = 1_000_000, 1 << 31


def stored(first: int, count: int, keys: list[bytes] | None = None) -> bytearray:
    batch = encode(Columns.of([b"value"] * count, keys=keys))
    seal(batch, first, 0, NOW)
    return batch


def seen(windows: list[Window]) -> list[tuple[object, ...]]:
    return [(w.next, w.floor, w.pending, w.held, w.held_by(1), w.held_by(2), w.next_due) for w in windows]


@pytest.mark.parametrize("seed", range(20))
def test_many_windows_in_one_call_are_left_as_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    quick, slow = [Window(0) for _ in range(6)], [Window(0) for _ in range(6)]
    for _ in range(40):
        picked, consumer = [rng.randrange(6) for _ in range(rng.randrange(1, 9))], rng.choice([1, 1, 2])
        if rng.random() < 0.6:
            ends = {i: quick[i].next for i in range(6)}
            batches: list[Buffer] = []
            for i in picked:
                keys = [rng.choice([b"", b"a", b"b", b"c"]) for _ in range(2)] if rng.random() < 0.8 else None
                batches.append(stored(ends[i], 2, keys))
                ends[i] += 2
            given = deliver_each([quick[i] for i in picked], batches, True, consumer, NOW, 99, NO_LIMIT, 9, -1)
            one_by_one = zip(picked, batches, strict=True)
            assert given == [slow[i].deliver_whole(batch, True, consumer, NOW, 9) for i, batch in one_by_one]
        else:
            firsts = [rng.choice([*quick[i].offsets(), 0]) for i in picked]
            stops = [first + rng.randrange(3) for first in firsts]
            held = ack_each([quick[i] for i in picked], firsts, stops, consumer)
            for i, first, stop, left in zip(picked, firsts, stops, held, strict=True):
                is_settled = slow[i].ack_whole(first, stop, consumer)
                assert left == (slow[i].held_by(consumer) if is_settled else -1)
        assert seen(quick) == seen(slow)


def test_room_is_for_all_and_what_does_not_fit_is_passed_over() -> None:
    windows = [Window(0) for _ in range(4)]
    batches: list[Buffer] = [stored(0, count) for count in (2, 3, 1, 1)]
    assert deliver_each(windows, batches, True, 1, NOW, 4, NO_LIMIT, 9, -1) == [2, 0, 1, 1]
    assert [window.next for window in windows] == [2, 0, 1, 1]


def test_the_limits_of_a_window_and_of_a_batch_hold() -> None:
    window = Window(0)
    batches: list[Buffer] = [stored(0, 2), stored(2, 2)]
    assert deliver_each([window, window], batches, True, 1, NOW, 99, 3, 9, -1) == [2, 0]
    assert deliver_each([Window(0)], [stored(0, 2)], True, 1, NOW, 99, NO_LIMIT, 1, -1) == [0]


def test_a_batch_behind_one_that_was_not_taken_is_not_taken() -> None:
    window = Window(0)
    batches: list[Buffer] = [stored(0, 3), stored(3, 1)]
    assert deliver_each([window, window], batches, True, 1, NOW, 2, NO_LIMIT, 9, -1) == [0, 0]
