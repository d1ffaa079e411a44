"""Taking messages of a group out of a partition: what came back first, then what is new."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from penstock.broker.feed.reads import Read, read_batch
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.group import Group
from penstock.broker.queues.unit import Unit
from penstock.kernels import rows
from penstock.queues.cursor import Cursor
from penstock.queues.settings import Ordering


class Delivery(msgspec.Struct, eq=False, gc=False):
    """Messages of one stored batch, handed to one consumer of a group. Nothing of it is ever changed. The garbage
    collector passes it over, as there may be one for each message: whoever keeps it lets go of it when the consumer
    leaves."""

    group: Group
    unit: Unit
    consumer: int
    stored: StoredBatch
    rows: array[int]
    """int32, rising"""
    deliveries: array[int] | None = None
    """how often each was handed out; None: all for the first time"""
    deadline: int = -1
    """end of the lease; -1 where the connection's clock counts"""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of a batch without gaps, handed out for the first time."""
        return self.deliveries is None and len(self.rows) == self.stored.end - self.stored.first

    def part(self, first: int, stop: int) -> Delivery:
        """The messages at these places of it."""
        if first == 0 and stop == len(self.rows):
            return self
        counts = self.deliveries
        return msgspec.structs.replace(
            self, rows=self.rows[first:stop], deliveries=None if counts is None else counts[first:stop]
        )

    def picked(self, places: Sequence[int]) -> Delivery:
        """The messages at these places, which rise."""
        rows, counts = self.rows, self.deliveries
        return msgspec.structs.replace(
            self,
            rows=array("i", [rows[place] for place in places]),
            deliveries=None if counts is None else array("i", [counts[place] for place in places]),
        )

    @property
    def counts(self) -> array[int]:
        """How often each was handed out: a settlement names that, so that one of an earlier delivery is found stale."""
        return array("i", [1]) * len(self.rows) if self.deliveries is None else self.deliveries

    @property
    def offsets(self) -> array[int]:
        out = array("q", bytes(8 * len(self.rows)))
        rows.take_int64(self.stored.offsets, self.rows, out)
        return out


def take_back(found: Iterable[Delivery]) -> None:
    """What was taken and never reached anybody: whoever asked was cancelled while a file was read."""
    for delivery in found:
        group, partition = delivery.group, delivery.unit.partition
        cursor = group.cursor(delivery.unit)
        cursor.give_back_some(delivery.offsets, delivery.consumer, group.now())
        consumer = group.consumers.get(delivery.consumer)
        if consumer is not None and (hold := consumer.holds.get(partition)) is not None:
            hold.held = cursor.held_by(delivery.consumer)
        group.notify(partition)


# What Taking.take_now() says where no file is needed.
MAY_HAVE_MORE, NO_MORE = -1, -2


