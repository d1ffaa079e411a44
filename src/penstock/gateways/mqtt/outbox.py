"""What goes to one peer: gathered while the loop turns once, written in one piece at its end."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Protocol

from penstock.core.ports import Buffer

# A peer that answers what it was just sent needs longer than that; the next of several that were ready does not.
_CROWDED_S = 25e-6


class Transport(Protocol):
    """What is used of asyncio's transports, and what stands in for one (WebSocket)."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def is_closing(self) -> bool: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str, default: object = None) -> object: ...

    def get_write_buffer_size(self) -> int: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


class Flusher:
    """Writes out what outboxes gathered: at the end of a receive, or, while one receive comes upon the other, at the
    end of the turn of the loop, so that what several of them brought for a peer goes out in one piece."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._filled: list[Outbox] = []
        self._is_called = self._is_gathering = False
        self._ended_s = 0.0
        self._is_crowded = False
        self.sent_bytes = 0

    def add(self, outbox: Outbox) -> None:
        self._filled.append(outbox)
        if not self._is_gathering and not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._flush)

    def gather(self, now_s: float) -> None:
        """A receive begins."""
        self._is_gathering, self._is_crowded = True, now_s - self._ended_s < _CROWDED_S

    def release(self) -> None:
        """It ends."""
        self._is_gathering, self._ended_s = False, monotonic()
        if not self._filled or self._is_called:
            return
        if self._is_crowded:
            self._is_called = True
            self._loop.call_soon(self._flush)
        else:
            self._flush()

    def _flush(self) -> None:
        filled, self._filled = self._filled, []
        self._is_called = False
        for outbox in filled:
            outbox.flush()


class Outbox:
    __slots__ = ("_chunks", "_flusher", "_gathered_bytes", "_transport", "is_paused", "limit_bytes")

    def __init__(self, transport: Transport, flusher: Flusher, limit_bytes: int) -> None:
        self._transport, self._flusher, self.limit_bytes = transport, flusher, limit_bytes
        self._chunks: list[Buffer] = []
        self._gathered_bytes = 0
        self.is_paused = False
        """the peer takes nothing at the moment"""

    @property
    def waiting_bytes(self) -> int:
        return self._gathered_bytes + self._transport.get_write_buffer_size()

    @property
    def is_clogged(self) -> bool:
        """More waits than the peer may leave lying: what can be dropped is, what can wait does."""
        return self.is_paused and self.waiting_bytes > self.limit_bytes

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
