"""A protocol over WebSocket: the HTTP upgrade and the frames around the bytes of a connection. `websockets` reads and
writes frames, without its I/O. What comes may have packets that span frames, and frames that hold many packets: only
the bytes are passed on. How what goes out is cut into messages, the protocol says."""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from penstock.core.ports import Buffer
from penstock.gateways.wire.origins import Origins, is_this_machine
from penstock.gateways.wire.wrapped import WrappedTransport

logger = logging.getLogger("penstock.gateways.wire.websocket")
# Not the library's own: at DEBUG that one prints payloads.
_frame_logger = logging.getLogger("penstock.gateways.wire.websocket.frames")
_frame_logger.setLevel(logging.WARNING)

# Browsers send 1-2 KiB, with large cookies 8.
MAX_REQUEST_BYTES = 16 << 10
MAX_MESSAGE_BYTES_BEFORE_LOGIN = 64 << 10
CLOSE_TIMEOUT_S = 5.0
"""how long the other side has to answer a close, or to read what it is sent with it"""

_DATA = (Opcode.BINARY, Opcode.CONT)
_PONG_BYTE = 0x80 | Opcode.PONG
Refused = Callable[[str, str], None]
"""told of a peer and what was wrong with it"""
_OTHER_VERSION = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 28\r\n\r\nthis server speaks HTTP/1.1\n"
)


class Spoken(NamedTuple):
    """What is spoken inside."""

    name: str
    subprotocol: str
    frames: Callable[[Buffer], Buffer]
    """of what is written at once, as messages without a mask"""


def one_message(data: Buffer) -> bytes:
    """All of it in one binary message of a server."""
    size = len(data)
    if size < 126:
        head = bytes([0x82, size])
    elif size < 65536:
        head = b"\x82\x7e" + size.to_bytes(2, "big")
    else:
        head = b"\x82\x7f" + size.to_bytes(8, "big")
    return b"".join([head, data])


class Connection(Protocol):
    """What this module needs of a connection inside."""

    def connection_made(self, transport: asyncio.Transport) -> None: ...

    def feed(self, data: Buffer) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


def log_refusal(peer: str, reason: str) -> None:
    logger.debug("websocket refused peer=%s reason=%s", peer, reason)


