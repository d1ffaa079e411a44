"""Taking over what a member of a group was handed and does not settle."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from penstock.broker.feed.delivery import Delivery, take_back
from penstock.broker.feed.settling import Settling
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.group import Group
from penstock.broker.queues.unit import Unit
from penstock.core.errors import OffsetOutOfRange


@dataclass(frozen=True, slots=True)
class Claiming:
    """One call. What is leased is left alone: it has a time of its own."""

    group: Group
    settling: Settling
    session: int
    idle_ms: int
    lease_ms: int
    spared: int
    """a member whose messages stay where they are"""

    async def claim(self, limit: int) -> list[Delivery]:
        """Up to so many messages, of any partition. Who had them finds their settlements stale."""
        found: list[Delivery] = []
        try:
            for unit in self.group.queue.units_in_turn():
                if limit <= 0 or self.group.is_paused:
                    break
                claimed = await self._claim_in(unit, limit)
                found += claimed
                if claimed:
                    limit -= sum([len(delivery) for delivery in claimed])
                    await self.settling.after_dropping(self.group, unit)
        except BaseException:
            take_back(found)
            raise
        return found

    async def _claim_in(self, unit: Unit, limit: int) -> list[Delivery]:
        batches = await self._batches(unit, self._idle(unit, limit))
        # From here on nobody else has a turn: what happened while files were read is seen.
        group, now = self.group, self.group.now()
        wanted = array("q", [offset for offset in self._idle(unit, limit) if self._is_there(batches, offset, now)])
        deadline = now + self.lease_ms
        claimed = dict(zip(*group.cursor(unit).claim(wanted, self.session, now, deadline), strict=True))
        found = []
        for stored in batches:
            mine = [offset for offset in claimed if stored.holds(offset)]
            if mine:
                rows = array("i", map(stored.row_from, mine))
                counts = array("i", map(claimed.__getitem__, mine))
                found.append(Delivery(group, unit, self.session, stored, rows, counts, deadline))
        return found

    def _idle(self, unit: Unit, limit: int) -> array[int]:
        return self.group.cursor(unit).window.in_flight_since(self.group.now() - self.idle_ms, self.spared, limit)

    async def _batches(self, unit: Unit, offsets: array[int]) -> list[StoredBatch]:
        """Those that hold the messages; what retention took is in none."""
        found: list[StoredBatch] = []
        for offset in offsets:
            if found and offset < found[-1].end:
                continue
            try:
                stored = await unit.stored(offset)
            except OffsetOutOfRange:
                continue
            if stored is not None:
                found.append(stored)
        return found

    def _is_there(self, batches: list[StoredBatch], offset: int, now: int) -> bool:
        """And not too old to be handed out."""
        stored = next((stored for stored in batches if stored.holds(offset)), None)
        if stored is None:
            return False
        row, over = stored.row_from(offset), self.group.too_old_among(stored, now)
        return row < len(stored) and stored.offsets[row] == offset and not (over is not None and over[row])
