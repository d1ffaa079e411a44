"""Messages gathered into batches, and sent one batch after the other, each stored once however often it is sent."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from penstock.client.errors import ConnectionLost
from penstock.client.http.errors import HttpRefused
from penstock.client.http.outgoing import Acks, Sequenced, publish_messages
from penstock.client.http.promises import Promise, break_, keep
from penstock.client.http.requests import Ask
from penstock.codecs.http.messages import PublishedMessage, PublishReport
from penstock.core.errors import Closed, ErrorCode, InvalidArgument, PenstockError, TooLarge

logger = logging.getLogger("penstock.client")

Send = Callable[[Ask[PublishReport]], Awaitable[PublishReport]]

MAX_BATCH_MESSAGES = 10_000
_AT_FAULT = re.compile(r"messages\[(\d{1,9})\]")
# Refusals that one message of many can be the cause of.
_ABOUT_MESSAGES = frozenset({400, 413, 422})
_BEGIN_ANEW = frozenset({ErrorCode.OUT_OF_ORDER, ErrorCode.FENCED_PRODUCER})


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    batch_messages: int = 100
    linger_s: float = 0.005
    """a batch that is not full waits for so long; with 0 it goes at once, or as soon as the one before it is stored"""
    batch_bytes: int = 64 << 10
    acks: Acks = "all"
    """`none`: not waited for the disk, and a batch whose answer is lost is not sent again"""
    max_unsent_bytes: int = 16 << 20
    """gathered or under way; then send() waits"""

    def __post_init__(self) -> None:
        if not 1 <= self.batch_messages <= MAX_BATCH_MESSAGES:
            raise InvalidArgument(f"batch_messages is 1 to {MAX_BATCH_MESSAGES}, not {self.batch_messages}")
        if self.linger_s < 0 or self.batch_bytes < 1 or self.max_unsent_bytes < 1:
            raise InvalidArgument("linger_s is 0 or more, batch_bytes and max_unsent_bytes are 1 or more")
        if self.acks not in ("none", "leader", "all"):
            raise InvalidArgument(f"acks is none, leader or all, not {self.acks!r}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One encoded message and who waits for it."""

    data: bytes
    partition: int | None
    promise: Promise[PublishedMessage]


@dataclass(slots=True)
class _Batch:
    entries: list[Entry] = field(default_factory=list)
    size_bytes: int = 0


@dataclass(slots=True)
class Failures:
    """Since they were last told of."""

    first: Exception | None = None
    count: int = 0


