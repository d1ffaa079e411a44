"""A connection on a transport of asyncio: behind TLS, a WebSocket or a PROXY header. What it brings is taken with what
all others do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from penstock.core.ports import Buffer
from penstock.gateways.wire.listener import ListenerFacts
from penstock.gateways.wire.slot import SlotTransport

if TYPE_CHECKING:
    from penstock.gateways.mqtt.gateway import MqttGateway


class MqttProtocol(asyncio.BufferedProtocol):
    def __init__(self, gateway: MqttGateway, facts: ListenerFacts) -> None:
        self._gateway, self._facts = gateway, facts
        self._slot: SlotTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        known = cast(asyncio.Transport, transport)
        self._slot = self._gateway.turns.adopt_foreign(known, self._facts, known)

    def connection_lost(self, error: Exception | None) -> None:
        assert self._slot is not None
        self._gateway.turns.ended(self._slot)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        """What waits is asked for when more is written."""

    def resume_writing(self) -> None:
        assert self._slot is not None
        self._gateway.turns.drained(self._slot)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._gateway.receive_buffer

    def buffer_updated(self, size: int) -> None:
        self.feed(self._gateway.receive_buffer[:size])

    def feed(self, data: Buffer) -> None:
        """For transports that are not read into our buffer."""
        assert self._slot is not None
        self._gateway.turns.feed(self._slot, data)
