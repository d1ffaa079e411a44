"""One connection: a request goes out, its answer comes in, as a whole or piece by piece."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from dataclasses import dataclass, field

from httptools import HttpParserError, HttpResponseParser

from penstock.client.errors import ConnectionLost
from penstock.client.http.options import HttpOptions

# Of headers, or whatever else is no body: the parser keeps it.
_MAX_HEAD_BYTES = 64 << 10
# What waits of a stream before reading pauses.
_STREAM_BUFFER_BYTES = 256 << 10


@dataclass(slots=True)
class Response:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    """by names in small letters"""
    body: bytes = b""


class Lost(Exception):
    """The connection ended before the answer did. `is_begun`: some of the answer had come."""

    def __init__(self, reason: str, is_begun: bool) -> None:
        super().__init__(reason)
        self.is_begun = is_begun


class HttpConnection(asyncio.Protocol):
    """One exchange at a time: begin(), then head(), then body() or chunk() until it is None. What goes wrong between
    them ends the connection, and is told by whichever is waited for next."""

    def __init__(self, max_answer_bytes: int) -> None:
        self._max_answer_bytes = max_answer_bytes
        self._transport: asyncio.Transport
        self._parser = HttpResponseParser(self)
        self._chunks: deque[bytes] = deque()
        self._changed: asyncio.Future[None] | None = None
        self._response: Response | None = None
        self._headers: dict[str, str] = {}
        self._head_bytes = 0
        self._size_bytes = 0
        self._is_streaming = self._is_asked = self._has_head = self._is_complete = False
        self._ended: str | None = None
        self._keeps_alive = False
        self.idle_since_s = 0.0

    # The exchange

    @property
    def is_usable(self) -> bool:
        """For another request."""
        return self._ended is None and not self._is_asked and not self._transport.is_closing()

    def begin(self, request: bytes, is_streaming: bool = False) -> None:
        self._is_streaming, self._is_asked = is_streaming, True
        self._has_head = self._is_complete = False
        self._size_bytes = 0
        self._chunks.clear()
        self._transport.write(request)

    async def head(self) -> Response:
        """Status and headers. Lost."""
        while not self._has_head:
            await self._change()
        assert self._response is not None
        return self._response

    async def answer(self) -> Response:
        """The whole of it."""
        response = await self.head()
        while not self._is_complete:
            await self._change()
        response.body = b"".join(self._chunks)
        self._finish()
        return response

    async def chunk(self) -> bytes | None:
        """The next piece of the body, None at its end."""
        while not self._chunks:
            if self._is_complete:
                self._finish()
                return None
            await self._change()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._size_bytes = 0
        if self._ended is None:
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        self._end("it was closed")
        self._transport.abort()

    def _finish(self) -> None:
        self._is_asked = False
        self._chunks.clear()
        if not self._keeps_alive:
            self.close()

    async def _change(self) -> None:
        if self._ended is not None:
            raise Lost(self._ended, self._has_head)
        self._changed = asyncio.get_running_loop().create_future()
        try:
            await self._changed
        finally:
            self._changed = None

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _end(self, reason: str) -> None:
        if self._ended is None:
            self._ended = reason
        self._wake()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._is_asked or self._is_complete:
            self._end("the server sent what nobody asked for")
            self._transport.abort()
            return
        try:
            self._head_bytes += len(data)
            self._parser.feed_data(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                raise HttpParserError(f"over {_MAX_HEAD_BYTES} bytes of headers")
        except HttpParserError as error:
            self._end(f"what came is not HTTP ({error})")
            self._transport.abort()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._has_head and not self._is_complete and _is_until_end(self._headers):
            self._is_complete = True
        self._end("the connection was closed by the server" if exc is None else f"the connection broke ({exc})")

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_message_begin(self) -> None:
        self._headers = {}

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        status = self._parser.get_status_code()
        if status >= 200:
            self._response = Response(status, self._headers)
            self._has_head = True
            self._keeps_alive = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        self._size_bytes += len(body)
        self._chunks.append(body)
        if self._is_streaming:
            if self._size_bytes > _STREAM_BUFFER_BYTES:
                self._transport.pause_reading()
        elif self._size_bytes > self._max_answer_bytes:
            raise HttpParserError(f"the answer is over {self._max_answer_bytes} bytes")

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        self._is_complete = self._has_head


def _is_until_end(headers: dict[str, str]) -> bool:
    """The body ends with the connection, as nothing else says where."""
    return "content-length" not in headers and "transfer-encoding" not in headers


async def open_connection(options: HttpOptions, tls: ssl.SSLContext | None) -> HttpConnection:
    """ConnectionLost with what to do, if there is no way to the server."""
    if options.connect is not None:
        connection = HttpConnection(options.max_answer_bytes)
        await options.connect(connection)
        return connection
    host, port = options.address
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(options.connect_timeout_s):
            _, connection = await loop.create_connection(
                lambda: HttpConnection(options.max_answer_bytes), host, port, ssl=tls
            )
    except TimeoutError:
        raise ConnectionLost(
            f"no connection to {options.url} within {options.connect_timeout_s:g} s: check host, port and firewalls"
        ) from None
    except ssl.SSLCertVerificationError as error:
        raise ConnectionLost(
            f"the certificate of {options.url} is not trusted ({error.verify_message}): "
            f"give the authority that signed it, with TlsFiles(ca_file=…), or --ca-file of a command or a context"
        ) from error
    except ssl.SSLError as error:
        raise ConnectionLost(
            f"no TLS with {options.url} ({error.reason}): if that port speaks none, write http://"
        ) from error
    except OSError as error:
        raise ConnectionLost(
            f"no connection to {options.url} ({error.strerror or error}): "
            f"start a server there with `penstock serve`, or give another url"
        ) from error
    return connection
