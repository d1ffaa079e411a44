"""Short words for what tests do with a window, in each build of it."""

from __future__ import annotations

from array import array
from typing import Protocol

import pytest
from tests.support.kernels import builds

from penstock.kernels.pending import EntryState
from penstock.kernels.window import Window

BACKOFF_MS = array("q", [10, 20])
EVERYTHING = 1 << 40

kernels = pytest.mark.parametrize("kernel", builds("window"))


class Kernel(Protocol):
    Window: type[Window]


def words(count: int) -> array[int]:
    return array("q", bytes(8 * count))


def deliver(
    window: Window,
    offsets: range,
    keys: list[int] | None = None,
    consumer: int = 1,
    now: int = 1000,
    deadline: int = -1,
    limit: int = EVERYTHING,
    skip: bytes | None = None,
    room: int = EVERYTHING,
) -> list[int]:
    out, hashes = array("i", bytes(4 * len(offsets))), array("Q", keys) if keys is not None else None
    column = array("q", offsets)
    given = window.deliver(column, hashes, skip, 0, len(column), consumer, room, now, deadline, limit, out)
    return [column[row] for row in out[:given]]


def take(window: Window, consumer: int = 1, room: int = 100, now: int = 2000) -> list[tuple[int, int]]:
    offsets, counts = words(room), array("i", bytes(4 * room))
    given = window.take(consumer, room, now, -1, EVERYTHING, offsets, counts)
    return list(zip(offsets[:given], counts[:given], strict=True))


def ack(window: Window, *offsets: int, consumer: int = 1, count: int = -1) -> list[int]:
    out = words(len(offsets))
    return list(out[: window.ack(array("q", offsets), array("i", [count] * len(offsets)), consumer, out)])


def nack(window: Window, *offsets: int, consumer: int = 1, now: int = 1000, delay: int = -1, age: int = 0) -> list[int]:
    """Those that failed once too often."""
    failed, spent = words(len(offsets)), words(len(offsets))
    window.nack(array("q", offsets), None, consumer, now, delay, BACKOFF_MS, age, failed, spent)
    return list(spent[: window.exhausted_last])


def give_back(
    window: Window, consumer: int = 1, counted: bool = True, leases: bool = False
) -> tuple[list[int], list[int]]:
    room = window.held_by(consumer)
    returned, spent = words(room), words(room)
    count = window.give_back(consumer, counted, 2, 1000, returned, spent, leases)
    return list(returned[:count]), list(spent[: window.exhausted_last])


def states(window: Window) -> dict[int, str]:
    return {offset: EntryState(window.state_of(offset)).name for offset in window.offsets()}


# Handing out and settling
