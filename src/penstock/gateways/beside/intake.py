"""The server's end of the socket pair on which requests of a door come: their bodies are received where they stay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, cast

import msgspec

from penstock.core.errors import CorruptBatch
from penstock.gateways.beside.frames import LENGTH, MAX_BODY_BYTES, MAX_HEAD_BYTES, Heads, HeadT

# Received and not answered yet: a few of the largest frames, beside what admission lets in. Then the listener waits.
_OPEN_BYTES = 64 << 20

Handle = Callable[[HeadT, Sequence[bytearray]], None]


class Receiving(Generic[HeadT]):
    """Bytes into heads and bodies, each body in memory of its own. No I/O. CorruptBatch for what the listener would
    never send."""

    def __init__(self, heads: Heads[HeadT], handle: Handle[HeadT]) -> None:
        self._heads, self._handle = heads, handle
        self._into = memoryview(bytearray(LENGTH.size))
        self._filled = 0
        self._is_length = True
        self._head: HeadT | None = None
        self._bodies: list[bytearray] = []
        self._at = 0

    def room(self) -> memoryview:
        """Where the next bytes go."""
        return self._into[self._filled :]

    def received(self, count: int) -> None:
        self._filled += count
        while self._filled == len(self._into):
            self._next()

    def _next(self) -> None:
        """What is being received is there."""
        if self._head is not None:
            self._next_body()
        elif self._is_length:
            [size] = LENGTH.unpack(self._into)
            if not 0 < size <= MAX_HEAD_BYTES:
                raise CorruptBatch(f"a head of {size} bytes")
            self._expect(bytearray(size))
            self._is_length = False
        else:
            self._head = self._heads.decode(self._into)
            sizes = self._heads.sizes(self._head)
            if sum(sizes) > MAX_BODY_BYTES or min(sizes, default=1) < 1:
                raise CorruptBatch(f"bodies of {sum(sizes)} bytes")
            self._bodies, self._at = [bytearray(size) for size in sizes], -1
            self._next_body()

    def _next_body(self) -> None:
        self._at += 1
        if self._at < len(self._bodies):
            self._expect(self._bodies[self._at])
            return
        head, bodies = self._head, self._bodies
        self._head, self._bodies, self._is_length = None, [], True
        self._expect(bytearray(LENGTH.size))
        assert head is not None
        self._handle(head, bodies)

    def _expect(self, into: bytearray) -> None:
        self._into, self._filled = memoryview(into), 0


class Intake(asyncio.BufferedProtocol, Generic[HeadT]):
    """Pauses while much is not answered. `ended` is called once, with what could not be read, if that is why."""

    def __init__(self, heads: Heads[HeadT], handle: Handle[HeadT], ended: Callable[[Exception | None], None]) -> None:
        self._receiving, self._ended = Receiving(heads, handle), ended
        self._transport: asyncio.Transport | None = None
        self._open_bytes = 0
        self._failure: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiving.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._receiving.received(nbytes)
        except (CorruptBatch, msgspec.DecodeError, ValueError) as error:
            self._failure = error
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._ended(self._failure)

    def open(self, size_bytes: int) -> None:
        """So much is under way from now on, until done()."""
        self._open_bytes += size_bytes
        if self._transport is not None and self._open_bytes > _OPEN_BYTES:
            self._transport.pause_reading()

    def done(self, size_bytes: int) -> None:
        self._open_bytes -= size_bytes
        if self._transport is not None and self._open_bytes <= _OPEN_BYTES:
            self._transport.resume_reading()

    def say(self, data: bytes) -> None:
        """Nothing, once the listener is gone."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
