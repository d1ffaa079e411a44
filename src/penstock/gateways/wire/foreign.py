"""Connections whose bytes come and go by a transport: TLS and WebSocket on asyncio."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.gateways.wire.reactor import Transport

logger = logging.getLogger("penstock.gateways.wire")


class Foreign:
    """The transports by slot. What a transport raises ends its connection, and nobody else's."""

    def __init__(self) -> None:
        self._transports: dict[int, Transport] = {}
        self._parked: set[int] = set()
        self.full: set[int] = set()
        """those that are not read because as much as a region holds waits already"""

    def add(self, slot: int, transport: Transport) -> None:
        self._transports[slot] = transport

    def write(self, slot: int, data: bytes) -> int:
        """How much the transport holds; -1 if it failed."""
        transport = self._transports[slot]
        try:
            transport.write(data)
            return transport.get_write_buffer_size()
        except Exception:
            logger.exception("transport failed slot=%d", slot)
            return -1

    def backlog(self, slot: int) -> int:
        return self._transports[slot].get_write_buffer_size()

    def park(self, slot: int) -> None:
        self._pause(slot, self._parked)

    def fill(self, slot: int) -> None:
        self._pause(slot, self.full)

    def _pause(self, slot: int, why: set[int]) -> None:
        was_read = slot not in self._parked and slot not in self.full
        why.add(slot)
        if was_read:
            _try(self._transports[slot].pause_reading)

    def resume(self, slot: int) -> None:
        self._go_on(slot, self._parked)

    def empty(self, slot: int) -> None:
        self._go_on(slot, self.full)

    def _go_on(self, slot: int, why: set[int]) -> None:
        was_read = slot not in self._parked and slot not in self.full
        why.discard(slot)
        if not was_read and slot not in self._parked and slot not in self.full:
            _try(self._transports[slot].resume_reading)

    def end(self, slot: int, data: bytes) -> None:
        """With its last bytes."""
        if (transport := self._forget(slot)) is not None:
            if data:
                _try(lambda: transport.write(data))
            _try(transport.close)

    def abort(self, slot: int) -> None:
        if (transport := self._forget(slot)) is not None:
            _try(transport.abort)

    def _forget(self, slot: int) -> Transport | None:
        self._parked.discard(slot)
        self.full.discard(slot)
        return self._transports.pop(slot, None)

    def close(self) -> None:
        for slot in list(self._transports):
            self.abort(slot)


def _try(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:
        logger.exception("transport failed")
