"""What one collection leaves to the next: which queues have numbers of their own, and what was seen before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from penstock.broker.queues.queue import Queue
from penstock.telemetry.ages import Ages
from penstock.telemetry.breather import Breather
from penstock.telemetry.quantiles import Recent
from penstock.telemetry.totals import Totals


class Memory:
    """Of one set of sources, however many ask. Used from the loop."""

    def __init__(self) -> None:
        self.collecting = asyncio.Lock()
        """one at a time: what it takes in memory is bounded, and those who come together wait in turn"""
        self.slots = Slots()
        self.ages = Ages()
        self.recent: WeakKeyDictionary[Queue | Slots, Recent] = WeakKeyDictionary()


class Slots:
    """A queue that got a number of its own keeps it, and one that came when all were given away stays among the
    others: else the sum of the others would go back, which Prometheus takes for a restart."""

    def __init__(self) -> None:
        self._named: set[int] = set()
        """by their incarnations, of which none is given out twice"""
        self._others: list[Queue] = []
        self.past = Totals()
        """of others that are deleted"""

    async def divide(self, queues: Sequence[Queue], limit: int, breather: Breather) -> tuple[list[Queue], list[Queue]]:
        """Those with a number of their own, and the others. Whoever asked may be gone before it ends: all that it
        leaves is written down in the last step."""
        gone, others = await self._parted(breather)
        unnamed = {queue.incarnation for queue in others}
        named: list[Queue] = []
        fresh: list[Queue] = []
        for queue in queues:
            if queue.incarnation in self._named:
                named.append(queue)
            elif queue.incarnation not in unnamed:
                fresh.append(queue)
            await breather.turn()
        # Queues of one connection come and go with it: labels of their own would be ever new ones.
        others += [queue for queue in fresh if queue.owner is not None]
        fresh = [queue for queue in fresh if queue.owner is None]
        room = max(limit - len(named), 0)
        named += fresh[:room]
        self.past.add_totals(gone)
        self._named = {queue.incarnation for queue in named}
        self._others = others + fresh[room:]
        return named, self._others

    async def _parted(self, breather: Breather) -> tuple[Totals, list[Queue]]:
        """What the others that are deleted have counted, and those that are still there."""
        gone, others = Totals(), list[Queue]()
        for queue in self._others:
            if queue.is_deleted:
                await gone.add(queue, breather)
            else:
                others.append(queue)
            await breather.turn()
        return gone, others
