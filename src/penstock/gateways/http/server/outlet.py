"""The way out of a connection, for those who write the same bytes to many: no task and no message for each write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

# What waits in a connection beyond it makes the outlet full.
_HIGH_BYTES = 16 << 10


class Flow(Protocol):
    """As uvicorn keeps it."""

    write_paused: bool


class Outlet:
    """Used between the start and the end of an answer whose body is chunked."""

    __slots__ = ("_flow", "_transport", "is_lost", "on_change")

    def __init__(self, transport: asyncio.Transport, flow: Flow) -> None:
        self._transport, self._flow = transport, flow
        self.is_lost = False
        self.on_change: Callable[[], None] | None = None
        """called when there is room again, and when the connection is lost"""

    @property
    def is_full(self) -> bool:
        return self._flow.write_paused

    @property
    def waiting_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def keep_short(self) -> None:
        """So much may wait in it and no more: there are many of these connections."""
        self._transport.set_write_buffer_limits(_HIGH_BYTES)

    def write(self, data: bytes | memoryview) -> None:
        """Whole chunks, or the parts of one after the other."""
        if not self.is_lost:
            self._transport.write(data)

    def make_room(self) -> None:
        """The connection has sent most of what waited."""
        if self.on_change is not None:
            self.on_change()

    def lose(self) -> None:
        self.is_lost = True
        self.make_room()
