"""Reading a queue without consuming: oldest first, over all partitions."""

from __future__ import annotations

import heapq

from penstock.broker.start import Start
from penstock.broker.unit import Unit
from penstock.core.errors import InvalidArgument, OffsetOutOfRange
from penstock.embedded.message import StoredMessage
from penstock.embedded.runtime import Runtime

PAGE = 100


class Browsing:
    """Coroutines run on the broker's loop."""

    def __init__(self, runtime: Runtime, queue: str, start: str, partition: int | None) -> None:
        self._runtime, self._name, self._start, self._partition = runtime, queue, start, partition
        self._heads: list[tuple[int, int, int, StoredMessage]] | None = None
        """the next message of each partition, by time"""

    async def page(self, limit: int) -> list[StoredMessage]:
        """The next messages, up to so many; none at the end of what was there."""
        heads = self._heads if self._heads is not None else await self._begin()
        found: list[StoredMessage] = []
        while heads and len(found) < limit:
            message = heads[0][-1]
            found.append(message)
            unit = self._queue.units.get(message.partition)
            following = None if unit is None else await self._read(unit, message.offset + 1)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, _ranked(following))
        return found

    async def _begin(self) -> list[tuple[int, int, int, StoredMessage]]:
        self._queue = self._runtime.find(self._name)
        broker, start = self._runtime.broker, Start.parse(self._start)
        if self._partition is not None and not 0 <= self._partition < self._queue.settings.partitions:
            raise InvalidArgument(f"queue {self._name!r} has no partition {self._partition}")
        self._heads = []
        for unit in list(self._queue.units.values()):
            if self._partition in (None, unit.partition):
                offset = await start.offset(broker.shard, unit.data, unit.partition, broker.now())
                if (first := await self._read(unit, offset)) is not None:
                    self._heads.append(_ranked(first))
        heapq.heapify(self._heads)
        return self._heads

    async def _read(self, unit: Unit, offset: int) -> StoredMessage | None:
        """At or behind an offset. Where retention was faster, what is left."""
        while True:
            try:
                stored = await unit.stored(max(offset, unit.start))
            except OffsetOutOfRange:
                continue
            if stored is None:
                return None
            if (row := stored.row_from(offset)) < len(stored):
                return StoredMessage(self._queue, unit.partition, stored, row)
            offset = stored.end


def _ranked(message: StoredMessage) -> tuple[int, int, int, StoredMessage]:
    return message.timestamp_ms, message.partition, message.offset, message
