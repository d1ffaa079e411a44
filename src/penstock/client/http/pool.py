"""Connections that are kept open between requests."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from penstock.client.http.connection import HttpConnection, open_connection
from penstock.client.http.options import HttpOptions
from penstock.core.errors import Closed

# Below what servers and proxies keep an idle connection for: ours 75 s, most proxies 60 s.
_IDLE_S = 50.0


@dataclass(frozen=True, slots=True)
class Lent:
    connection: HttpConnection
    is_reused: bool
    """the server may have closed it just now"""


class Pool:
    """Used from one loop. Bounded: lend() waits while all are out."""

    def __init__(self, options: HttpOptions) -> None:
        self._options, self._tls = options, options.context()
        self._idle: deque[HttpConnection] = deque()
        self._out: set[HttpConnection] = set()
        self._room = asyncio.Semaphore(options.max_connections)
        self._is_closed = False

    async def lend(self, is_fresh: bool = False) -> Lent:
        """To be given back. ConnectionLost if there is no way to the server."""
        await self._room.acquire()
        try:
            connection = None if is_fresh else self._from_idle()
            lent = Lent(connection, True) if connection else Lent(await self.open(), False)
        except BaseException:
            self._room.release()
            raise
        self._out.add(lent.connection)
        return lent

    def give_back(self, lent: Lent) -> None:
        """One in the middle of an exchange is closed."""
        connection = lent.connection
        self._room.release()
        self._out.discard(connection)
        if self._is_closed or not connection.is_usable:
            connection.close()
            return
        connection.idle_since_s = asyncio.get_running_loop().time()
        self._idle.append(connection)

    async def open(self) -> HttpConnection:
        """One beside those that are lent, to be dropped in the end."""
        if self._is_closed:
            raise Closed("the client was closed: make another one to go on")
        connection = await open_connection(self._options, self._tls)
        self._out.add(connection)
        return connection

    def drop(self, connection: HttpConnection) -> None:
        self._out.discard(connection)
        connection.close()

    def close(self) -> None:
        self._is_closed = True
        for connection in (*self._idle, *self._out):
            connection.close()
        self._idle.clear()

    def _from_idle(self) -> HttpConnection | None:
        """The one used last, so that those not needed grow old."""
        oldest_s = asyncio.get_running_loop().time() - _IDLE_S
        while self._idle and self._idle[0].idle_since_s < oldest_s:
            self._idle.popleft().close()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None
