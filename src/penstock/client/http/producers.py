"""Producers: send() hands over a message, which goes out with others."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from functools import partial
from typing import Unpack

from penstock.client.http.accumulator import Accumulator, Entry, ProducerOptions, Send, check_size
from penstock.client.http.close_after import close_after
from penstock.client.http.outgoing import Headers, Key, QueueCarried, encoded, outgoing
from penstock.client.http.promises import thread_promise
from penstock.client.loop_thread import LoopThread
from penstock.codecs.http.messages import PublishedMessage
from penstock.core.closing import AsyncClosing, Closing
from penstock.core.errors import Closed

_CLOSED = "the producer was closed: make another one"


class AsyncProducer(AsyncClosing):
    """Of one queue, for the tasks of one loop. Use with `async with`, or close() it."""

    def __init__(self, queue: str, options: ProducerOptions, send: Send) -> None:
        self.queue = queue
        self._accumulator = Accumulator(queue, options, send, self._leave)
        self._options = options
        self._unsent_bytes = 0
        # Whoever has the turn waits for room, the others for their turn: a large message is not overtaken for ever.
        self._turn, self._changed = asyncio.Lock(), asyncio.Event()

    async def _close_after(self, error: BaseException | None) -> None:
        await close_after(self.close, error)

    async def send(
        self,
        value: object,
        key: Key | None = None,
        headers: Headers | None = None,
        *,
        partition: int | None = None,
        **carried: Unpack[QueueCarried],
    ) -> asyncio.Future[PublishedMessage]:
        """Returns when there is room for it; the future when it is stored, or with why it is not."""
        data = encoded(outgoing(value, key, headers, partition, **carried))
        check_size(data, self._options)
        promise: asyncio.Future[PublishedMessage] = asyncio.get_running_loop().create_future()
        if self._turn.locked() or self._is_full(data):
            async with self._turn:
                await self._room(data)
        self._unsent_bytes += len(data)
        self._accumulator.add(Entry(data, partition, promise))
        return promise

    async def flush(self) -> None:
        """Returns when all that was handed over is stored. Raises what went wrong first since the last flush."""
        await self._accumulator.flush()

    async def close(self) -> None:
        """flush(), then nothing more is taken."""
        await self._accumulator.close()

    def _is_full(self, data: bytes) -> bool:
        return self._unsent_bytes + len(data) > self._options.max_unsent_bytes

    async def _room(self, data: bytes) -> None:
        while self._is_full(data):
            self._changed.clear()
            self._accumulator.seal()
            await self._changed.wait()

    def _leave(self, size_bytes: int) -> None:
        self._unsent_bytes -= size_bytes
        self._changed.set()


class Producer(Closing):
    """Of one queue, for any threads. Use with `with`, or close() it."""

    def __init__(self, queue: str, options: ProducerOptions, send: Send, thread: LoopThread) -> None:
        self.queue = queue
        self._accumulator = Accumulator(queue, options, send, self._leave)
        self._options, self._thread = options, thread
        self._room = threading.Condition()
        self._unsent_bytes = 0
        self._is_closed = False

    def send(
        self,
        value: object,
        key: Key | None = None,
        headers: Headers | None = None,
        *,
        partition: int | None = None,
        **carried: Unpack[QueueCarried],
    ) -> concurrent.futures.Future[PublishedMessage]:
        """Returns when there is room for it; the future when it is stored, or with why it is not."""
        data = encoded(outgoing(value, key, headers, partition, **carried))
        check_size(data, self._options)
        promise: concurrent.futures.Future[PublishedMessage] = thread_promise()
        with self._room:
            while self._unsent_bytes + len(data) > self._options.max_unsent_bytes and not self._is_closed:
                self._thread.post(self._accumulator.seal)
                self._room.wait()
            if self._is_closed:
                raise Closed(_CLOSED)
            self._unsent_bytes += len(data)
            # With the lock, so that messages of a thread go in its order.
            self._thread.post(partial(self._accumulator.add, Entry(data, partition, promise)))
        return promise

    def flush(self) -> None:
        """Returns when all that was handed over is stored. Raises what went wrong first since the last flush."""
        self._thread.run(self._accumulator.flush())

    def close(self) -> None:
        """flush(), then nothing more is taken."""
        self._close_after(None)

    async def end(self) -> None:
        """close(), on the loop: with its client."""
        self._refuse_more()
        await self._accumulator.close()

    def _close_after(self, error: BaseException | None) -> None:
        self._refuse_more()
        # Closed with its client, it was flushed then.
        with contextlib.suppress(Closed):
            self._thread.run(close_after(self._accumulator.close, error))

    def _refuse_more(self) -> None:
        with self._room:
            self._is_closed = True
            self._room.notify_all()

    def _leave(self, size_bytes: int) -> None:
        with self._room:
            self._unsent_bytes -= size_bytes
            self._room.notify_all()
