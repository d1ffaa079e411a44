"""Server-sent events: how they are written, the streams they go to, and what all streams have in common."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import msgspec

from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.server.outlet import Outlet
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import Headers

RETRY_MS = 2000
HEARTBEAT_S = 15.0
EVENT_STREAM = "text/event-stream"

_HEADERS: Headers = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # A proxy that gathers the answer before it passes it on would hold events back.
    (b"x-accel-buffering", b"no"),
)
# Written in parts, the next when the one before has left: longer ones are shared by those they go to.
_PIECE_BYTES = 16 << 10
_LONG_BYTES = 32 << 10
# Streams looked after in one turn of the loop.
_IN_A_TURN = 100


class Ended(msgspec.Struct, frozen=True):
    """Event `end`: no more messages will come."""

    reason: str


def event(data: bytes, event_id: str = "", kind: str = "") -> bytes:
    """`data` is JSON: it has no line breaks of its own."""
    named = f"event: {kind}\n" if kind else ""
    placed = f"id: {event_id}\n" if event_id else ""
    return b"%b%bdata: %b\n\n" % (named.encode(), placed.encode(), data)


def chunk(data: bytes) -> bytes:
    """As HTTP/1.1 frames a part of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


_HEARTBEAT = chunk(b":\n\n")


class Answer(Protocol):
    """To a request, sent as it comes."""

    options: HttpOptions

    @property
    def outlet(self) -> Outlet: ...

    async def start(self, status: int, headers: Headers) -> None: ...

    async def send(self, data: bytes) -> None:
        """Waits while the client does not read."""

    async def end(self) -> None: ...

    async def abort(self) -> None:
        """The client sees an answer that was cut short."""


class EventStream:
    """To one client. What waits to be sent is bounded: ask is_full before each write."""

    __slots__ = ("_is_allowed", "_is_finished", "_rest", "_woken", "outlet")

    def __init__(self, outlet: Outlet, is_allowed: Callable[[], bool]) -> None:
        """`is_allowed` is asked again now and then: rules change while a stream is open."""
        self.outlet, self._is_allowed = outlet, is_allowed
        self._is_finished = False
        self._rest: memoryview | None = None
        self._woken = asyncio.Event()
        outlet.on_change = self.wake

    @property
    def is_over(self) -> bool:
        return self._is_finished or self.outlet.is_lost

    @property
    def is_full(self) -> bool:
        return self._rest is not None or self.outlet.is_full

    def write(self, framed: bytes) -> None:
        """A chunk, which is shared with other streams."""
        if len(framed) > _LONG_BYTES:
            self._rest = memoryview(framed)
        else:
            self.outlet.write(framed)

    async def drained(self) -> None:
        """Returns when it is not full, or over."""
        while self.is_full and not self.is_over:
            if self.outlet.is_full:
                await self.woken()
            elif self._rest is not None:
                self.outlet.write(self._rest[:_PIECE_BYTES])
                self._rest = self._rest[_PIECE_BYTES:] or None

    def finish(self) -> None:
        """Nothing more is to come."""
        self._is_finished = True
        self._woken.set()

    def end(self, reason: str) -> None:
        """The client is told why, and that it need not come again."""
        if not self.is_over and not self.is_full:
            self.write(chunk(event(msgspec.json.encode(Ended(reason)), kind="end")))
        self.finish()

    def wake(self) -> None:
        self._woken.set()

    async def woken(self) -> None:
        """Returns after wake() or finish(), and when the outlet has changed."""
        if not self.is_over:
            await self._woken.wait()
            self._woken.clear()

    def beat(self) -> None:
        if not self._is_allowed():
            self.end("not allowed any more")
        elif not self.is_full:
            self.outlet.write(_HEARTBEAT)


class Streams:
    """All event streams and WebSockets of a gateway: how many there are, their heartbeats and their end."""

    def __init__(self, is_draining: asyncio.Event, heartbeat_s: float = HEARTBEAT_S) -> None:
        self.count = 0
        """event streams and WebSockets that are open"""
        self._is_draining, self._heartbeat_s = is_draining, heartbeat_s
        self._open: dict[EventStream, None] = {}
        self._looking_after: asyncio.Task[None] | None = None

    @contextmanager
    def counted(self, limit: int) -> Iterator[None]:
        """Refusal beyond the limit, and when the server ends."""
        if self._is_draining.is_set():
            raise Refusal(503, "closed", "the server is stopping: try again when it is back")
        if self.count >= limit:
            detail = f"{limit} streams are open, which is the limit: close some, or raise http.max_streams"
            raise Refusal(503, "too-many-streams", detail, headers=((b"retry-after", b"10"),))
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    @asynccontextmanager
    async def opened(self, answer: Answer, first: bytes, is_allowed: Callable[[], bool]) -> AsyncIterator[EventStream]:
        """It begins with `first` and ends with the block."""
        with self.counted(answer.options.max_streams):
            await answer.start(200, _HEADERS)
            await answer.send(b"retry: %d\n%b\n" % (RETRY_MS, first))
            answer.outlet.keep_short()
            stream = EventStream(answer.outlet, is_allowed)
            self._open[stream] = None
            if self._looking_after is None or self._looking_after.done():
                self._looking_after = asyncio.get_running_loop().create_task(self._look_after())
            try:
                yield stream
            finally:
                stream.outlet.on_change = None
                del self._open[stream]
            if stream.is_full:
                # Half an event may be on its way, and an end in the middle of it could be taken for its own.
                await answer.abort()
            else:
                await answer.end()

    async def _look_after(self) -> None:
        """While there are streams: one timer for all of them."""
        while self._open:
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    await self._is_draining.wait()
            except TimeoutError:
                await self._each(EventStream.beat)
            else:
                await self._each(EventStream.finish)
                return

    async def _each(self, visit: Callable[[EventStream], None]) -> None:
        for number, stream in enumerate(list(self._open)):
            if number % _IN_A_TURN == _IN_A_TURN - 1:
                await asyncio.sleep(0)
            if not stream.is_over:
                visit(stream)
