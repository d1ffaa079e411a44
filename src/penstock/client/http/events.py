"""Server-sent events: a stream that is taken up again where it broke off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping

import msgspec

from penstock.client.backoff import backoff_s
from penstock.client.errors import ConnectionLost
from penstock.client.http.connection import HttpConnection
from penstock.client.http.errors import HttpRefused
from penstock.client.http.incoming import StoredMessage
from penstock.client.http.options import API
from penstock.client.http.requests import Ask, Requests
from penstock.core.errors import PenstockError

logger = logging.getLogger("penstock.client")

MESSAGE, END = "message", "end"
# A server that lives says so every 15 s.
_SILENCE_S = 45.0
_MAX_RETRY_S = 30.0


class Event(msgspec.Struct, frozen=True):
    """`kind` is `message`; `gap` where messages are no longer kept, `lost` where they were too many for a live stream,
    `end` as the last one, when the queue is gone or no longer the caller's to see: then `data` says more. With `id` the
    stream can be resumed behind this event."""

    kind: str
    data: str
    id: str | None = None

    @property
    def message(self) -> StoredMessage:
        """Of an event that has one."""
        return msgspec.json.decode(self.data, type=StoredMessage)


class EventDecoder:
    """Feed bytes, get events; any split of the input gives the same ones."""

    def __init__(self, max_bytes: int) -> None:
        """ConnectionLost for an event of more bytes."""
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._data: list[str] = []
        self._size_bytes = 0
        self._kind = ""
        self._id: str | None = None
        self.last_id: str | None = None
        """that of the last event that came whole, or of a place without an event"""
        self.retry_s: float | None = None
        """as the server wants it"""

    def receive(self, data: bytes) -> list[Event]:
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        if len(rest) + self._size_bytes > self._max_bytes:
            raise ConnectionLost(f"an event is over {self._max_bytes} bytes: raise max_answer_bytes")
        return [event for line in lines if (event := self._line(bytes(line.rstrip(b"\r")))) is not None]

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        name, _, value = line.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._size_bytes += len(line)
        elif name == "event":
            self._kind = value
        elif name == "id":
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_s = min(int(value[:9]) / 1000, _MAX_RETRY_S)
        return None

    def _dispatch(self) -> Event | None:
        kind, data, self.last_id = self._kind or MESSAGE, self._data, self._id
        self._kind, self._data, self._size_bytes = "", [], 0
        return Event(kind, "\n".join(data), self.last_id) if data or kind == END else None


class EventStream:
    """Used from one loop: next() until it gives none, then or before that aclose(). A lost connection is made anew, as
    often in a row as `Retries.attempts` says."""

    def __init__(
        self, requests: Requests, path: str, query: Mapping[str, object], last_event_id: str | None = None
    ) -> None:
        self._requests, self._path, self._query = requests, f"{API}{path}", query
        self._last_id = last_event_id
        self._retry_s = 0.0
        self._attempt = 0
        self._batches = self._connected()

    async def next(self) -> list[Event]:
        return await anext(self._batches, [])

    async def aclose(self) -> None:
        await self._batches.aclose()

    async def _connected(self) -> AsyncGenerator[list[Event], None]:
        while True:
            try:
                async for events in self._read():
                    self._attempt = 0
                    yield events
                    if any(event.kind == END for event in events):
                        return
                lost: PenstockError = ConnectionLost(f"the stream of {self._path} ended")
            except (ConnectionLost, HttpRefused) as error:
                lost = error
            await self._wait(lost)

    async def _read(self) -> AsyncGenerator[list[Event], None]:
        """Of one connection."""
        headers = {"Accept": "text/event-stream"}
        query = dict(self._query)
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
            query.pop("from", None)
        decoder = EventDecoder(self._requests.options.max_answer_bytes)
        async with self._requests.stream(Ask("GET", self._path, bytes, query, headers=headers)) as connection:
            self._tell(None)
            while (data := await _chunk(connection)) is not None:
                events = decoder.receive(data)
                self._retry_s = decoder.retry_s or self._retry_s
                if decoder.last_id is not None:
                    self._last_id = decoder.last_id
                if events:
                    yield events

    def _tell(self, lost: PenstockError | None) -> None:
        if (notice := self._requests.options.retries.notice) is not None:
            notice(lost)

    async def _wait(self, lost: PenstockError) -> None:
        retries = self._requests.options.retries
        is_passing = lost.is_passing if isinstance(lost, HttpRefused) else True
        if not is_passing or self._attempt >= retries.attempts:
            raise lost
        self._tell(lost)
        logger.info("event stream lost, going on path=%s attempt=%d reason=%s", self._path, self._attempt, lost)
        delay_s = backoff_s(retries.first_delay_s, retries.longest_delay_s, self._attempt)
        self._attempt += 1
        await asyncio.sleep(max(delay_s, min(self._retry_s, retries.longest_delay_s)))


async def _chunk(connection: HttpConnection) -> bytes | None:
    async with asyncio.timeout(_SILENCE_S):
        return await connection.chunk()
