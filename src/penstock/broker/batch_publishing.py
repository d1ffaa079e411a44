"""Taking in batches that another process encoded and placed by key: no row is looked at on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

from penstock.broker.publisher import Publisher
from penstock.broker.publishing import Publishing
from penstock.broker.queue import Placed, Queue
from penstock.core.errors import PenstockError
from penstock.log.encoded import Encoded, Rows
from penstock.log.shard import RowsPart, Shard, resolve


class PlacedBatch(NamedTuple):
    """Rows for a partition; None: for that of rows without a key. `is_by_key`: it was found by the keys of the rows,
    and counts only while the queue has the number of partitions with which it was found."""

    rows: Encoded
    partition: int | None
    is_by_key: bool


class BatchPublishing:
    """Used from the loop. All batches of a call are committed in one frame, or none is."""

    def __init__(self, shard: Shard, publishing: Publishing) -> None:
        self._shard, self._publishing = shard, publishing

    def put_now(
        self, queue: Queue, batches: Sequence[PlacedBatch], partitions: int, publisher: Publisher
    ) -> tuple[list[Placed], asyncio.Future[None]] | None:
        """put(), staged in this turn of the loop: where the rows go, and their commit. None if it would have to wait,
        PenstockError if the queue refuses: nothing was staged then."""
        count = self._refuse(queue, batches)
        if not queue.gate.enter_now():
            return None
        staged = None
        try:
            if queue.admit(count):
                staged = self._stage_now(queue, _placed(queue, batches, partitions, publisher), count)
        finally:
            if staged is None:
                queue.gate.leave()
        return staged

    async def put(
        self, queue: Queue, batches: Sequence[PlacedBatch], partitions: int, publisher: Publisher
    ) -> list[Placed]:
        """Into one queue, whatever its bindings; committed when it returns. Keys that were placed by another number of
        partitions than there is now are placed anew."""
        begun_s = monotonic()
        await queue.gate.enter()
        try:
            count = self._refuse(queue, batches)
            await self._publishing.make_room(queue, count)
            placed = _placed(queue, batches, partitions, publisher)
            logs = await self._publishing.logs(queue, [number for number, _ in placed], count)
            parts = [(log, rows) for log, (_, rows) in zip(logs, placed, strict=True)]
            offsets = await self._shard.commit(parts)
        finally:
            queue.gate.leave()
        self._publishing.note_published(queue, count, begun_s)
        return _places(placed, offsets)

    def _refuse(self, queue: Queue, batches: Sequence[PlacedBatch]) -> int:
        """How many rows there are; raises what the queue refuses them with."""
        for batch in batches:
            queue.check(batch.rows)
        count = sum([batch.rows.count for batch in batches])
        if not queue.has_room(count):
            raise queue.full()
        return count

    def _stage_now(
        self, queue: Queue, placed: Sequence[tuple[int, Rows]], count: int
    ) -> tuple[list[Placed], asyncio.Future[None]] | None:
        parts: list[RowsPart] = []
        for number, rows in placed:
            if (unit := queue.units.get(number)) is None:
                return None
            parts.append((unit.data, rows))
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        begun_s = monotonic()

        def done(error: PenstockError | None) -> None:
            queue.gate.leave()
            if error is None:
                self._publishing.note_published(queue, count, begun_s)
            resolve(committed, error)

        self._publishing.note_use(queue)
        offsets = self._shard.stage_now(parts, done)
        return None if offsets is None else (_places(placed, offsets), committed)


def _placed(
    queue: Queue, batches: Sequence[PlacedBatch], partitions: int, publisher: Publisher
) -> list[tuple[int, Rows]]:
    placed: list[tuple[int, Rows]] = []
    for rows, partition, is_by_key in batches:
        if partition is None:
            placed.append((queue.unkeyed_partition(publisher), rows))
        elif is_by_key and partitions != queue.settings.partitions:
            placed += queue.place(rows.columns(), publisher)
        else:
            placed.append((queue.existing(partition), rows))
    return placed


def _places(placed: Sequence[tuple[int, Rows]], offsets: Sequence[int]) -> list[Placed]:
    return [Placed(number, offset, rows.count) for (number, rows), offset in zip(placed, offsets, strict=True)]
