"""How much there is of everything, by namespace: added up in slices, once a second for all who watch."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from time import monotonic
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.clients import ClientDirectory
from penstock.broker.queues.queue import Queue
from penstock.telemetry.breather import Breather

# Queues and partitions between two looks at the clock: some 20 us.
_AT_ONCE = 20
# A little less than the time after which those who watch come again.
_RECENT_S = 0.9
# What retention took is not told: it is seen then.
_WHOLE_S = 30.0


@dataclass(slots=True)
class Numbers:
    queues: int = 0
    groups: int = 0
    messages: int = 0
    published: int = 0
    clients: int = 0
    connected: int = 0
    subscriptions: int = 0


class _Counted(NamedTuple):
    """What one queue is in the numbers of its namespace."""

    groups: int
    messages: int
    published: int


_NOTHING = _Counted(0, 0, 0)


class Glances:
    """Of one gateway; used from the loop. With 10,000 queues a look at all takes some 4 ms, which nobody waits for in
    one piece: it is done now and then, and between only those are added up anew that have changed. Those who watch
    share a look."""

    def __init__(self, broker: Broker, clients: ClientDirectory) -> None:
        self._broker, self._clients = broker, clients
        self._looking = asyncio.Lock()
        self._counted: dict[Queue, _Counted] = {}
        self._queues: dict[str, Numbers] = {}
        """of queues, by namespace"""
        self._whole_s = -_WHOLE_S
        self._known: dict[str, Numbers] = {}
        self._known_s = -_RECENT_S
        self.looks = self.looked_at = 0

    async def now(self, namespace: str) -> Numbers:
        """As they are: those who ask together share a look that was begun after they asked."""
        asked_s = monotonic()
        async with self._looking:
            if self._known_s <= asked_s:
                await self._look()
            return self._known.get(namespace) or Numbers()

    async def recent(self, namespace: str) -> Numbers:
        """As they were at most a second ago."""
        async with self._looking:
            if monotonic() - self._known_s >= _RECENT_S:
                await self._look()
            return self._known.get(namespace) or Numbers()

    async def _look(self) -> None:
        begun_s, breather = monotonic(), Breather()
        if begun_s - self._whole_s >= _WHOLE_S:
            await self._look_at_all(breather, begun_s)
        else:
            await self._look_at_changed(breather, begun_s)
        found = {namespace: replace(mine) for namespace, mine in self._queues.items()}
        for number, client in enumerate(self._clients.tallies()):
            mine = found.setdefault(client.namespace, Numbers())
            mine.clients += 1
            mine.connected += client.is_connected
            mine.subscriptions += client.subscriptions
            if number % _AT_ONCE == 0:
                await breather.turn()
        self._known, self._known_s = found, begun_s
        self.looks += 1

    async def _look_at_changed(self, breather: Breather, begun_s: float) -> None:
        await self._count(breather)
        if len(self._counted) != len(self._broker.declaring.queues):
            await self._look_at_all(breather, begun_s)  # some were deleted

    async def _look_at_all(self, breather: Breather, begun_s: float) -> None:
        self._counted, self._queues, self._whole_s = {}, {}, begun_s
        self._broker.declaring.changed.update(self._broker.queues)
        await self._count(breather)

    async def _count(self, breather: Breather) -> None:
        """Those that have changed."""
        changed = self._broker.declaring.changed
        queues, done = list(changed), 0
        changed.clear()
        for queue in queues:
            if not queue.is_deleted:
                self._add(queue)
            done += 1 + len(queue.units)
            if done >= _AT_ONCE:
                done = 0
                await breather.turn()

    def _add(self, queue: Queue) -> None:
        before = self._counted.get(queue)
        messages = sum([unit.end - unit.start for unit in queue.units.values()])
        now = self._counted[queue] = _Counted(len(queue.groups), messages, queue.published)
        mine = self._queues.setdefault(queue.namespace, Numbers())
        mine.queues += before is None
        groups, messages, published = before or _NOTHING
        mine.groups += now.groups - groups
        mine.messages += now.messages - messages
        mine.published += now.published - published
        self.looked_at += 1
