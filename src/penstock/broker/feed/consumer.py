"""A member of a group that takes its messages."""

from __future__ import annotations

import asyncio

from penstock.broker.feed.delivery import Delivery, Taking, take_back
from penstock.broker.feed.hold import Hold
from penstock.broker.feed.member import GroupMember
from penstock.broker.feed.whole_batches import take_whole
from penstock.broker.queues.group import Group
from penstock.core.errors import Closed
from penstock.queues.cursor import NO_DEADLINE


class Consumer(GroupMember):
    """Used from the loop. receive() hands out messages; the group's settle calls take them back."""

    def __init__(self, group: Group, number: int, prefetch: int) -> None:
        super().__init__(number, prefetch)
        self.group = group
        self._receiving = asyncio.Lock()

    async def receive(self, limit: int) -> list[Delivery]:
        """Up to so many messages, if there are any; none when it is closed while files are read."""
        self._refuse_closed()
        async with self._receiving:
            return await self._take(limit)

    @property
    def may_have_more(self) -> bool:
        """Whether receive() would look anywhere."""
        return bool(self.ready) and not self.group.is_paused and self.held < self.prefetch

    def receive_now(self, limit: int) -> list[Delivery]:
        """What receive() would find at a look: batches that come next and are in memory, whole."""
        self._refuse_closed()
        found: list[Delivery] = []
        if not self.ready:
            return found
        room = min(limit, self.prefetch - self.held)
        if room > 0 and not self._receiving.locked() and not self.group.is_paused:
            try:
                take_whole(self.group, self, room, found)
            except BaseException:
                take_back(found)
                raise
        return found

    def _refuse_closed(self) -> None:
        if self.is_closed:
            raise Closed(f"the consumer of group {self.group.name} was closed")

    def leave(self, counted: bool = True) -> None:
        """What it holds is free at once."""
        self.group.leave(self, counted)

    async def _take(self, limit: int) -> list[Delivery]:
        found: list[Delivery] = []
        room = 0 if self.is_closed else min(limit, self.prefetch - self.held)
        try:
            if room > 0 and not self.group.is_paused:
                room -= take_whole(self.group, self, room, found)
            for partition in list(self.ready):
                if room <= 0 or self.group.is_paused:
                    break
                del self.ready[partition]
                hold = self.holds.get(partition)
                if hold is not None and not hold.is_revoked:
                    room -= await self._take_from(hold, room, found)
        except BaseException:
            take_back(found)
            raise
        return found

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
            self.ready[hold.partition] = None
        given = sum([len(delivery) for delivery in found[before:]])
        if given:
            group.queue.used_ms = now
            hold.given(given, now)
            group.watch_clock(self, hold)
            group.watch_due(unit, cursor)
        return given
