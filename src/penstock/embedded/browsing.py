"""Reading a queue without consuming, a page at a time: oldest first, over all partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator

from penstock.broker import browsing
from penstock.broker.queues.start import Start
from penstock.embedded.message import StoredMessage
from penstock.embedded.runtime import Runtime

PAGE = 100


class Browsing:
    """Coroutines run on the broker's loop."""

    def __init__(self, runtime: Runtime, queue: str, start: str, partition: int | None) -> None:
        self._runtime, self._name, self._start, self._partition = runtime, queue, start, partition
        self._messages: AsyncIterator[StoredMessage] | None = None

    async def page(self, limit: int) -> list[StoredMessage]:
        """The next messages, up to so many; none at the end of what was there."""
        if self._messages is None:
            self._messages = self._browse()
        found: list[StoredMessage] = []
        while len(found) < limit and (message := await anext(self._messages, None)) is not None:
            found.append(message)
        return found

    async def _browse(self) -> AsyncIterator[StoredMessage]:
        queue, start = self._runtime.find(self._name), Start.parse(self._start)
        async for found in browsing.browse(self._runtime.broker, queue, start, partition=self._partition):
            yield StoredMessage(queue, found.partition, found.stored, found.number)
