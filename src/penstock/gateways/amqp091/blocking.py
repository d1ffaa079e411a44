"""A disk that is low: publishers are told so, and wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from penstock.codecs.amqp091.methods import ConnectionBlocked, ConnectionUnblocked
from penstock.core.errors import DiskLow
from penstock.gateways.amqp091.connection import Connection

_LOOK_AGAIN_S = 0.25
_CAPABILITY = "connection.blocked"


class Blocking:
    """Of one gateway. Used from the loop."""

    def __init__(self) -> None:
        self._waiting: dict[Connection, int] = {}
        """how many of its publications wait"""

    async def until_taken(self, connections: Iterable[Connection], publish: Callable[[], Awaitable[object]]) -> None:
        """Publish, again and again while the disk is low; given up when nobody is there any more who would hear of it.
        Raises what else is refused."""
        told: list[Connection] = []
        try:
            while True:
                try:
                    await publish()
                    return
                except DiskLow:
                    if not told:
                        told = list(connections)
                        self._block(told)
                if all(connection.is_ended for connection in told):
                    return
                await asyncio.sleep(_LOOK_AGAIN_S)
        finally:
            self._unblock(told)

    def _block(self, connections: Iterable[Connection]) -> None:
        for connection in connections:
            count = self._waiting.get(connection, 0)
            self._waiting[connection] = count + 1
            if not count and connection.is_open:
                connection.is_blocked = True
                if _CAPABILITY in connection.capabilities:
                    connection.send(0, ConnectionBlocked("low on disk"))

    def _unblock(self, connections: Iterable[Connection]) -> None:
        for connection in connections:
            self._waiting[connection] -= 1
            if self._waiting[connection]:
                continue
            del self._waiting[connection]
            if connection.is_open and connection.is_blocked:
                connection.is_blocked = False
                if _CAPABILITY in connection.capabilities:
                    connection.send(0, ConnectionUnblocked())
