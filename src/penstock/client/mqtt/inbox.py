"""Messages received and not taken, bounded: who brings them waits for space, who takes them waits for messages."""

from __future__ import annotations

import asyncio
from collections import deque

from penstock.client.mqtt.message import Message

# What a message costs beside its payload.
_OVERHEAD_BYTES = 500


class Inbox:
    """One brings, any number take."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages, self._max_bytes = max_messages, max_bytes
        self._messages: deque[Message] = deque()
        self._bytes = 0
        self._takers: deque[asyncio.Future[None]] = deque()
        self._has_space = asyncio.Event()
        self._has_space.set()
        self._ended: Exception | None = None

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        return len(self._messages) >= self._max_messages or self._bytes >= self._max_bytes

    def put(self, message: Message) -> None:
        """Taken even when full: who brings what one read gave asks for space before the next."""
        self._messages.append(message)
        self._bytes += len(message.payload) + _OVERHEAD_BYTES
        if self.is_full:
            self._has_space.clear()
        self._wake(1)

    async def space(self) -> None:
        await self._has_space.wait()

    async def take(self) -> Message:
        """The oldest. When there are no more and never will be, the error that it was ended with."""
        while not self._messages:
            if self._ended is not None:
                raise self._ended
            await self._wait()
        return self._take()

    def end(self, error: Exception) -> None:
        """No more will come; what is there can still be taken."""
        self._ended = self._ended or error
        self._has_space.set()
        self._wake(len(self._takers))

    def _take(self) -> Message:
        message = self._messages.popleft()
        self._bytes -= len(message.payload) + _OVERHEAD_BYTES
        if not self.is_full:
            self._has_space.set()
        return message

    async def _wait(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._takers.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            # Whoever was woken and goes without taking passes it on.
            if waiting.done() and not waiting.cancelled() and self._messages:
                self._wake(1)
            raise
        finally:
            if waiting in self._takers:
                self._takers.remove(waiting)

    def _wake(self, count: int) -> None:
        while count and self._takers:
            waiting = self._takers.popleft()
            if not waiting.done():
                waiting.set_result(None)
                count -= 1
