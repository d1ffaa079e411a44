"""The bytes between a client and its server, over TCP, TLS or a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import Protocol

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from penstock.client.errors import ConnectionLost
from penstock.client.mqtt.options import MqttOptions

READ_BYTES = 1 << 16
CLOSE_TIMEOUT_S = 2.0
# A server puts all that it has for a client into one frame.
MAX_FRAME_SLACK_BYTES = 16 << 20
# Not the library's own: at DEBUG that one prints payloads.
_frame_logger = logging.getLogger("penstock.client.frames")
_frame_logger.setLevel(logging.WARNING)


class Link(Protocol):
    async def receive(self) -> bytes:
        """Some bytes; none at the end. OSError if the network failed."""
        ...

    def send(self, data: bytes) -> None:
        """Dropped if the network has failed: receive() and drain() tell."""
        ...

    async def drain(self) -> None:
        """Returns when there is room for more. OSError if the network failed."""
        ...

    async def close(self) -> None:
        """What was sent goes out first, unless that takes too long."""
        ...

    def abort(self) -> None: ...


async def open_link(options: MqttOptions) -> Link:
    """ConnectionLost with what to do, if there is no way to the server."""
    try:
        link = await _open_stream(options)
        if options.websocket_path is None:
            return link
        return await _upgrade(link, options, options.websocket_path)
    except ssl.SSLCertVerificationError as error:
        raise ConnectionLost(
            f"the certificate of {options!s} is not trusted ({error.verify_message}): "
            f"give the authority that signed it, to a command with --ca-file or by a context"
        ) from error
    except ssl.SSLError as error:
        raise ConnectionLost(f"no TLS with {options!s} ({error.reason}): does that port speak it?") from error
    except OSError as error:
        raise ConnectionLost(
            f"no connection to {options!s} ({error.strerror or error}): "
            f"start a server there with `penstock serve`, or name another host and port"
        ) from error


async def _open_stream(options: MqttOptions) -> StreamLink:
    host, port = options.address
    name = None if options.tls is None else options.tls_server_name or host
    reader, writer = await asyncio.open_connection(host, port, ssl=options.tls, server_hostname=name, limit=READ_BYTES)
    return StreamLink(reader, writer)


class StreamLink:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def receive(self) -> bytes:
        return await self._reader.read(READ_BYTES)

    def send(self, data: bytes) -> None:
        if not self._writer.transport.is_closing():
            self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self.abort()

    def abort(self) -> None:
        self._writer.transport.abort()


class WebSocketLink:
    """`websockets` makes and reads the frames, without its I/O."""

    def __init__(self, below: StreamLink, frames: ClientProtocol) -> None:
        self._below, self._frames = below, frames

    async def receive(self) -> bytes:
        while True:
            if data := self._take():
                return data
            if self._frames.state is not State.OPEN or not await self._read():
                return b""

    def send(self, data: bytes) -> None:
        if self._frames.state is State.OPEN:
            self._frames.send_binary(data)
            self._flush()

    async def drain(self) -> None:
        await self._below.drain()

    async def close(self) -> None:
        """The other side answers a close with its own, and with the end of the stream."""
        if self._frames.state is State.OPEN:
            self._frames.send_close(1000)
            self._flush()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    while await self._read():
                        self._frames.events_received()
        await self._below.close()

    def abort(self) -> None:
        self._below.abort()

    async def _read(self) -> bool:
        """False at the end of the stream, or of what can be understood."""
        data = await self._below.receive()
        if data:
            self._frames.receive_data(data)
        else:
            self._frames.receive_eof()
        self._flush()
        return bool(data) and not self._frames.eof_sent

    def _take(self) -> bytes:
        data = (Opcode.BINARY, Opcode.CONT)
        events = self._frames.events_received()
        return b"".join([event.data for event in events if isinstance(event, Frame) and event.opcode in data])

    def _flush(self) -> None:
        if data := b"".join(self._frames.data_to_send()):
            self._below.send(data)

    async def upgrade(self) -> None:
        """ConnectionLost if the server does not, or speaks something else."""
        self._frames.send_request(self._frames.connect())
        self._flush()
        while self._frames.state is State.CONNECTING and await self._read():
            pass
        if self._frames.state is not State.OPEN or self._frames.subprotocol is None:
            why = self._frames.handshake_exc or "it does not speak MQTT there"
            raise ConnectionLost(f"the server opened no WebSocket ({why}): check its port and the path")


async def _upgrade(below: StreamLink, options: MqttOptions, path: str) -> WebSocketLink:
    host, port = options.address
    route, _, query = path.partition("?")
    frames = ClientProtocol(
        WebSocketURI(options.tls is not None, host, port, route, query),
        subprotocols=[Subprotocol("mqtt")],
        max_size=options.max_packet_bytes + MAX_FRAME_SLACK_BYTES,
        logger=_frame_logger,
    )
    link = WebSocketLink(below, frames)
    try:
        await link.upgrade()
    except BaseException:
        link.abort()
        raise
    return link
