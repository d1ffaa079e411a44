"""Making room in a full queue that drops its oldest messages: settled for every group, in flight or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.core.errors import OffsetOutOfRange


class _Oldest(NamedTuple):
    """The oldest message of a partition that a group has not settled; those up to `end` are of one batch with it."""

    time_ms: int
    partition: int
    offset: int
    end: int


class Drops:
    """What has to go so that messages fit: found out first, which takes reading, and done when they are staged."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._below: dict[Unit, int] = {}
        self._is_all = False
        """nothing else was left to drop"""

    async def plan(self, count: int) -> None:
        """Until those that were let in and `count` more messages fit, or nothing is left to drop: the limit may have
        been lowered since they were promised room. Changes nothing."""
        self._is_all = False
        while (excess := self._excess(count)) > 0:
            found = [await self._oldest(unit) for unit in list(self._queue.units.values())]
            oldest = [each for each in found if each is not None]
            if not oldest:
                self._is_all = True
                return
            _, partition, offset, end = min(oldest)
            self._below[self._queue.units[partition]] = min(offset + excess, end)

    def are_enough(self, count: int) -> bool:
        """Whether what was planned is all that has to go, or can, for so many messages now."""
        return self._is_all or self._excess(count) <= 0

    def _excess(self, count: int) -> int:
        limit = self._queue.settings.limits.max_queue_depth
        return 0 if limit is None else self._depth() + self._queue.expected + count - limit

    def apply(self, dropped: Callable[[Group, Unit], None]) -> None:
        for unit, stop in self._below.items():
            for group in self._queue.groups.values():
                cursor = group.cursor(unit)
                cursor.tally.dropped += cursor.settle_below(stop)
                dropped(group, unit)

    def _depth(self) -> int:
        """Of the queue, were it done."""
        return max([self._depth_of(group) for group in self._queue.groups.values()], default=0)

    def _depth_of(self, group: Group) -> int:
        return sum([group.depth_in(unit, self._below.get(unit, 0)) for unit in self._queue.units.values()])

    async def _oldest(self, unit: Unit) -> _Oldest | None:
        """None where every group has settled everything."""
        floors = [group.cursor(unit).window.floor for group in self._queue.groups.values()]
        floor = max(min(floors, default=unit.data.end), self._below.get(unit, 0))
        if not unit.has_between(floor, unit.data.end):
            return None
        try:
            stored = await unit.stored(floor)
        except OffsetOutOfRange:
            return _Oldest(0, unit.partition, floor, unit.start)
        if stored is None:
            # Not committed yet: the youngest of all.
            return _Oldest(1 << 62, unit.partition, max(floor, unit.end), unit.data.end)
        row = min(stored.row_from(floor), len(stored) - 1)
        # Offsets may be missing before it, very many after a crash.
        offset = max(floor, stored.offsets[row])
        return _Oldest(stored.batch.timestamps()[row], unit.partition, offset, stored.end)
