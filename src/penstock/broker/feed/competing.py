"""Those who share all partitions of a group message by message, and one message for one who asks for just that."""

from __future__ import annotations

from penstock.broker.feed.delivery import NO_MORE, Delivery, Taking, take_back
from penstock.broker.feed.hold import Hold
from penstock.broker.feed.reads import Read, read_batch
from penstock.broker.feed.turns import Contender
from penstock.broker.feed.whole_batches import take_parts
from penstock.broker.queues.group import Group
from penstock.broker.queues.unit import Unit
from penstock.core.errors import Closed, NoSuchGroup
from penstock.queues.cursor import NO_DEADLINE


class Competitor(Contender):
    """A source for a feed. Used from the loop; the group's settle calls take back what it was handed. What it holds, it
    holds until it settles it or leaves."""

    def __init__(self, group: Group, number: int, prefetch: int, priority: int, is_exclusive: bool) -> None:
        super().__init__(number, group.turns, prefetch, priority, is_exclusive)
        self.group = group
        self._missing: tuple[Unit, int] | None = None
        """what has to be read first"""

    @property
    def may_have_more(self) -> bool:
        """Whether receive() would look anywhere. Who asks is there for what others leave."""
        if self.group.is_paused:
            self.is_reading = False
            if self.promised:
                self.turns.came(self, 0, True)
            return False
        self._ask()
        return self.promised > 0

    def receive_now(self, limit: int) -> list[Delivery]:
        """What is in memory of the messages whose turn it is to come here."""
        self._refuse_closed()
        return self._take(limit, None)

    async def receive(self, limit: int) -> list[Delivery]:
        """The same where files have to be read first; none when it is closed meanwhile."""
        self._refuse_closed()
        read: Read | None = None
        try:
            while not (found := self._take(limit, read)) and self._missing is not None:
                read = await self.group.reads.read(*self._missing)
                if self.is_closed:
                    break
            return found
        except Exception:
            self.turns.failed(self)
            raise
        finally:
            self.is_reading = False
            self.turns.watch()

    def leave(self, counted: bool = True) -> None:
        """What it holds is free at once."""
        self.group.leave(self, counted)

    def retire(self) -> None:
        """It is handed nothing more, and keeps what it holds until it settles it or leaves."""
        self.is_retired = True
        self.turns.leave(self)

    @property
    def oldest_ms(self) -> int | None:
        """When it was handed what it holds for longest; None if it holds nothing."""
        group = self.group
        units = [unit for hold in self.holds.values() if hold.held and (unit := group.queue.units.get(hold.partition))]
        times = [time for unit in units if (time := group.cursor(unit).window.oldest_time(self.number)) >= 0]
        return min(times, default=None)

    def _ask(self) -> None:
        if not self.promised and not self.is_closed:
            self.turns.ask(self)

    def _refuse_closed(self) -> None:
        if self.is_closed:
            raise Closed(f"the consumer of group {self.group.name} was closed")

    def _take(self, limit: int, read: Read | None) -> list[Delivery]:
        found: list[Delivery] = []
        self._missing, self.is_reading = None, False
        group = self.group
        if group.left:
            group.free_left()
        self._ask()
        room = min(limit, self.promised, self.room)
        if room <= 0 or self.is_closed or group.is_paused:
            return found
        try:
            given = take_parts(group, self, room, found)
            if given < room:
                given += self._look_closer(room - given, found, read)
        except BaseException:
            take_back(found)
            self.turns.failed(self)
            raise
        self.is_reading = not found and self._missing is not None
        self.turns.came(self, given, given < room and self._missing is None)
        return found

    def _look_closer(self, room: int, found: list[Delivery], read: Read | None) -> int:
        """At what came back, and at batches of which not every message may be handed out."""
        group, ready, now, before = self.group, self.ready, self.group.now(), room
        for partition in list(ready):
            if room <= 0:
                break
            unit = group.queue.units.get(partition)
            if unit is None:
                continue
            taking = _taking(group, unit, self.number, room, now)
            end = taking.take_now(now, found, read)
            if taking.room < room:
                self.holds.setdefault(partition, Hold(partition)).held += room - taking.room
                group.watch_due(unit, taking.cursor)
                room = taking.room
            ready.pop(partition, None)
            if end != NO_MORE:
                ready[partition] = None
            if end >= 0 and self._missing is None:
                self._missing = unit, end
        if room < before:
            group.queue.used_ms = now
        return before - room


def _taking(group: Group, unit: Unit, number: int, room: int, now: int) -> Taking:
    cursor = group.cursor(unit)
    group.look_at_due(unit, cursor, now)
    return Taking(group, unit, cursor, number, NO_DEADLINE, _always, room)


def _always() -> bool:
    return True


async def take_one(group: Group, number: int) -> Delivery | None:
    """The first message that is ready of a partition, of each in turn, held without a lease by that number; waits only
    for files. NoSuchGroup if it was deleted, meanwhile too."""
    if group.is_deleted:
        raise NoSuchGroup(group.queue.name, group.name)
    found: list[Delivery] = []
    now = group.last_used_ms = group.now()
    for unit in group.queue.units_in_turn():
        if found or group.is_paused:
            break
        read: Read | None = None
        taking = _taking(group, unit, number, 1, now)
        while (end := taking.take_now(now, found, read)) >= 0:
            read = await read_batch(unit, end)
            if group.is_deleted:
                raise NoSuchGroup(group.queue.name, group.name)
        group.watch_due(unit, taking.cursor)
    if found:
        group.queue.used_ms = now
    return found[0] if found else None
