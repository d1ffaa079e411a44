"""The window of unsettled messages against what one would write first: a dict with an object a message."""

from __future__ import annotations

import time
import tracemalloc
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit, interleaved
from penstock.kernels.window import EntryState, Window

_BULK = 500
_BULKS = 400
_PENDING = 1_000_000
_BACKOFF_MS = array("q", [10])
_LIMIT = 1 << 40


@dataclass(slots=True)
class Message:
    offset: int
    key: int
    consumer: int
    time: int
    first: int
    deliveries: int = 1
    failures: int = 0
    returns: int = 0
    state: int = EntryState.INFLIGHT


class Objects:
    """Delivers and settles by the same rules, without the order of keys."""

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}

    def deliver(self, offsets: array[int], consumer: int, now: int) -> int:
        for offset in offsets:
            self.messages[offset] = Message(offset, 0, consumer, now, now)
        return len(offsets)

    def ack(self, offsets: array[int], consumer: int, out: array[int]) -> int:
        settled = 0
        for offset in offsets:
            message = self.messages.get(offset)
            if message is not None and message.state == EntryState.INFLIGHT and message.consumer == consumer:
                del self.messages[offset]
                out[settled] = offset
                settled += 1
        return settled

    def nack(self, offsets: array[int], consumer: int, now: int) -> int:
        failed = 0
        for offset in offsets:
            message = self.messages.get(offset)
            if message is not None and message.state == EntryState.INFLIGHT and message.consumer == consumer:
                message.failures += 1
                message.state, message.time = EntryState.BACKOFF, now + 10
                failed += 1
        return failed

    def expire(self, now: int) -> int:
        due = [m for m in self.messages.values() if m.state == EntryState.BACKOFF and m.time <= now]
        for message in due:
            message.state = EntryState.READY
        return len(due)


def _bulks(bulks: int) -> list[array[int]]:
    return [array("q", range(_BULK * i, _BULK * (i + 1))) for i in range(bulks)]


def _seconds_each(call: Callable[[array[int]], object], bulks: list[array[int]]) -> float:
    begun = time.thread_time()
    for offsets in bulks:
        call(offsets)
    return (time.thread_time() - begun) / (_BULK * len(bulks))


def columns_deliver_and_ack(bulks: list[array[int]], keys: array[int] | None) -> float:
    window, rows, settled = Window(0), array("i", bytes(4 * _BULK)), array("q", bytes(8 * _BULK))

    def both(offsets: array[int]) -> None:
        window.deliver(offsets, keys, None, 0, _BULK, 1, _BULK, 1000, -1, _LIMIT, rows)
        window.ack(offsets, None, 1, settled)

    taken = _seconds_each(both, bulks)
    assert (window.pending, window.floor) == (0, _BULK * len(bulks))
    return taken


def objects_deliver_and_ack(bulks: list[array[int]]) -> float:
    objects, settled = Objects(), array("q", bytes(8 * _BULK))

    def both(offsets: array[int]) -> None:
        objects.deliver(offsets, 1, 1000)
        objects.ack(offsets, 1, settled)

    taken = _seconds_each(both, bulks)
    assert not objects.messages
    return taken


def columns_fail_and_expire(bulks: list[array[int]]) -> float:
    window, rows = Window(0), array("i", bytes(4 * _BULK))
    failed, exhausted, leases = array("q", bytes(8 * _BULK)), array("q", bytes(8 * _BULK)), array("q")
    for offsets in bulks:
        window.deliver(offsets, None, None, 0, _BULK, 1, _BULK, 1000, -1, _LIMIT, rows)
    begun = time.thread_time()
    for offsets in bulks:
        window.nack(offsets, None, 1, 1000, -1, _BACKOFF_MS, 0, failed, exhausted)
    window.expire(1010, leases)
    taken = time.thread_time() - begun
    assert window.ready == _BULK * len(bulks)
    return taken / (_BULK * len(bulks))


def objects_fail_and_expire(bulks: list[array[int]]) -> float:
    objects = Objects()
    for offsets in bulks:
        objects.deliver(offsets, 1, 1000)
    begun = time.thread_time()
    for offsets in bulks:
        objects.nack(offsets, 1, 1000)
    due = objects.expire(1010)
    taken = time.thread_time() - begun
    assert due == _BULK * len(bulks)
    return taken / (_BULK * len(bulks))


def columns_scan(count: int) -> float:
    """One message in backoff behind so many in flight: what a look at the times costs an entry."""
    window, rows, leases = Window(0), array("i", bytes(4 * count)), array("q")
    one, two = array("q", [0]), array("q", [0])
    window.deliver(array("q", range(count)), None, None, 0, count, 1, count, 1000, -1, _LIMIT, rows)
    window.nack(array("q", [count - 1]), None, 1, 1000, -1, _BACKOFF_MS, 0, one, two)
    begun = time.thread_time()
    window.expire(1010, leases)
    taken = time.thread_time() - begun
    assert window.ready == 1
    return taken / count


def bytes_an_entry(count: int, deliver: Callable[[array[int]], object]) -> float:
    tracemalloc.start()
    try:
        for first in range(0, count, _BULK):
            deliver(array("q", range(first, first + _BULK)))
        return tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()


def columns_bytes(count: int) -> float:
    window, rows = Window(0), array("i", bytes(4 * _BULK))
    return bytes_an_entry(
        count, lambda offsets: window.deliver(offsets, None, None, 0, _BULK, 1, _BULK, 1000, -1, _LIMIT, rows)
    )


def objects_bytes(count: int) -> float:
    objects = Objects()
    return bytes_an_entry(count, lambda offsets: objects.deliver(offsets, 1, 1000))


def run(settings: Run) -> list[Comparison]:
    bulks, pending = _bulks(settings.size(_BULKS, 4)), settings.size(_PENDING, _BULK)
    keys = array("Q", [(row * 0x9E3779B97F4A7C15) % 2**64 | 1 for row in range(_BULK)])
    samples = interleaved(
        settings.rounds,
        {
            "deliver and ack": lambda: columns_deliver_and_ack(bulks, None),
            "with a key each": lambda: columns_deliver_and_ack(bulks, keys),
            "objects": lambda: objects_deliver_and_ack(bulks),
            "fail and expire": lambda: columns_fail_and_expire(bulks),
            "objects fail": lambda: objects_fail_and_expire(bulks),
            "scan": lambda: columns_scan(pending),
        },
    )
    objects, least = Series("dict of objects", samples["objects"]), Target(">=", 30)
    sizes = columns_bytes(pending), objects_bytes(pending)
    return [
        Comparison(Series("deliver and ack in bulks of 500", samples["deliver and ack"]), objects, target=least),
        Comparison(Series("deliver and ack, each with its key", samples["with a key each"]), objects),
        Comparison(
            Series("nack and end of backoff", samples["fail and expire"]),
            Series("dict of objects", samples["objects fail"]),
        ),
        Comparison(Series("look for what is due, an entry in flight", samples["scan"])),
        Comparison(
            Series("memory of a pending message", (sizes[0],), Unit.BYTES),
            Series("48 MiB for a million", ((48 << 20) / _PENDING,), Unit.BYTES),
            kind=Ratio.COST,
            target=None if settings.quick else Target("<=", 1),
            notes={"as an object": f"{sizes[1]:.0f} bytes"},
        ),
    ]


BENCHMARK = Benchmark("window", "unsettled messages: processor time and memory a message", run, syncs=False)
