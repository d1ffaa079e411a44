"""A connection of a reactor, as what sends to one connection knows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.gateways.wire.reactor import Reactor


class Facts(Protocol):
    """What is known of the socket below: asyncio's transports have it."""

    def get_extra_info(self, name: str, default: object = None) -> object: ...


class SlotTransport:
    """Writes leave with the reactor's next flush(). `soon` is called where it has something else to look at."""

    __slots__ = ("_address", "_facts", "_is_closing", "_reactor", "_soon", "generation", "slot")

    def __init__(
        self, reactor: Reactor, slot: int, soon: Callable[[], None], address: object = None, facts: Facts | None = None
    ) -> None:
        self._reactor, self.slot, self.generation = reactor, slot, reactor.generation[slot]
        self._soon, self._address, self._facts = soon, address, facts
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self._reactor.write(self.slot, self.generation, data)

    def close(self) -> None:
        self._is_closing = True
        self._reactor.end(self.slot, self.generation)
        self._soon()

    def abort(self) -> None:
        self._is_closing = True
        self._reactor.abort(self.slot, self.generation)
        self._soon()

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._reactor.park(self.slot, self.generation)

    def resume_reading(self) -> None:
        self._reactor.resume(self.slot, self.generation)
        self._soon()

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "peername" and self._facts is None:
            return self._address
        return default if self._facts is None else self._facts.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._reactor.backlog(self.slot, self.generation)
