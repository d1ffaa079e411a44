"""Looking at messages without consuming them: nothing is held, counted or settled by it."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from penstock.broker.broker import Broker
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import EARLIEST, Start
from penstock.broker.queues.unit import Unit
from penstock.core.errors import InvalidArgument, OffsetOutOfRange
from penstock.log.batch import Row
from penstock.queues.bindings import filter_mask
from penstock.queues.names import MessageId, check_filter, plain_filter


@dataclass(frozen=True, slots=True)
class Browsed:
    """A message as it is stored, and the id under which consumers get it."""

    id: MessageId
    row: Row
    stored: StoredBatch
    number: int
    """of the row in the stored batch"""

    @property
    def partition(self) -> int:
        return self.id.partition


async def browse(
    broker: Broker,
    queue: Queue,
    start: Start = EARLIEST,
    *,
    partition: int | None = None,
    limit: int | None = None,
    topic_filter: str | None = None,
    is_merged: bool = True,
) -> AsyncIterator[Browsed]:
    """Messages that were committed when the call began, from `start` on; `topic_filter` is over the routing key, as a
    group's. Merged, they come in the order of their times across partitions; else partition after partition."""
    wanted = plain_filter(topic_filter)
    if wanted is not None:
        check_filter(wanted)
    walks = [await _begin(broker, queue, unit, start, wanted) for unit in _units(queue, partition)]
    order = _Merge(walks) if is_merged else _Chain(walks)
    given = 0
    while (limit is None or given < limit) and (message := await order.next()) is not None:
        given += 1
        yield message


async def find(broker: Broker, message: MessageId) -> Browsed:
    """InvalidArgument if its queue is gone, or the message: retention, compaction or a purge took it."""
    queue, unit = broker.find(message)
    stored = await _stored(unit, message.offset, unit.end) if message.offset >= unit.start else None
    row = stored.row_from(message.offset) if stored is not None else 0
    if stored is None or row >= len(stored) or stored.offsets[row] != message.offset:
        raise InvalidArgument(
            f"message {message} is not there: partition {unit.partition} of queue {queue.name!r} keeps "
            f"{unit.start} to {unit.end - 1}, without what was compacted"
        )
    return Browsed(message, stored.message(row), stored, row)


def browsed(queue: Queue, unit: Unit, stored: StoredBatch, numbers: Sequence[int]) -> list[Browsed]:
    """Rows of a stored batch."""
    place = queue.name, queue.incarnation, unit.partition
    rows = stored.messages(numbers)
    return [
        Browsed(MessageId(*place, row.offset), row, stored, number) for number, row in zip(numbers, rows, strict=True)
    ]


class _Walk:
    """Through one partition, up to where it ended in the beginning."""

    def __init__(self, queue: Queue, unit: Unit, offset: int, topic_filter: str | None) -> None:
        self._queue, self._unit, self._offset, self._stop = queue, unit, offset, unit.end
        self._filter = topic_filter
        self._ready: deque[Browsed] = deque()

    async def first(self) -> Browsed | None:
        """The one that pop() would give; None at the end."""
        while not self._ready and self._offset < self._stop:
            stored = await _stored(self._unit, self._offset, self._stop)
            if stored is None:
                self._offset = self._stop
                break
            self._ready.extend(self._wanted(stored))
            self._offset = stored.end
        return self._ready[0] if self._ready else None

    def pop(self) -> Browsed:
        return self._ready.popleft()

    def _wanted(self, stored: StoredBatch) -> list[Browsed]:
        rows = range(stored.row_from(self._offset), stored.row_from(self._stop))
        if self._filter is not None:
            keys = [self._queue.routing_key(stored.batch.topic(row) or b"") for row in rows]
            marks = filter_mask(self._filter, keys)
            kept = [row for row, mark in zip(rows, marks, strict=True) if mark]
        else:
            kept = list(rows)
        return browsed(self._queue, self._unit, stored, kept)


async def _begin(broker: Broker, queue: Queue, unit: Unit, start: Start, topic_filter: str | None) -> _Walk:
    offset = await start.offset(broker.shard, unit.data, unit.partition, broker.wall())
    return _Walk(queue, unit, offset, topic_filter)


class _Merge:
    """Of what comes next in each partition, the oldest."""

    def __init__(self, walks: list[_Walk]) -> None:
        self._walks = walks
        self._times: list[tuple[int, int]] = []
        self._is_begun = False

    async def next(self) -> Browsed | None:
        if not self._is_begun:
            self._is_begun = True
            for number in range(len(self._walks)):
                await self._push(number)
        if not self._times:
            return None
        number = heapq.heappop(self._times)[1]
        message = self._walks[number].pop()
        await self._push(number)
        return message

    async def _push(self, number: int) -> None:
        if (message := await self._walks[number].first()) is not None:
            heapq.heappush(self._times, (message.row.timestamp, number))


class _Chain:
    """One partition after the other."""

    def __init__(self, walks: list[_Walk]) -> None:
        self._walks = deque(walks)

    async def next(self) -> Browsed | None:
        while self._walks:
            if await self._walks[0].first() is not None:
                return self._walks[0].pop()
            self._walks.popleft()
        return None


def _units(queue: Queue, partition: int | None) -> list[Unit]:
    if partition is None:
        return [queue.units[number] for number in sorted(queue.units)]
    if not 0 <= partition < queue.settings.partitions:
        raise InvalidArgument(f"queue {queue.name!r} has no partition {partition}, it has {queue.settings.partitions}")
    return [unit for number, unit in queue.units.items() if number == partition]


async def _stored(unit: Unit, offset: int, stop: int) -> StoredBatch | None:
    """The batch that holds or follows an offset, wherever the log begins by now; None at the stop."""
    while offset < stop:
        try:
            stored = await unit.stored(offset)
        except OffsetOutOfRange:
            offset = max(unit.start, offset + 1)
            continue
        return stored if stored is not None and stored.first < stop else None
    return None
