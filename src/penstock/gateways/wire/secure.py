"""TLS for connections of any door. What all of them send and get goes through a reactor of its own, encrypted, once a
turn of the loop; what was in it is given to protocols as asyncio's transports do."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from array import array
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

from penstock.core.ports import Buffer
from penstock.gateways.wire.listener import Inner
from penstock.gateways.wire.platform import open_reactor
from penstock.gateways.wire.reactor import Address, Reactor, ReactorOptions

logger = logging.getLogger("penstock.gateways.wire.secure")

# As asyncio's transports have it.
_HIGH_WATER_BYTES = 64 << 10
_PER_TURN_BYTES = 64 << 10
_DEADLINES_S = 1.0
# What a protocol without a buffer of its own gets at a time: no record is longer.
_RECORD_BYTES = 16 << 10
# A handshake takes a millisecond and more: those who have theirs behind them do not wait for many.
_HANDSHAKES_A_TURN = 8

ShakeHands = Callable[[socket.socket, Callable[[], Inner], Address | None], Awaitable[None]]
"""SecureConnections.shake_hands(), of one listener"""


class SecureConnections:
    """Of one loop. close() it in the end: whoever is still there is cut off."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.reactor: Reactor = open_reactor(
            ReactorOptions(per_turn_bytes=_PER_TURN_BYTES, high_water_bytes=_HIGH_WATER_BYTES)
        )
        self._by_slot: dict[int, SecureTransport] = {}
        self._is_called = self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        loop.add_reader(self.reactor.fileno(), self._turn)

    async def shake_hands(
        self,
        sock: socket.socket,
        make_protocol: Callable[[], Inner],
        peername: Address | None,
        context: ssl.SSLContext,
        deadline_s: float,
    ) -> None:
        """Returns when a protocol has the connection, whose other side is `peername`, or who connected. OSError if
        there is no TLS with it, or not in time: it is closed then. The socket is no longer the caller's."""
        facts = {"peername": peername or _name(sock.getpeername), "sockname": _name(sock.getsockname)}
        done: asyncio.Future[None] = self._loop.create_future()
        slot = self.reactor.add(sock.detach(), 0)
        made = self._by_slot[slot] = SecureTransport(self, slot, make_protocol, context, facts, done)
        self._look_at_deadlines()
        try:
            async with asyncio.timeout(deadline_s):
                await done
        except TimeoutError:
            raise ConnectionAbortedError(f"no TLS within {deadline_s:g} s") from None
        finally:
            if made.is_shaking and not made.is_closing():
                made.abort()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self.reactor.fileno())
        if self._timer is not None:
            self._timer.cancel()
        self.reactor.close()
        for transport in list(self._by_slot.values()):
            transport.lost()

    # A turn

    def soon(self) -> None:
        """Something was written, or ended."""
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_called = False
        if self._is_closed:
            return
        reactor, by_slot = self.reactor, self._by_slot
        if reactor.turn():
            self._take_regions()
            for slot in reactor.clogged:
                by_slot[slot].pause_protocol()
            for slot in reactor.drained:
                by_slot[slot].resume_protocol()
            for slot in reactor.lost:
                by_slot.pop(slot).lost()
        reactor.flush()

    def _take_regions(self) -> None:
        reactor, by_slot, handshakes = self.reactor, self._by_slot, 0
        arena, stops = reactor.arena, reactor.stops
        positions, again = array("i", stops), bytearray(len(stops))
        for region, slot in enumerate(reactor.slots):
            transport = by_slot[slot]
            if transport.is_shaking:
                handshakes += 1
                if handshakes > _HANDSHAKES_A_TURN:
                    positions[region], again[region] = reactor.starts[region], 1
                    continue
            transport.received(arena[reactor.starts[region] : stops[region]])
        reactor.taken(positions, again)
        if handshakes > _HANDSHAKES_A_TURN:
            self.soon()

    def _look_at_deadlines(self) -> None:
        """While there are connections: those that end have a time for it."""
        if self._timer is None and self._by_slot and not self._is_closed:
            self._timer = self._loop.call_later(_DEADLINES_S, self._deadlines)

    def _deadlines(self) -> None:
        self._timer = None
        self._turn()
        self._look_at_deadlines()


