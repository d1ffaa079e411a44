"""A connection on a transport of asyncio: behind TLS, a WebSocket or a PROXY header. What it brings is taken with what
all others do."""

from __future__ import annotations

import asyncio
from typing import cast

from penstock.core.ports import Buffer
from penstock.gateways.wire.listener import ListenerFacts
from penstock.gateways.wire.slot import SlotTransport
from penstock.gateways.wire.turn_loop import TurnLoop


class SlotProtocol(asyncio.BufferedProtocol):
    def __init__(self, turns: TurnLoop, buffer: memoryview, facts: ListenerFacts) -> None:
        """The buffer is one for all: what is in it is taken before anything else is received."""
        self._turns, self._buffer, self._facts = turns, buffer, facts
        self._slot: SlotTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        known = cast(asyncio.Transport, transport)
        self._slot = self._turns.adopt_foreign(known, self._facts, known)

    def connection_lost(self, error: Exception | None) -> None:
        assert self._slot is not None
        self._turns.ended(self._slot)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        """What waits is asked for when more is written."""

    def resume_writing(self) -> None:
        assert self._slot is not None
        self._turns.drained(self._slot)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self.feed(self._buffer[:size])

    def feed(self, data: Buffer) -> None:
        """For transports that are not read into our buffer."""
        assert self._slot is not None
        self._turns.feed(self._slot, data)
