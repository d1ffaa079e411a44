"""A member of a group: the partitions it was given, what it holds of them, and how it is told that there is more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.delivery import WHOLE_BATCH_MESSAGES, Delivery, Taking, whole_batch
from penstock.broker.hold import Hold
from penstock.core.errors import Closed
from penstock.queues.cursor import NO_DEADLINE
from penstock.queues.settings import Ordering

if TYPE_CHECKING:
    from penstock.broker.group import Group


class Consumer:
    """Used from the loop. receive() hands out messages; the group's settle calls take them back."""

    def __init__(self, group: Group, number: int, prefetch: int) -> None:
        self.group, self.number, self.prefetch = group, number, prefetch
        self.holds: dict[int, Hold] = {}
        self.is_closed = False
        self._ready: dict[int, None] = {}
        """partitions that may have something, the next one first"""
        self._wake = asyncio.Event()
        self.told: Callable[[], None] = lambda: None
        """called whenever wait() would return; for whoever does not wait"""
        self._receiving = asyncio.Lock()

    @property
    def held(self) -> int:
        return sum([hold.held for hold in self.holds.values()])

    @property
    def partitions(self) -> list[int]:
        return sorted(partition for partition, hold in self.holds.items() if not hold.is_revoked)

    async def receive(self, limit: int | None = None, wait_s: float = 0.0) -> list[Delivery]:
        """Up to `limit` messages, the queue's batch_size if that is None, as soon as any are there; none after `wait_s`
        or when it is closed meanwhile."""
        self._refuse_closed()
        limit = self.group.queue.settings.performance.batch_size if limit is None else limit
        async with self._receiving:
            loop = asyncio.get_running_loop()
            until = loop.time() + wait_s
            while not (found := await self._take(limit)) and loop.time() < until and not self.is_closed:
                try:
                    async with asyncio.timeout_at(until):
                        await self.wait()
                except TimeoutError:
                    break
            return found

    @property
    def may_have_more(self) -> bool:
        """Whether receive() would look anywhere; if not, wait()."""
        return bool(self._ready) and not self.group.is_paused and self.held < self.prefetch

    def receive_now(self, limit: int) -> list[Delivery]:
        """What receive() would find at a look: batches that come next and are in memory, whole."""
        self._refuse_closed()
        found: list[Delivery] = []
        if not self._ready:
            return found
        room = min(limit, self.prefetch - self.held)
        if room > 0 and not self._receiving.locked() and not self.group.is_paused:
            try:
                self._take_whole(room, found)
            except BaseException:
                self.group.take_back(found)
                raise
        return found

    def _refuse_closed(self) -> None:
        if self.is_closed:
            raise Closed(f"the consumer of group {self.group.name} was closed")

    async def wait(self) -> None:
        """Returns when receive() may have something, or when closed."""
        await self._wake.wait()
        self._wake.clear()

    def assign(self, partition: int) -> None:
        self.holds[partition] = Hold(partition)
        self.notify(partition)

    def notify(self, *partitions: int) -> None:
        """There may be something in these partitions, of which some may be others'."""
        holds, ready, is_mine = self.holds, self._ready, False
        for partition in partitions:
            hold = holds.get(partition)
            if hold is not None and not hold.is_revoked:
                ready[partition] = None
                is_mine = True
        if is_mine:
            self._tell()

    def wake(self) -> None:
        """There may be room again."""
        if self._ready or self.is_closed:
            self._tell()

    def _tell(self) -> None:
        self._wake.set()
        self.told()

    def drop(self, partition: int) -> None:
        self.holds.pop(partition, None)
        self._ready.pop(partition, None)

    def shut(self) -> None:
        self.is_closed = True
        self._tell()

    async def _take(self, limit: int) -> list[Delivery]:
        found: list[Delivery] = []
        room = 0 if self.is_closed else min(limit, self.prefetch - self.held)
        try:
            if room > 0 and not self.group.is_paused:
                room -= self._take_whole(room, found)
            for partition in list(self._ready):
                if room <= 0 or self.group.is_paused:
                    break
                del self._ready[partition]
                hold = self.holds.get(partition)
                if hold is not None and not hold.is_revoked:
                    room -= await self._take_from(hold, room, found)
        except BaseException:
            self.group.take_back(found)
            raise
        return found

    def _take_whole(self, room: int, found: list[Delivery]) -> int:
        """Batches that come next in their partitions and are in memory, whole; how many messages. What needs
        a closer look stays among those that may have something."""
        group, number = self.group, self.number
        if not group.takes_all:
            return 0
        by_key = group.queue.settings.ordering is not Ordering.NONE
        now, window_limit, units, left = group.now(), group.limits.window, group.queue.units, room
        too_old, timeout_ms = group.too_old(now), group.queue.settings.performance.delivery_timeout_ms
        for partition in list(self._ready):
            hold, unit = self.holds.get(partition), units.get(partition)
            cursor = None if unit is None else unit.cursors.get(group.number)
            if hold is None or hold.is_revoked or unit is None or cursor is None or cursor.window.next_due <= now:
                continue
            window, end, before = cursor.window, unit.data.visible_end, left
            for batch in unit.batches_from(window.next) if window.next < end else ():
                most = min(left, window_limit - window.live, WHOLE_BATCH_MESSAGES)
                count = 0 if batch.end > end else cursor.hand_out_whole(batch.data, by_key, number, now, most, too_old)
                if not count:
                    break
                found.append(whole_batch(group, unit, number, batch, count))
                group.queue.delivery_latency.observe(max(now - batch.max_timestamp, 0) / 1000, count)
                left -= count
            if left < before:
                hold.given(before - left, now)
                if not 0 < hold.alarm_ms <= hold.clock_ms + timeout_ms:
                    group.watch_clock(self, hold)
            if window.next >= end and not window.ready:
                del self._ready[partition]
            if left <= 0:
                break
        if left < room:
            group.queue.used_ms = now
        return room - left

    async def _take_from(self, hold: Hold, room: int, found: list[Delivery]) -> int:
        group = self.group
        unit = group.queue.units.get(hold.partition)
        if unit is None:
            return 0
        cursor, now, before = group.cursor(unit), group.now(), len(found)
        group.look_at_due(unit, cursor, now)
        taking = Taking(
            group, unit, cursor, self.number, NO_DEADLINE, lambda: not self.is_closed and not hold.is_revoked
        )
        if await taking.take(room, now, found):
            self._ready[hold.partition] = None
        given = sum([len(delivery) for delivery in found[before:]])
        if given:
            group.queue.used_ms = now
            hold.given(given, now)
            group.watch_clock(self, hold)
            group.watch_due(unit, cursor)
        return given
