"""How much of all volatile queues there may be, and what their end leaves to be stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.broker.catalogue.configuration import Change, Configuration
from penstock.core.errors import PenstockError, QueueLimit
from penstock.log.volatile import VolatileMemory

logger = logging.getLogger("penstock.broker.volatile")

# More than are declared in a millisecond: numbers of this run lie behind those of the one before, and far behind those
# of queues that are stored.
_EACH_MS = 64


@dataclass(frozen=True, slots=True)
class VolatileOptions:
    queues: int = 100_000
    bytes: int = 256 << 20
    """of messages in all of them"""
    queue_bytes: int = 64 << 20
    """of messages in one"""


class Volatile:
    """Used from the loop."""

    def __init__(self, options: VolatileOptions, wall_ms: int) -> None:
        self.options = options
        self.memory = VolatileMemory(options.bytes, options.queue_bytes)
        self.count = 0
        self._next_incarnation = wall_ms * _EACH_MS
        self._writes: set[asyncio.Task[None]] = set()

    def next_incarnation(self) -> int:
        """QueueLimit where there are as many queues as there may be."""
        if self.count >= self.options.queues:
            raise QueueLimit("volatile queues", self.count, "broker.volatile_queues")
        self._next_incarnation += 1
        return self._next_incarnation

    def write(self, configuration: Configuration, changes: Sequence[Change]) -> None:
        """Nobody waits for it."""
        task = asyncio.get_running_loop().create_task(_written(configuration, changes))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def finish(self) -> None:
        while self._writes:
            await asyncio.wait(self._writes)


async def _written(configuration: Configuration, changes: Sequence[Change]) -> None:
    try:
        await configuration.write(*changes)
    except PenstockError as error:
        logger.error("an exchange that went with its last binding is still on the books error=%s", error)