class Accumulator:
    """Used from one loop. Messages are stored in the order in which they were added: one batch is under way at a time.
    A batch whose outcome is unknown fails, and the producer begins anew with a higher epoch."""

    def __init__(self, queue: str, options: ProducerOptions, send: Send, on_room: Callable[[int], None]) -> None:
        """`on_room` is told of bytes that are no longer waiting."""
        self._queue, self.options, self._send, self._on_room = queue, options, send, on_room
        self._producer, self._epoch, self._sequence = f"py-{secrets.token_hex(8)}", 0, 0
        self._open, self._full = _Batch(), deque[_Batch]()
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        self._failures = Failures()
        self._is_closed = False

    def add(self, entry: Entry) -> None:
        """At once; who adds has looked whether there is room."""
        if self._is_closed:
            self._fail([entry], Closed("the producer was closed: make another one"))
            return
        batch = self._open
        if batch.entries and (self._is_over(entry) or batch.entries[0].partition != entry.partition):
            self.seal()
            batch = self._open
        batch.entries.append(entry)
        batch.size_bytes += len(entry.data)
        if len(batch.entries) >= self.options.batch_messages or batch.size_bytes >= self.options.batch_bytes:
            self.seal()
        elif not self.options.linger_s:
            self._wake()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.options.linger_s, self.seal)

    async def flush(self) -> None:
        """Returns when all that was added is stored; raises what went wrong first since the last time."""
        self.seal()
        while self._sending is not None:
            await asyncio.shield(self._sending)
        failures, self._failures = self._failures, Failures()
        if failures.first is not None:
            failures.first.add_note(f"{failures.count} messages to queue {self._queue!r} were not sent or not stored")
            raise failures.first

    async def close(self) -> None:
        """flush(), then nothing more is taken."""
        self._is_closed = True
        await self.flush()

    def _is_over(self, entry: Entry) -> bool:
        return self._open.size_bytes + len(entry.data) > self.options.batch_bytes

    def seal(self) -> None:
        """What was gathered goes as it is: it is time, or somebody waits for room."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._open.entries:
            self._full.append(self._open)
            self._open = _Batch()
            self._wake()

    def _wake(self) -> None:
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while batch := self._next():
                await self._send_batch(batch)
                if self._is_closed and isinstance(self._failures.first, ConnectionLost):
                    self._give_up(self._failures.first)
        finally:
            self._sending = None

    def _next(self) -> _Batch | None:
        if not self._full and not self.options.linger_s:
            self.seal()
        return self._full.popleft() if self._full else None

    def _give_up(self, error: ConnectionLost) -> None:
        """There is no server, and whoever closes does not wait for one."""
        while batch := self._next():
            self._fail(batch.entries, error)
            self._on_room(batch.size_bytes)

    async def _send_batch(self, batch: _Batch) -> None:
        try:
            await self._store(batch.entries)
        except Exception as error:
            logger.exception("producer failed queue=%r", self._queue)
            self._fail(batch.entries, error)
        except asyncio.CancelledError:
            self._fail(batch.entries, Closed("the client was closed before the message was stored"))
            raise
        finally:
            self._on_room(batch.size_bytes)

    async def _store(self, entries: Sequence[Entry]) -> None:
        """Of those refused for one of them, the others are sent without it."""
        left = [entries]
        while left:
            some = left.pop(0)
            try:
                report = await self._send_sequenced(some)
            except HttpRefused as refused:
                if refused.status not in _ABOUT_MESSAGES or len(some) == 1:
                    self._fail(some, refused)
                    continue
                left[:0] = _parts(some, refused)
            except PenstockError as error:
                self._fail(some, error)
            else:
                for entry, sent in zip(some, report.results, strict=True):
                    keep(entry.promise, sent)

    async def _send_sequenced(self, entries: Sequence[Entry]) -> PublishReport:
        try:
            return await self._send_once(entries)
        except HttpRefused as refused:
            if refused.code not in _BEGIN_ANEW:
                raise
        # Nothing of this was stored, but what came before is not what the server remembers of this producer.
        self._begin_anew()
        return await self._send_once(entries)

    async def _send_once(self, entries: Sequence[Entry]) -> PublishReport:
        sequenced = None
        if self.options.acks != "none":
            sequenced = Sequenced(self._producer, self._epoch, self._sequence)
        asked = publish_messages(self._queue, [entry.data for entry in entries], self.options.acks, sequenced)
        try:
            report = await self._send(asked)
        except (ConnectionLost, asyncio.CancelledError):
            self._begin_anew()
            raise
        except HttpRefused as refused:
            if refused.status >= 500:
                self._begin_anew()
            raise
        if len(report.results) != len(entries):
            self._begin_anew()
            raise ConnectionLost(
                f"the server said where {len(report.results)} of {len(entries)} messages are: update it"
            )
        self._sequence += len(entries)
        return report

    def _begin_anew(self) -> None:
        """Its sequences may be taken or not."""
        self._epoch, self._sequence = self._epoch + 1, 0

    def _fail(self, entries: Sequence[Entry], error: Exception) -> None:
        for entry in entries:
            if not entry.promise.done():
                self._failures.first = self._failures.first or error
                self._failures.count += 1
            break_(entry.promise, error)


def _parts(entries: Sequence[Entry], refused: HttpRefused) -> list[Sequence[Entry]]:
    """The one that the server names apart from the others; if it names none, halves."""
    named = _AT_FAULT.match(refused.field or "")
    if named is not None and int(named[1]) < len(entries):
        at = int(named[1])
        return [part for part in (entries[:at], entries[at : at + 1], entries[at + 1 :]) if part]
    half = len(entries) // 2
    return [entries[:half], entries[half:]]


def check_size(data: bytes, options: ProducerOptions) -> None:
    """One message that could never find room."""
    if len(data) > options.max_unsent_bytes:
        raise TooLarge("the message", len(data), options.max_unsent_bytes)
