"""What is published to the topics of a filter, for all event streams that follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from penstock.broker.auth.permissions import Permissions
from penstock.broker.topics.taps import Tap, Taps
from penstock.core.errors import InvalidArgument
from penstock.core.ports import Clock
from penstock.gateways.http.events.events import EventStream, chunk, event
from penstock.gateways.http.events.loop_share import LoopShare
from penstock.gateways.http.messages.bodies import correlation_text, either, unpacked
from penstock.log.columns import Columns, Spans

# Encoded and not yet written, for all followers of a filter together.
_WAITING_BYTES = 256 << 10
_IN_A_TURN = 100

_encode = msgspec.json.Encoder().encode


class TopicEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The value is `text` if it is UTF-8, else `base64`."""

    topic: str
    timestamp_ms: int
    text: str | None = None
    base64: bytes | None = None
    headers: list[tuple[str, str]] = []  # msgspec makes a new one for each
    content_type: str | None = None
    reply_to: str | None = None
    correlation_id: str | None = None


class Lost(msgspec.Struct, frozen=True):
    """Event `lost`: so many messages did not reach this stream."""

    count: int


class TopicFollower:
    """One client of a feed. Nothing is kept for one that does not read but the number of what it misses."""

    __slots__ = ("_feed", "_stream", "lost", "permissions")

    def __init__(self, feed: TopicFeed, stream: EventStream, permissions: Permissions) -> None:
        self._feed, self._stream, self.permissions = feed, stream, permissions
        self.lost = 0

    async def follow(self) -> None:
        """Until the stream is over."""
        self._feed.enter(self)
        try:
            while not self._stream.is_over:
                await self._stream.drained()
                self._tell_lost()
                await self._stream.woken()
        finally:
            self._feed.leave(self)

    def take(self, data: bytes, count: int) -> None:
        if self._stream.is_full:
            self.lost += count
            return
        self._tell_lost()
        self._stream.write(data)
        if self._stream.is_full:
            self._stream.wake()

    def miss(self, count: int) -> None:
        self.lost += count
        self._tell_lost()

    def _tell_lost(self) -> None:
        if self.lost and not self._stream.is_over and not self._stream.is_full:
            lost, self.lost = Lost(self.lost), 0
            self._stream.write(chunk(event(_encode(lost), kind="lost")))


class TopicFeed:
    """Of one filter in one encoding; a tap is open while somebody follows."""

    def __init__(self, taps: Taps, clock: Clock, namespace: str, topic_filter: str, is_base64: bool) -> None:
        self._taps, self._clock = taps, clock
        self._namespace, self._filter, self._is_base64 = namespace, topic_filter, is_base64
        self._followers: dict[TopicFollower, None] = {}
        self._waiting: list[tuple[bytes, bytes]] = []
        """topic and event"""
        self._waiting_bytes = self._lost = 0
        self._come = asyncio.Event()
        self._share = LoopShare()
        self._tap: Tap | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._followers

    def enter(self, follower: TopicFollower) -> None:
        """InvalidArgument for what is no filter."""
        if self._tap is None:
            self._tap = self._taps.tap(self._namespace, self._filter, self._take)
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._followers[follower] = None

    def leave(self, follower: TopicFollower) -> None:
        self._followers.pop(follower, None)
        if not self._followers and self._tap is not None and self._task is not None:
            self._tap.close()
            self._task.cancel()
            self._tap = self._task = None
            self._waiting, self._waiting_bytes, self._lost = [], 0, 0

    def _take(self, columns: Columns, rows: Sequence[int]) -> None:
        """In the turn in which somebody publishes: encoded as far as there is room, the rest only counted."""
        self._share.begin()
        now_ms = self._clock.now_ms()
        for number, row in enumerate(rows):
            if self._waiting_bytes >= _WAITING_BYTES:
                self._lost += len(rows) - number
                break
            topic = _topic(columns, row)
            encoded = event(_encode(self._message(columns, row, topic, now_ms)))
            self._waiting.append((topic, encoded))
            self._waiting_bytes += len(encoded)
        self._share.pause()
        self._come.set()

    def _message(self, columns: Columns, row: int, topic: bytes, now_ms: int) -> TopicEvent:
        text, base64 = either(_field(columns, columns.value, row), self._is_base64)
        envelope = unpacked(_field(columns, columns.properties, row))
        return TopicEvent(
            topic=topic.decode(errors="replace"),
            timestamp_ms=now_ms,
            text=text,
            base64=base64,
            headers=list(envelope.headers),
            content_type=envelope.content_type,
            reply_to=envelope.reply_to,
            correlation_id=correlation_text(envelope),
        )

    async def _run(self) -> None:
        while True:
            await self._come.wait()
            self._come.clear()
            waiting, lost = self._waiting, self._lost
            self._waiting, self._waiting_bytes, self._lost = [], 0, 0
            await self._give(waiting, lost)
            await self._share.rest()

    async def _give(self, waiting: list[tuple[bytes, bytes]], lost: int) -> None:
        """To each what it may receive; those of one login get the same bytes."""
        made: dict[Permissions, tuple[bytes, int]] = {}
        self._share.begin()
        for number, follower in enumerate(list(self._followers)):
            if number % _IN_A_TURN == _IN_A_TURN - 1:
                self._share.pause()
                await asyncio.sleep(0)
                self._share.begin()
            permissions = follower.permissions
            if permissions not in made:
                made[permissions] = _allowed(waiting, permissions)
            data, count = made[permissions]
            if count:
                follower.take(data, count)
            if lost:
                follower.miss(lost)
        self._share.pause()


class TopicFeeds:
    """Of one gateway: those that somebody follows."""

    def __init__(self, taps: Taps, clock: Clock) -> None:
        self._taps, self._clock = taps, clock
        self._feeds: dict[tuple[str, str, bool], TopicFeed] = {}

    def of(self, namespace: str, topic_filter: str, is_base64: bool) -> TopicFeed:
        for key in [key for key, feed in self._feeds.items() if feed.is_idle]:
            del self._feeds[key]
        key = namespace, topic_filter, is_base64
        if key not in self._feeds:
            self._feeds[key] = TopicFeed(self._taps, self._clock, *key)
        return self._feeds[key]


def _allowed(waiting: list[tuple[bytes, bytes]], permissions: Permissions) -> tuple[bytes, int]:
    events = [encoded for topic, encoded in waiting if permissions.may_receive(topic)]
    return (chunk(b"".join(events)) if events else b""), len(events)


def _topic(columns: Columns, row: int) -> bytes:
    if columns.topics is None or columns.topic_index is None:
        raise InvalidArgument("a message without a topic came through a tap")
    number = columns.topic_index[row]
    return bytes(columns.source[columns.topics.starts[number] : columns.topics.ends[number]])


def _field(columns: Columns, spans: Spans | None, row: int) -> bytes:
    return b"" if spans is None else bytes(columns.source[spans.starts[row] : spans.ends[row]])
