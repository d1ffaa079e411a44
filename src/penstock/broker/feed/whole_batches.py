"""Batches that come next in their partitions and are in memory, handed out whole: those of many partitions together,
because what a small one costs is mostly calls."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import compress, repeat
from typing import TYPE_CHECKING

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.hold import Hold
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.unit import Unit
from penstock.core.metrics import Histogram
from penstock.kernels.windows import deliver_each
from penstock.log.journal.frames import Entry
from penstock.queues.cursor import Cursor
from penstock.queues.settings import Ordering

if TYPE_CHECKING:
    from penstock.broker.feed.consumer import Consumer

# Batches of more messages are looked at row by row: what a call costs is nothing beside them.
_MOST_MESSAGES = 1024
_ALL_ROWS = array("i", range(_MOST_MESSAGES))


def take_whole(consumer: Consumer, ready: dict[int, None], room: int, found: list[Delivery]) -> int:
    """Up to `room` messages of the partitions in `ready` to `found`; how many. Partitions that have no more are struck
    off; what needs a closer look stays."""
    group = consumer.group
    if not group.takes_all:
        return 0
    now, left, pending = group.now(), room, iter(list(ready))
    while left > 0 and (batches := _NextBatches()).gather(consumer, ready, pending, left, now):
        left -= batches.hand_out(consumer, ready, left, now, found)
    if left < room:
        group.queue.used_ms = now
    return room - left


class _NextBatches:
    """Of some partitions, one after the other. Lists with an entry for each batch."""

    __slots__ = ("batches", "cursors", "holds", "units")

    def __init__(self) -> None:
        self.holds: list[Hold] = []
        self.units: list[Unit] = []
        self.cursors: list[Cursor] = []
        self.batches: list[Entry] = []

    def gather(self, consumer: Consumer, ready: dict[int, None], pending: Iterator[int], room: int, now: int) -> bool:
        """From the next partitions, until they have so many messages; whether there were any."""
        holds, units, group_number = consumer.holds, consumer.group.queue.units, consumer.group.number
        for partition in pending:
            hold, unit = holds.get(partition), units.get(partition)
            if hold is None or hold.is_revoked or unit is None:
                continue
            cursor = unit.cursors.get(group_number)
            if cursor is None or (window := cursor.window).next_due <= now:
                continue
            first, data = window.next, unit.data
            if first >= data.high_watermark:
                if not window.ready:
                    del ready[partition]
                continue
            tail = data.tail
            # Mostly it is the last one.
            for batch in tail[-1:] if tail and tail[-1].first == first else unit.batches_from(first):
                if batch.end > data.high_watermark:
                    break
                self.holds.append(hold)
                self.units.append(unit)
                self.cursors.append(cursor)
                self.batches.append(batch)
                room -= batch.end - batch.first
            if room <= 0:
                break
        return bool(self.batches)

    def hand_out(self, consumer: Consumer, ready: dict[int, None], room: int, now: int, found: list[Delivery]) -> int:
        """How many messages the consumer was given."""
        counts = self._delivered(consumer, room, now)
        if 0 in counts:
            counts = self._keep_given(counts)
        group, batches = consumer.group, self.batches
        timeout_ms = group.queue.settings.performance.delivery_timeout_ms
        for hold, unit, cursor, batch, count in zip(self.holds, self.units, self.cursors, batches, counts, strict=True):
            cursor.tally.delivered += count
            if not hold.held:
                hold.clock_ms = now
            hold.held += count
            if not 0 < hold.alarm_ms <= hold.clock_ms + timeout_ms:
                group.watch_clock(consumer, hold)
            if batch.end >= unit.data.high_watermark:
                del ready[hold.partition]  # nothing of it came back either: it would not have been taken whole
        stored = [StoredBatch(batch.data, batch.first, batch.end, True) for batch in batches]
        rows = [_ALL_ROWS[:count] for count in counts]
        found += map(Delivery, repeat(group), self.units, repeat(consumer.number), stored, rows)
        self._note_latency(counts, now + group.timeline.shift, group.queue.delivery_latency)
        return sum(counts)

    def _keep_given(self, counts: list[int]) -> list[int]:
        """Forget the batches of which nothing was given; what was given of the others."""
        self.holds, self.units = list(compress(self.holds, counts)), list(compress(self.units, counts))
        self.cursors, self.batches = list(compress(self.cursors, counts)), list(compress(self.batches, counts))
        return [count for count in counts if count]

    def _delivered(self, consumer: Consumer, room: int, now: int) -> list[int]:
        """Of each batch: how many messages the consumer has now."""
        group, number = consumer.group, consumer.number
        by_key = group.queue.settings.ordering is not Ordering.NONE
        windows, datas = [cursor.window for cursor in self.cursors], [batch.data for batch in self.batches]
        limit = group.limits.window
        return deliver_each(windows, datas, by_key, number, now, room, limit, _MOST_MESSAGES, group.too_old(now))

    def _note_latency(self, counts: list[int], now: int, latency: Histogram) -> None:
        """Batches of one frame have the same time."""
        time_ms = messages = 0
        for batch, count in zip(self.batches, counts, strict=True):
            if batch.max_timestamp != time_ms:
                if messages:
                    latency.observe(max(now - time_ms, 0) / 1000, messages)
                time_ms, messages = batch.max_timestamp, 0
            messages += count
        if messages:
            latency.observe(max(now - time_ms, 0) / 1000, messages)
