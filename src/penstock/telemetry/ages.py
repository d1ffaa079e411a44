"""How old the oldest message is that a group has not settled."""

from __future__ import annotations

from bisect import bisect_right
from weakref import WeakKeyDictionary

from penstock.broker.queues.group import Group
from penstock.broker.queues.unit import Unit
from penstock.core.errors import PenstockError
from penstock.log.batch import read_header
from penstock.log.journal.frames import Entry
from penstock.log.shard import Shard
from penstock.queues.cursor import Cursor

# A file is looked into beside the loop, which takes 0.1 ms or so; of floors that did not move it is known already.
_READS = 200


class Ages:
    """Remembers the time of each floor until it moves."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Cursor, tuple[int, int]] = WeakKeyDictionary()
        self._reads = 0

    def begin(self) -> None:
        """A collection, with so many reads for all of it: what is not known then is left out until the next."""
        self._reads = _READS

    async def oldest_s(self, shard: Shard, group: Group, now_ms: int) -> float:
        """0.0 for a group that has settled everything. To the batch, and to the ms."""
        times = [await self._time_ms(shard, group, unit) for unit in list(group.queue.units.values())]
        return max(now_ms - min([time for time in times if time is not None], default=now_ms), 0) / 1000

    async def _time_ms(self, shard: Shard, group: Group, unit: Unit) -> int | None:
        cursor = unit.cursors.get(group.number)
        floor = not_begun(group, unit) if cursor is None else max(cursor.window.floor, unit.start)
        if floor >= unit.end:
            return None
        known = None if cursor is None else self._known.get(cursor)
        if known is not None and known[0] == floor:
            return known[1]
        found = _in_memory(unit, floor)
        if found is None and self._reads > 0:
            self._reads -= 1
            found = await _in_files(shard, unit, floor)
        if found is not None and cursor is not None:
            self._known[cursor] = floor, found
        return found


def not_begun(group: Group, unit: Unit) -> int:
    """Where the group will begin in a partition that it has taken nothing of."""
    return max(group.record.starts.get(unit.partition, (0, 0))[0], unit.start)


def _in_memory(unit: Unit, offset: int) -> int | None:
    tail = unit.data.tail
    if tail and offset >= tail[0].first:
        return tail[max(bisect_right(tail, offset, key=_first) - 1, 0)].first_timestamp
    recent = unit.data.recent.find(offset)
    return None if recent is None else recent.first_timestamp


async def _in_files(shard: Shard, unit: Unit, offset: int) -> int | None:
    """None where nothing can be read: whoever consumes it is told why."""
    try:
        read = await shard.read(unit.data, offset, 1)
    except PenstockError:
        return None
    return read_header(read[0]).base_timestamp if read else None


def _first(batch: Entry) -> int:
    return batch.first
