"""What is received at a time over Flight: others wait, and nobody for one who sends nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from penstock.gateways.flight.receipts import SMALL_BYTES, Receipts

MIB = 1 << 20


class Stream:
    """One that receives in a thread of its own until it is told to end."""

    def __init__(
        self, receiving: AbstractContextManager[Callable[[int], None]], arrived_bytes: int | None = None
    ) -> None:
        self._receiving, self._arrived_bytes = receiving, arrived_bytes
        self.inside, self._leaving = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._receive)
        self._thread.start()

    def end(self) -> None:
        self._leaving.set()
        self._thread.join()

    def _receive(self) -> None:
        with self._receiving as arrived:
            if self._arrived_bytes is not None:
                arrived(self._arrived_bytes)
            self.inside.set()
            self._leaving.wait()


class Room:
    """For two batches of 30 MiB, and one of a single client. All streams end with it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.receipts = Receipts(130 * MIB, 70 * MIB, lambda: self.now_s)
        self.streams: list[Stream] = []

    def stream(self, client: str, expected_bytes: int = 30 * MIB, arrived_bytes: int | None = None) -> Stream:
        self.streams.append(Stream(self.receipts.one(client, expected_bytes), arrived_bytes))
        return self.streams[-1]


@pytest.fixture
def room() -> Iterator[Room]:
    """Those that wait are let in one after the other."""
    found = Room()
    yield found
    for stream in found.streams:
        stream.end()


def is_in(stream: Stream) -> bool:
    return stream.inside.wait(20)


def is_out(stream: Stream) -> bool:
    return not stream.inside.wait(0.05)


def test_a_large_batch_waits_until_another_one_is_done(room: Room) -> None:
    first, second = room.stream("a"), room.stream("b")
    assert is_in(first) and is_in(second)
    third = room.stream("c")
    assert is_out(third)
    first.end()
    assert is_in(third)


def test_one_client_leaves_room_for_others(room: Room) -> None:
    assert is_in(room.stream("a"))
    same = room.stream("a")
    assert is_in(room.stream("b")) and is_out(same)


def test_a_stream_of_small_batches_waits_for_nobody(room: Room) -> None:
    assert is_in(room.stream("a")) and is_in(room.stream("b"))
    assert is_in(room.stream("a", SMALL_BYTES))


def test_what_is_here_is_counted_by_its_size(room: Room) -> None:
    assert is_in(room.stream("a", arrived_bytes=2 * MIB)) and is_in(room.stream("b", arrived_bytes=2 * MIB))
    assert is_in(room.stream("c"))


def test_who_sends_nothing_keeps_nobody_waiting(room: Room) -> None:
    assert is_in(room.stream("a")) and is_in(room.stream("b", arrived_bytes=60 * MIB))
    room.now_s = 3600
    assert is_in(room.stream("a"))
    held = room.stream("b")
    assert is_out(held)


def test_what_is_larger_than_all_there_is_goes_alone(room: Room) -> None:
    large = room.stream("a", 500 * MIB)
    assert is_in(large)
    other = room.stream("b")
    assert is_out(other)
    large.end()
    assert is_in(other)


def test_a_rest_is_told_once_after_the_last_batch(room: Room) -> None:
    first, second = room.stream("a"), room.stream("b")
    assert is_in(first) and is_in(second)
    told = threading.Semaphore(0)

    def watch() -> None:
        for _ in range(2):
            room.receipts.rested(0.01)
            told.release()

    watching = threading.Thread(target=watch)
    watching.start()
    first.end()
    room.now_s += 1
    assert not told.acquire(timeout=0.05)  # the other one is still here
    second.end()
    assert not told.acquire(timeout=0.05)  # and was until just now
    room.now_s += 1
    assert told.acquire(timeout=20)
    assert not told.acquire(timeout=0.05)
    third = room.stream("a")
    assert is_in(third)
    third.end()
    room.now_s += 1
    assert told.acquire(timeout=20)
    watching.join()
