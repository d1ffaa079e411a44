"""Listening sockets and the accepting of connections: quick, in small steps, and never behind a handshake."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from penstock.core.errors import CannotListen
from penstock.gateways.wire.listener import Inner
from penstock.gateways.wire.secure import ShakeHands

logger = logging.getLogger("penstock.server.listeners")

BACKLOG = 4096
# Between two looks at established connections; a burst of connects must not hold them up.
_ACCEPTED_AT_ONCE = 64
# A handshake costs a socket and some 50 KiB until its deadline; the oldest gives way to a newer one.
_HANDSHAKES_MAX = 4096
_RETRY_S = 1.0
_QUIET_S = 60.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_MISSING = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

MakeProtocol = Callable[[], Inner]
Adopt = Callable[[socket.socket, object], None]
"""with the address of the peer"""


def bind(name: str, host: str, port: int) -> list[socket.socket]:
    """One for each address that the host has, all with the same port; nobody can connect yet. CannotListen, and nothing
    is left open."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise CannotListen(name, host, port, error.strerror or str(error)) from None
    opened: list[socket.socket] = []
    refusal: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(found):
        try:
            # Port 0 is any free one, but one and the same for all addresses.
            chosen = opened[0].getsockname()[1] if opened else port
            opened.append(_bound(family, (address[0], chosen, *address[2:])))
        except OSError as error:
            refusal = refusal or error
            if error.errno not in _MISSING:
                break
    if refusal is not None and (not opened or refusal.errno not in _MISSING):
        for sock in opened:
            sock.close()
        raise CannotListen(name, host, port, refusal.strerror or str(refusal))
    return opened


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


class Listening:
    """One listener at work, on one loop. serve() says what connections get, and may be called again while it runs.

    Accepts by itself instead of by loop.create_server(): where that runs out of descriptors, it tries and logs as often
    as the backlog is long (CPython 3.11)."""

    def __init__(
        self,
        name: str,
        sockets: list[socket.socket],
        may_connect: Callable[[str], bool] | None = None,
        has_room: Callable[[int], bool] = lambda descriptor: True,
    ) -> None:
        """`has_room` is asked with the descriptor of a connection, `may_connect` with the peer's address, before
        anything is read from it."""
        self._has_room = has_room
        self.name = name
        self.failed_handshakes = self.refused = 0
        self._sockets, self._may_connect = sockets, may_connect
        self._make_protocol: MakeProtocol = asyncio.Protocol
        self._secure: ShakeHands | None = None
        self._adopt: Adopt | None = None
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._retries: dict[socket.socket, asyncio.TimerHandle] = {}
        self._told_at: dict[str, float] = {}
        self._is_started = False

    def serve(self, make_protocol: MakeProtocol, secure: ShakeHands | None = None, adopt: Adopt | None = None) -> None:
        """A protocol for each connection to come, behind TLS if it is to be `secure`; or somebody who serves its socket
        by himself."""
        self._make_protocol, self._secure, self._adopt = make_protocol, secure, adopt

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first of its sockets."""
        name = self._sockets[0].getsockname()
        return str(name[0]), int(name[1])

    @property
    def handshakes(self) -> int:
        """Connections that were accepted and that no protocol has yet."""
        return len(self._handshakes)

    @property
    def is_accepting(self) -> bool:
        """Started, not closed, and not waiting for descriptors."""
        return self._is_started and not self._retries

    def start(self) -> None:
        """CannotListen if another process was quicker."""
        for sock in self._sockets:
            try:
                sock.listen(BACKLOG)
            except OSError as error:
                raise CannotListen(self.name, *self.address, error.strerror or str(error)) from None
            self._loop.add_reader(sock.fileno(), self._accept, sock)
        self._is_started = True

    async def close(self) -> None:
        """No further connection is accepted, and handshakes under way end; those that have one stay."""
        self._is_started = False
        for retry in self._retries.values():
            retry.cancel()
        for sock in self._sockets:
            if sock.fileno() >= 0:
                self._loop.remove_reader(sock.fileno())
            sock.close()
        handshakes = list(self._handshakes)
        for handshake in handshakes:
            handshake.cancel()
        await asyncio.gather(*handshakes, return_exceptions=True)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, peer = sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._back_off(sock, error)
                return
            self._admit(connection, peer)

    def _back_off(self, sock: socket.socket, error: OSError) -> None:
        self._loop.remove_reader(sock.fileno())
        self._retries[sock] = self._loop.call_later(_RETRY_S, self._resume, sock)
        advice = "raise the limit of open files (ulimit -n)" if error.errno in _EXHAUSTED else "it is tried again"
        self._tell("accept", "cannot accept connections listener=%s reason=%s: %s", error.strerror, advice)

    def _resume(self, sock: socket.socket) -> None:
        del self._retries[sock]
        self._loop.add_reader(sock.fileno(), self._accept, sock)

    def _admit(self, connection: socket.socket, address: tuple[object, ...]) -> None:
        peer = str(address[0])
        if not self._has_room(connection.fileno()):
            self.refused += 1
            connection.close()
            self._tell(
                "full", "connection refused, there are as many as max_connections allows listener=%s peer=%s", peer
            )
            return
        if self._may_connect is not None and not self._may_connect(peer):
            self.refused += 1
            connection.close()
            self._tell("refused", "too many connections listener=%s peer=%s refused=%d", peer, self.refused)
            return
        connection.setblocking(False)
        if self._adopt is not None:
            self._adopt(connection, address)
            return
        if len(self._handshakes) >= _HANDSHAKES_MAX:
            next(iter(self._handshakes)).cancel()
        task = self._loop.create_task(self._shake_hands(connection, peer))
        self._handshakes[task] = None
        task.add_done_callback(self._handshakes.pop)

    async def _shake_hands(self, connection: socket.socket, peer: str) -> None:
        try:
            if self._secure is not None:
                await self._secure(connection, self._make_protocol, None)
            else:
                await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError as error:
            # The socket is closed. Whoever sends rubbish to a TLS port is no news, line by line.
            self.failed_handshakes += 1
            self._tell("tls", "handshake failed listener=%s peer=%s reason=%s", peer, _why(error))

    def _tell(self, kind: str, text: str, *facts: object) -> None:
        """Once a minute for each kind, whatever peers do."""
        now = self._loop.time()
        if now - self._told_at.get(kind, -_QUIET_S) >= _QUIET_S:
            self._told_at[kind] = now
            logger.warning(text, self.name, *facts)


def _why(error: OSError) -> str:
    return getattr(error, "reason", None) or error.strerror or str(error) or type(error).__name__
