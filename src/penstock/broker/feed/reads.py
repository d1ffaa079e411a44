"""Batches that have to be read from files before somebody can be handed messages of them."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.unit import Unit
from penstock.core.errors import OffsetOutOfRange


class Read(NamedTuple):
    """What was found where a file was read: others may have gone on meanwhile."""

    offset: int
    stored: StoredBatch | None


async def read_batch(unit: Unit, offset: int) -> Read:
    """The batch that holds or follows an offset; None where nothing can be read, or that is below the start."""
    try:
        return Read(offset, await unit.stored(offset))
    except OffsetOutOfRange:
        return Read(offset, None)


class Reads:
    """What several want of a partition is read once."""

    def __init__(self) -> None:
        self._under_way: dict[int, asyncio.Task[Read]] = {}
        """by partition"""

    async def read(self, unit: Unit, offset: int) -> Read:
        """It may be what another one wanted: then one has to ask again."""
        partition = unit.partition
        task = self._under_way.get(partition)
        if task is None or task.done():
            # Of one that is done the loop may not have told yet, and will not while somebody asks again and again.
            task = self._under_way[partition] = asyncio.get_running_loop().create_task(read_batch(unit, offset))
            task.add_done_callback(lambda done: self._is_read(partition, done))
        return await asyncio.shield(task)

    def _is_read(self, partition: int, task: asyncio.Task[Read]) -> None:
        if self._under_way.get(partition) is task:
            del self._under_way[partition]
        if not task.cancelled():
            task.exception()  # those who wait for it are told; all of them may have gone