class WebSocketProtocol(asyncio.Protocol):
    """One connection. The MQTT connection is made after the upgrade, lives on a WebSocketTransport, and ends with the
    socket. Keeps at most a message of `max_message_bytes`, and before the server has answered the first packet one of
    64 KiB: longer ones are refused by their header with 1009."""

    def __init__(
        self,
        make: Callable[[], Connection],
        spoken: Spoken,
        path: str,
        allowed_origins: Origins | Sequence[str] = (),
        max_message_bytes: int = 8 << 20,
        handshake_timeout_s: float = 10.0,
        refused: Refused = log_refusal,
        is_development: bool = False,
    ) -> None:
        self._make, self._spoken, self._path, self._refused = make, spoken, path, refused
        self._origins = allowed_origins if isinstance(allowed_origins, Origins) else Origins(allowed_origins)
        self._is_local = is_development
        self._max_message_bytes, self._handshake_timeout_s = max_message_bytes, handshake_timeout_s
        self._frames = ServerProtocol(
            subprotocols=[Subprotocol(spoken.subprotocol)],
            max_size=min(max_message_bytes, MAX_MESSAGE_BYTES_BEFORE_LOGIN),
            logger=_frame_logger,
        )
        self._transport: asyncio.Transport
        self._inner: Connection | None = None
        self._timer: asyncio.TimerHandle
        self._request_bytes = 0
        self._is_refused = False
        self._is_write_paused = False
        self._held_pong = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(self._handshake_timeout_s, self._give_up)

    def data_received(self, data: bytes) -> None:
        self._frames.receive_data(data)
        if self._inner is not None:
            self._take(self._frames.events_received())
        elif not self._is_refused:
            self._request_bytes += len(data)
            self._greet(self._frames.events_received())
        self._flush()

    def eof_received(self) -> None:
        self._frames.receive_eof()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._is_write_paused = True
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        if self._held_pong and not self._frames.eof_sent:
            self._transport.write(self._held_pong)
        self._held_pong = b""
        if self._inner is not None:
            self._inner.resume_writing()

    def send(self, data: Buffer) -> None:
        """Whole packets, each in a frame of its own. Dropped once the connection is closing, as by any transport."""
        if not self.is_closing:
            self._frames.max_message_size = self._max_message_bytes
            self._transport.write(self._spoken.frames(data))

    def close(self, code: CloseCode = CloseCode.NORMAL_CLOSURE) -> None:
        """Say so, and end when the other side has answered, or not answered in time."""
        if self._frames.state is State.OPEN:
            self._frames.send_close(code)
            # Its answer is behind what it sent before, which nobody takes any more.
            self._transport.resume_reading()
            self._flush()
            self._end_soon()

    @property
    def is_closing(self) -> bool:
        return self._frames.state is not State.OPEN or self._transport.is_closing()

    def _greet(self, events: Sequence[object]) -> None:
        match events:
            case [] if self._frames.eof_sent:
                self._tell_refused(str(self._frames.handshake_exc))
                if _is_of_other_version(self._frames.handshake_exc):
                    self._transport.write(_OTHER_VERSION)
            case []:
                if self._request_bytes > MAX_REQUEST_BYTES:
                    self._reject(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long")
            case [Request() as request] if not (self._frames.reader.buffer or self._frames.writes):
                self._answer(request)
            case _:
                # Frames before the upgrade was accepted: what asks for it waits for the answer.
                self._tell_refused("frames before the upgrade")
                self._transport.abort()

    def _answer(self, request: Request) -> None:
        origins, hosts = request.headers.get_all("Origin"), request.headers.get_all("Host")
        if request.path.partition("?")[0] != self._path:
            self._reject(http.HTTPStatus.NOT_FOUND, f"{self._spoken.name} is at another path of this server")
        elif len(hosts) != 1 or len(origins) > 1:
            self._reject(http.HTTPStatus.BAD_REQUEST, "a request has one Host and at most one Origin")
        elif self._is_local and not is_this_machine(hosts[0]):
            reason = "in development mode the server answers to localhost only"
            self._reject(http.HTTPStatus.MISDIRECTED_REQUEST, reason)
        elif not self._origins.allow(origins[0] if origins else None, hosts[0]):
            self._reject(http.HTTPStatus.FORBIDDEN, "this origin is not in allowed_origins")
        else:
            self._upgrade(self._frames.accept(request))

    def _upgrade(self, response: Response) -> None:
        self._frames.send_response(response)
        self._flush()
        if response.status_code != http.HTTPStatus.SWITCHING_PROTOCOLS:
            self._tell_refused(str(self._frames.handshake_exc))
            return
        self._timer.cancel()
        self._inner = self._make()
        self._inner.connection_made(WebSocketTransport(self._transport, self))
        if self._is_write_paused:
            self._inner.pause_writing()

    def _reject(self, status: http.HTTPStatus, reason: str) -> None:
        self._tell_refused(reason)
        self._frames.send_response(self._frames.reject(status, f"{reason}\n"))

    def _tell_refused(self, reason: str) -> None:
        self._is_refused = True
        peer = self._transport.get_extra_info("peername")
        self._refused(str(peer[0]) if peer else "", reason)

    def _take(self, events: Sequence[object]) -> None:
        """What one receive brought is fed at once, however many frames it came in."""
        chunks: list[Buffer] = []
        is_text = False
        for event in events:
            if isinstance(event, Frame) and event.opcode in _DATA:
                chunks.append(event.data)
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                is_text = True
                break
        # After this side has closed, what still comes is for nobody.
        if chunks and self._inner is not None and not self._has_closed_first:
            self._inner.feed(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        if is_text and self._frames.state is State.OPEN:
            self._frames.fail(CloseCode.UNSUPPORTED_DATA, f"{self._spoken.name} is binary")

    @property
    def _has_closed_first(self) -> bool:
        return self._frames.close_sent is not None and self._frames.close_rcvd_then_sent is not True

    def _flush(self) -> None:
        writes = self._frames.data_to_send()
        if not writes or self._transport.is_closing():
            return
        is_end = not writes[-1]
        if self._is_write_paused:
            writes = self._without_pongs(writes)
        if data := writes[0] if len(writes) == 1 else b"".join(writes):
            self._transport.write(data)
        if is_end:
            self._end()

    def _without_pongs(self, writes: list[bytes]) -> list[bytes]:
        """The last one is kept until the other side reads again, which the specification allows: else pings would fill
        the memory."""
        for data in writes:
            if data and data[0] == _PONG_BYTE:
                self._held_pong = data
        return [data for data in writes if not data or data[0] != _PONG_BYTE]

    def _end(self) -> None:
        """The last frame is sent. Closing at once could reset the connection before it is read, so what still comes is
        read and dropped until the other side has closed as well, for a while."""
        self._end_soon()
        if self._transport.can_write_eof():
            self._transport.resume_reading()
            self._transport.write_eof()
        else:
            self._transport.close()

    def _end_soon(self) -> None:
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self._transport.abort)

    def _give_up(self) -> None:
        self._tell_refused("no upgrade in time")
        self._transport.abort()


def _is_of_other_version(error: Exception | None) -> bool:
    """Of a request that the library could not read, and closes without an answer: it says why in words only. Those of
    MQTT itself, at the wrong port, are no HTTP of any version."""
    why = str(error and error.__cause__)
    return why.startswith("unsupported protocol") and " HTTP/" in why.rpartition(":")[2]


class WebSocketTransport(WrappedTransport):
    """What the MQTT connection writes to: whole packets in each call."""

    __slots__ = ("_socket",)

    def __init__(self, below: asyncio.Transport, socket: WebSocketProtocol) -> None:
        super().__init__(below)
        self._socket = socket

    def write(self, data: Buffer) -> None:
        self._socket.send(data)

    def close(self) -> None:
        self._socket.close()

    def is_closing(self) -> bool:
        return self._socket.is_closing

    def can_write_eof(self) -> bool:
        return False

    def write_eof(self) -> None:
        raise NotImplementedError("a WebSocket has no half-closed state: close it")