class SecureTransport(asyncio.Transport):
    """One connection, from its handshake on. A protocol is made for it when that is done."""

    __slots__ = (
        "_connections",
        "_context",
        "_done",
        "_facts",
        "_generation",
        "_has_ended",
        "_in",
        "_is_closing",
        "_is_paused",
        "_make_protocol",
        "_out",
        "_protocol",
        "_slot",
        "_tls",
    )

    def __init__(
        self,
        connections: SecureConnections,
        slot: int,
        make_protocol: Callable[[], Inner],
        context: ssl.SSLContext,
        facts: dict[str, object],
        done: asyncio.Future[None],
    ) -> None:
        """`done` is told how the handshake ended."""
        super().__init__()
        self._connections, self._slot, self._generation = connections, slot, connections.reactor.generation[slot]
        self._context, self._facts = context, facts
        self._make_protocol: Callable[[], Inner] | None = make_protocol
        self._done: asyncio.Future[None] | None = done
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._protocol: Inner | None = None
        self._is_closing = self._is_paused = self._has_ended = False

    # What comes

    @property
    def is_shaking(self) -> bool:
        return self._done is not None

    def received(self, data: Buffer) -> None:
        if self._is_closing:
            return
        self._in.write(data)
        try:
            if self._done is not None:
                self._tls.do_handshake()
                self._begin(self._done)
            self._read()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)
        except Exception:
            logger.exception("a protocol failed, its connection is cut off")
            self.abort()
        if self._out.pending:
            self._send()

    def _begin(self, done: asyncio.Future[None]) -> None:
        assert self._make_protocol is not None
        self._protocol, self._make_protocol, self._done = self._make_protocol(), None, None
        self._send()
        if not done.done():
            done.set_result(None)
        self._protocol.connection_made(self)

    def _read(self) -> None:
        """SSLWantReadError when there is no more."""
        tls, pending = self._tls, self._in
        while not self._is_paused and not self._is_closing:
            protocol = self._protocol
            if isinstance(protocol, asyncio.BufferedProtocol):
                buffer = protocol.get_buffer(-1)
                size = cast(int, tls.read(len(cast(memoryview, buffer)), cast(bytearray, buffer)))
                if size:
                    protocol.buffer_updated(size)
            else:
                assert protocol is not None
                data = tls.read(_RECORD_BYTES)
                size = len(data)
                if size:
                    protocol.data_received(data)
            if not size:
                self._end_of_stream()
            elif not pending.pending and not tls.pending():
                return  # spares an exception

    def _end_of_stream(self) -> None:
        """The other side says that nothing more comes."""
        if not self._has_ended and self._protocol is not None:
            self._has_ended = True
            self._protocol.eof_received()
            self.close()

    def _fail(self, error: OSError) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)
        if self._out.pending:
            self._send()  # an alert says why
        self._is_closing = True
        self._connections.reactor.end(self._slot, self._generation)
        self._connections.soon()

    def lost(self) -> None:
        """Nothing is left of the connection."""
        if self._done is not None:
            if not self._done.done():
                self._done.set_exception(ConnectionResetError("the connection ended before there was TLS"))
            self._done = None
        if (protocol := self._protocol) is not None:
            if not self._is_closing and not self._has_ended:
                protocol.eof_received()
            self._is_closing, self._protocol = True, None
            protocol.connection_lost(None)

    def pause_protocol(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_protocol(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    # As transports of asyncio

    def get_extra_info(self, name: str, default: object = None) -> object:
        match name:
            case "peername" | "sockname":
                return self._facts[name]
            case "sslcontext":
                return self._context
            case "ssl_object":
                return self._tls
            case "peercert":
                return self._tls.getpeercert()
            case "cipher":
                return self._tls.cipher()
        return default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(Inner, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def write(self, data: Buffer) -> None:
        if data and not self._is_closing:
            try:
                self._tls.write(cast(bytes, data))
            except ssl.SSLError as error:
                self._fail(error)
            self._send()

    def _send(self) -> None:
        self._connections.reactor.write(self._slot, self._generation, self._out.read())
        self._connections.soon()

    def pause_reading(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._connections.reactor.park(self._slot, self._generation)

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._connections.reactor.resume(self._slot, self._generation)
            self._connections.soon()
            if not self._is_closing and (self._in.pending or self._tls.pending()):
                asyncio.get_running_loop().call_soon(self.received, b"")

    def is_reading(self) -> bool:
        return not self._is_paused and not self._is_closing

    def get_write_buffer_size(self) -> int:
        return self._connections.reactor.backlog(self._slot, self._generation)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The lower one is a quarter of the higher one."""
        self._connections.reactor.high_water[self._slot] = _HIGH_WATER_BYTES if high is None else high

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        with suppress(ssl.SSLError):
            self._tls.unwrap()  # says so to the other side, whose word is not waited for
        if self._out.pending:
            self._send()
        self._connections.reactor.end(self._slot, self._generation)
        self._connections.soon()

    def abort(self) -> None:
        self._is_closing = True
        self._connections.reactor.abort(self._slot, self._generation)
        self._connections.soon()


def _name(get: Callable[[], object]) -> object:
    """None where the connection is over already."""
    try:
        return get()
    except OSError:
        return None
