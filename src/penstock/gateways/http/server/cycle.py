"""One request and its answer, between uvicorn's protocol and the application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

from penstock.gateways.http.server.reply import Headers

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent

# Head and body of an answer leave in one write up to here; beyond it, a copy costs more than the second write.
_ONE_WRITE_BYTES = 64 << 10

Done = Callable[[], None]


class _Unheard(asyncio.Event):
    """Of who has not been listened to yet: most never are."""

    def set(self) -> None:
        """There is nobody to wake."""

    def clear(self) -> None:
        """It is never set."""


_UNHEARD = _Unheard()


class Cycle(RequestResponseCycle):
    """As uvicorn has it for what comes and goes in pieces. What is there as a whole, a body or an answer, takes no
    message and one write: a system call costs as much as the rest of a small answer."""

    # What every one begins with, instead of setting it in each.
    access_log = disconnected = response_started = response_complete = False
    more_body = is_unread = True
    chunked_encoding = None
    expected_content_length = 0
    message_event: asyncio.Event = _UNHEARD  # until somebody listens
    body: bytes | bytearray = b""  # type: ignore[assignment]  # what comes in one piece is handed on as it is
    default_headers: list[tuple[bytes, bytes]] = []  # noqa: RUF012  # never changed: there are none

    def __init__(
        self,
        scope: Any,
        transport: asyncio.Transport,
        flow: FlowControl,
        keep_alive: bool,
        waiting_for_100_continue: bool,
        on_response: Done,
    ) -> None:
        self.scope, self.transport, self.flow, self.on_response = scope, transport, flow, on_response
        self.keep_alive, self.waiting_for_100_continue = keep_alive, waiting_for_100_continue

    async def receive(self) -> ASGIReceiveEvent:
        if self.message_event is _UNHEARD:
            self.message_event = asyncio.Event()
            if self.disconnected or (self.is_unread and (self.body or not self.more_body)):
                self.message_event.set()
        return await super().receive()

    async def serve(self, answer: Callable[[Cycle], Awaitable[None]], tasks: set[asyncio.Task[None]]) -> None:
        """The task of the request. Whatever ends it, the client is not left waiting."""
        try:
            await answer(self)
        except BaseException:
            # Cancelled, as the server ends: all else is answered by the application.
            if not self.response_started:
                await self.send_500_response()
            else:
                self.transport.close()
        else:
            if not self.response_complete and not self.disconnected:
                self.transport.close()
        finally:
            self.on_response = _nothing
            tasks.discard(asyncio.current_task())

    def whole_body(self) -> bytes | bytearray | None:
        """The body, if all of it has come; None: it is still coming, or the client is gone, as receive() tells."""
        if self.more_body or self.disconnected:
            return None
        if self.flow.read_paused:
            self.flow.resume_reading()
        self.is_unread = False
        self.message_event.clear()
        body, self.body = self.body, b""
        return body

    async def answer(self, status: int, headers: Headers, body: bytes, content_type: bytes, own: bytes) -> None:
        """A whole answer. `own` are lines of the head that need no look. `headers` may end the connection."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        head = STATUS_LINE[status] + own
        if status != 204:
            head += b"content-length: %d\r\ncontent-type: %b\r\n" % (len(body), checked(content_type))
        if headers:
            head += self._lines(headers)
        if not self.keep_alive:
            head += b"connection: close\r\n"
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        if self.scope["method"] == "HEAD" or status == 204:
            body = b""
        if len(body) <= _ONE_WRITE_BYTES:
            self.transport.write(b"%b\r\n%b" % (head, body))
        else:
            self.transport.write(head + b"\r\n")
            self.transport.write(body)
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _lines(self, headers: Headers) -> bytes:
        """Of the head; what they say of the connection is kept for its end."""
        lines: list[bytes] = []
        for name, value in headers:
            if HEADER_RE.search(name):
                raise RuntimeError("a header of an answer has a name that HTTP does not allow")
            if name == b"connection" and b"close" in [token.lower().strip() for token in value.split(b",")]:
                self.keep_alive = False
            else:
                lines += [name.lower(), b": ", checked(value), b"\r\n"]
        return b"".join(lines)


def checked(value: bytes) -> bytes:
    if HEADER_VALUE_RE.search(value):
        raise RuntimeError("a header of an answer has a value that HTTP does not allow")
    return value


def _nothing() -> None:
    """The request is over: nobody is told of an answer that comes now."""