@dataclass(slots=True)
class Taking:
    """One call of one consumer on one partition."""

    group: Group
    unit: Unit
    cursor: Cursor
    consumer: int
    deadline: int
    is_allowed: Callable[[], bool]
    """looked at again after each wait for a file: the consumer may be gone meanwhile"""
    room: int = 0
    """how many messages it takes yet"""

    @property
    def _is_strict(self) -> bool:
        return self.group.queue.settings.ordering is Ordering.STRICT

    async def take(self, room: int, now: int, out: list[Delivery]) -> bool:
        """Up to `room` messages to `out`; whether there may be more."""
        self.room = room
        read: Read | None = None
        while (offset := self.take_now(now, out, read)) >= 0:
            read = await read_batch(self.unit, offset)
            if not self.is_allowed():
                return False
        return offset == MAY_HAVE_MORE

    def take_now(self, now: int, out: list[Delivery], read: Read | None = None) -> int:
        """What is in memory, or was read, to `out`, as far as there is `room`: MAY_HAVE_MORE, NO_MORE, or the offset
        whose batch has to be read first."""
        try:
            return self._take(now, out, read)
        finally:
            if self.group.switches:
                # What was passed over is settled without anybody saying so.
                self.group.look_at_switch(now)
            if self.group.queue.head is not None:
                self.group.queue.head.returned([self.unit.partition])

    def _take(self, now: int, out: list[Delivery], read: Read | None) -> int:
        while self.room > 0:
            window = self.cursor.window
            again = window.ready > 0
            offset = window.first_ready if again else window.next
            if not again:
                if offset >= self.group.stop_at(self.unit):
                    return NO_MORE
                if window.pending >= self.group.limits.window:
                    return MAY_HAVE_MORE
                if self._is_strict and (window.parked or window.waiting):
                    return NO_MORE  # who has its turn tells it
            stored = self.unit.stored_near(offset)
            if stored is None:
                if read is None or read.offset != offset:
                    return offset
                stored = read.stored
            if stored is None and self.unit.start <= offset:
                return NO_MORE
            stop = self.unit.start if stored is None else stored.first
            if stored is None or (again and stop > offset):
                self._pass_gone(offset, stop)
            elif again:
                self.room -= self._take_again(stored, now, out)
            else:
                self.room -= self._take_new(stored, now, out)
        return MAY_HAVE_MORE

    def _pass_gone(self, offset: int, stop: int) -> None:
        """Retention or compaction took what was there: there is nothing to hand out. What compaction took is not lost,
        a newer one has its place."""
        settled = self.cursor.settle(offset, stop)
        self.cursor.tally.lost += settled if offset < self.unit.start else 0
        self.cursor.pass_to(stop)

    def _take_again(self, stored: StoredBatch, now: int, out: list[Delivery]) -> int:
        room = min(self.room, self.cursor.window.ready)
        cursor, offsets, deliveries = self.cursor, array("q", bytes(8 * room)), array("i", bytes(4 * room))
        given = cursor.hand_out_again(stored.end, self.consumer, room, now, self.deadline, offsets, deliveries)
        if not given:
            return 0
        rows, kept, expired = array("i"), array("i"), array("q")
        over = self.group.too_old_among(stored, now)
        for offset, count in zip(offsets[:given], deliveries[:given], strict=True):
            row = stored.row_from(offset)
            if row >= len(stored) or stored.offsets[row] != offset:
                cursor.settle(offset, offset + 1)
            elif over is not None and over[row] and self.group.expires_at_head:
                expired.append(offset)
            elif over is not None and over[row]:
                cursor.tally.expired += cursor.settle(offset, offset + 1)
            else:
                rows.append(row)
                kept.append(count)
        cursor.tally.redelivered -= given - len(rows)
        if expired:
            self.group.expired(self.unit, expired)
        if rows:
            out.append(Delivery(self.group, self.unit, self.consumer, stored, rows, kept, self.deadline))
        return len(rows)

    def _without_expired(self, stored: StoredBatch, rows: array[int], over: bytearray) -> array[int]:
        """They were the next when they were taken: they leave as what is looked after by nobody does."""
        if expired := array("q", [stored.offsets[row] for row in rows if over[row]]):
            self.group.expired(self.unit, expired)
        return array("i", [row for row in rows if not over[row]])

    def _take_new(self, stored: StoredBatch, now: int, out: list[Delivery]) -> int:
        cursor, group, window = self.cursor, self.group, self.cursor.window
        stop_at = group.stop_at(self.unit)
        row, stop = stored.row_from(window.next), stored.row_from(stop_at)
        if row >= stop:
            # Nothing is left before the stop, or of the batch: offsets are missing there.
            cursor.pass_to(min(stop_at, stored.end))
            return 0
        if self._is_strict and window.held > window.held_by(self.consumer):
            # Another is at work: one that waits for its turn is enough, and the rest need no memory.
            stop = row + 1
        rows = array("i", bytes(4 * min(self.room, stop - row)))
        skip = group.skipped(stored, now)
        given = cursor.hand_out(
            stored.offsets,
            group.keys(stored),
            skip,
            row,
            stop,
            self.consumer,
            len(rows),
            now,
            self.deadline,
            group.limits.window,
            rows,
        )
        if skip is not None:
            group.count_skipped(cursor, stored, row, window.stopped_row, now)
        if window.stopped_row >= len(stored):
            cursor.pass_to(stored.end)
        rows = rows if given == len(rows) else rows[:given]
        if given and group.expires_at_head and (over := group.too_old_among(stored, now)) is not None:
            rows = self._without_expired(stored, rows, over)
            cursor.tally.delivered -= given - len(rows)
            given = len(rows)
        if given:
            waited_ms = now + group.timeline.shift - stored.batch.header.max_timestamp
            group.queue.delivery_latency.observe(max(waited_ms, 0) / 1000, given)
            out.append(Delivery(group, self.unit, self.consumer, stored, rows, None, self.deadline))
        return given
