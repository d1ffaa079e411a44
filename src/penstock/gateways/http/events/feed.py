"""A queue as it grows, for all event streams that follow it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from penstock.broker.queues.queue import Queue
from penstock.core.errors import PenstockError
from penstock.gateways.http.events.events import EventStream
from penstock.gateways.http.events.loop_share import LoopShare
from penstock.gateways.http.events.slices import Slice, Slices
from penstock.gateways.http.messages.cursors import Vector

logger = logging.getLogger("penstock.http.feed")

# Followers written to in one turn of the loop: under a millisecond.
_IN_A_TURN = 100
# Slices of history that are read at a time, half a millisecond each: a crowd that comes back waits for its turn, and
# not everybody else for the crowd.
_READ_AT_A_TIME = 4


class Follower:
    """One client of a feed. At the live end the feed writes to it; behind that it reads for itself, as fast as the
    client takes it, and holds nothing but its place."""

    __slots__ = ("_feed", "_stream", "place")

    def __init__(self, feed: Feed, stream: EventStream, place: Vector) -> None:
        self._feed, self._stream, self.place = feed, stream, place

    async def follow(self) -> None:
        """Until the stream is over."""
        stream, feed = self._stream, self._feed
        feed.enter(self)
        try:
            while not stream.is_over:
                await self._catch_up()
                feed.join(self)
                await stream.woken()
                feed.fall_behind(self)
        finally:
            feed.leave(self)

    def take(self, piece: Slice) -> None:
        """At the live end."""
        self.place = piece.after
        self._stream.write(piece.data)
        if self._stream.is_full:
            self._stream.wake()
            self._feed.fall_behind(self)

    def end(self, reason: str) -> None:
        self._stream.end(reason)

    def abandon(self) -> None:
        """The client comes back by itself, and goes on where it was."""
        self._stream.finish()

    def wake(self) -> None:
        self._stream.wake()

    async def _catch_up(self) -> None:
        """Returns at the live end with room for more, or when it is over."""
        stream, feed = self._stream, self._feed
        while not stream.is_over:
            if stream.is_full:
                await stream.drained()
            elif self.place == feed.place:
                return
            elif (piece := await feed.history(self.place)) is None:
                # It knows of messages that the feed has not come to yet.
                feed.wait_for_move(self)
                await stream.woken()
            else:
                self.place = piece.after
                stream.write(piece.data)


class Feed:
    """Of one queue in one encoding; at work while somebody follows. A Listener of the queue."""

    def __init__(self, queue: Queue, is_base64: bool, turns: asyncio.Semaphore) -> None:
        """`turns` are those of all who read history."""
        self._queue, self._turns = queue, turns
        self._slices = Slices(queue, is_base64)
        self.place = Vector.end_of(queue)
        """where all are who follow live"""
        self._followers: dict[Follower, None] = {}
        self._live: dict[Follower, None] = {}
        self._waiting: dict[Follower, None] = {}
        self._grown = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._followers

    def notify_all(self, partitions: Sequence[int]) -> None:
        self._grown.set()

    def enter(self, follower: Follower) -> None:
        if self._task is None:
            self.place = Vector.end_of(self._queue)
            self._queue.listening[self] = None
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._followers[follower] = None

    def leave(self, follower: Follower) -> None:
        for several in (self._followers, self._live, self._waiting):
            several.pop(follower, None)
        if not self._followers and self._task is not None:
            self._task.cancel()
            self._task = None
            self._queue.listening.pop(self, None)

    def join(self, follower: Follower) -> None:
        """One that stands where the feed does."""
        follower.place = self.place
        self._live[follower] = None

    def fall_behind(self, follower: Follower) -> None:
        self._live.pop(follower, None)

    async def history(self, place: Vector) -> Slice | None:
        """What one gets next who is behind; None for one who is ahead."""
        async with self._turns:
            return await self._slices.following(place, self.place)

    def wait_for_move(self, follower: Follower) -> None:
        """It is woken when the feed has gone on."""
        self._waiting[follower] = None

    async def _run(self) -> None:
        share = LoopShare()
        try:
            while not self._queue.is_deleted:
                await self._grown.wait()
                self._grown.clear()
                await self._go_on(share)
        except PenstockError as error:
            # Closed, when the server ends; else a file that cannot be read.
            logger.error("event streams cut off queue=%s error=%s", self._queue.name, error)
            for follower in list(self._followers):
                follower.abandon()
            return
        for follower in list(self._followers):
            follower.end("the queue was deleted")

    async def _go_on(self, share: LoopShare) -> None:
        """To the end of the queue."""
        while not self._queue.is_deleted:
            share.begin()
            piece = await self._slices.following(self.place, Vector.end_of(self._queue))
            if piece is None:
                return
            before, self.place = self.place, piece.after
            await self._give(piece, before, share)
            waiting, self._waiting = self._waiting, {}
            for follower in waiting:
                follower.wake()
            share.pause()
            await share.rest()

    async def _give(self, piece: Slice, before: Vector, share: LoopShare) -> None:
        """To those who follow live. Who joins meanwhile, perhaps again, stands behind it already."""
        for number, follower in enumerate(list(self._live)):
            if number % _IN_A_TURN == _IN_A_TURN - 1:
                share.pause()
                await asyncio.sleep(0)
                share.begin()
            if follower in self._live and follower.place is before:
                follower.take(piece)


class Feeds:
    """Of one gateway: those that somebody follows."""

    def __init__(self) -> None:
        self._feeds: dict[tuple[Queue, bool], Feed] = {}
        self._turns = asyncio.Semaphore(_READ_AT_A_TIME)

    def of(self, queue: Queue, is_base64: bool) -> Feed:
        for key in [key for key, feed in self._feeds.items() if feed.is_idle]:
            del self._feeds[key]
        key = queue, is_base64
        if key not in self._feeds:
            self._feeds[key] = Feed(queue, is_base64, self._turns)
        return self._feeds[key]
