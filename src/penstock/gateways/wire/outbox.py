"""What goes to one peer: gathered while the loop turns once, written in one piece at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.core.ports import Buffer
from penstock.gateways.wire.budget import Budget


class Transport(Protocol):
    """What is used of asyncio's transports, and what stands in for one (WebSocket)."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def is_closing(self) -> bool: ...

    def get_write_buffer_size(self) -> int: ...


class Flusher:
    """Writes out what outboxes gathered: at the end of a turn, or when all who are hungry were fed, so that what that
    brought for a peer goes out in one piece."""

    def __init__(self, soon: Callable[[Callable[[], None]], None]) -> None:
        """`soon` calls when the loop has done what it is at."""
        self._soon = soon
        self._filled: list[Outbox] = []
        self._is_called = self._is_gathering = False
        self.sent_bytes = 0
        self.then: Callable[[], None] = _nothing
        """called when all is written"""

    def add(self, outbox: Outbox) -> None:
        self._filled.append(outbox)
        if not self._is_gathering and not self._is_called:
            self._is_called = True
            self._soon(self._flush)

    def gather(self) -> None:
        """A turn begins."""
        self._is_gathering = True

    def release(self) -> None:
        """It ends."""
        self._is_gathering = False
        self.flush_now()

    def flush_now(self) -> None:
        """What is written next comes behind all that was gathered."""
        if self._filled:
            for outbox in self._taken():
                outbox.flush()

    def _flush(self) -> None:
        self._is_called = False
        self.flush_now()
        self.then()

    def _taken(self) -> list[Outbox]:
        filled, self._filled = self._filled, []
        return filled


def _nothing() -> None:
    """Nobody has to be told."""


class Outbox:
    """What a peer that takes nothing leaves lying is taken from the budget of all."""

    __slots__ = (
        "_budget",
        "_chunks",
        "_flusher",
        "_gathered_bytes",
        "_transport",
        "counted_bytes",
        "is_paused",
        "limit_bytes",
    )

    def __init__(self, transport: Transport, flusher: Flusher, limit_bytes: int, budget: Budget) -> None:
        self._transport, self._flusher, self.limit_bytes, self._budget = transport, flusher, limit_bytes, budget
        self.counted_bytes = 0
        """of the budget"""
        self._chunks: list[Buffer] = []
        self._gathered_bytes = 0
        self.is_paused = False
        """the peer takes nothing at the moment"""

    @property
    def waiting_bytes(self) -> int:
        return self._gathered_bytes + self._transport.get_write_buffer_size()

    @property
    def is_clogged(self) -> bool:
        """More waits than the peer may leave lying, by itself or as the others do: what can be dropped is, what can
        wait does."""
        return self.is_paused and self.waiting_bytes > min(self.limit_bytes, self._budget.room_bytes)

    def pause(self) -> None:
        """The peer takes nothing."""
        self.is_paused = True
        self._count()

    def resume(self) -> None:
        self.is_paused = False
        self._count()

    def give_back(self) -> None:
        """The peer is gone, and what waits for it."""
        self._chunks, self._gathered_bytes, self.is_paused = [], 0, False
        self._count()

    def _count(self) -> None:
        waiting = self._transport.get_write_buffer_size() if self.is_paused else 0
        more, self.counted_bytes = waiting - self.counted_bytes, waiting
        self._budget.take(more)

    def write(self, data: Buffer) -> None:
        """Nothing may change the data afterwards."""
        if not self._chunks:
            self._flusher.add(self)
        self._chunks.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes > self.limit_bytes:
            # Else nobody knows before the end of the turn that the peer does not take it.
            self.flush()

    def flush(self) -> None:
        chunks, self._chunks, self._gathered_bytes = self._chunks, [], 0
        if chunks and not self._transport.is_closing():
            data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            self._flusher.sent_bytes += len(data)
            self._transport.write(data)
            if self.is_paused:
                self._count()
