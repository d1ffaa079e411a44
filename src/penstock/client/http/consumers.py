"""Consumers: messages of a group, one after the other, for tasks and for threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from functools import partial
from typing import Self

from penstock.client.http.close_after import close_after
from penstock.client.http.incoming import Delivered, Verdict
from penstock.client.http.intake import ConsumeOptions, Intake
from penstock.client.http.message_buffer import MessageBuffer
from penstock.client.http.promises import thread_promise
from penstock.client.http.requests import Requests
from penstock.client.loop_thread import LoopThread
from penstock.core.closing import AsyncClosing, Closing
from penstock.core.errors import Closed

AsyncMessage = Delivered[asyncio.Future[bool]]
Message = Delivered[concurrent.futures.Future[bool]]


class AsyncConsumer(AsyncClosing):
    """`async for message in consumer`, for one task. Ends after stop(); leaving its `async with` block, or close(),
    sends what is to be settled and gives back what was not handed out."""

    def __init__(self, options: ConsumeOptions, requests: Requests) -> None:
        self._intake = Intake(options, requests)
        self._messages = MessageBuffer(self._settle, options.auto_commit_s)

    async def _close_after(self, error: BaseException | None) -> None:
        await close_after(self.close, error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncMessage:
        if self._messages.back():
            self._messages.fill(await self._intake.next())
        message = None if self._intake.is_stopped else self._messages.give()
        if message is None:
            await self.close()
            raise StopAsyncIteration
        return message

    def stop(self) -> None:
        """The loop ends with the message in hand, at once if it waits."""
        self._intake.stop()

    async def flush(self) -> None:
        """Returns when what was settled so far is on the server's disk."""
        await self._intake.settlements.flush()

    async def close(self) -> None:
        self._messages.commit()
        await self._intake.close(self._messages.take_unread())

    def _settle(self, verdict: Verdict) -> asyncio.Future[bool]:
        promise: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._intake.put(verdict, promise)
        return promise


class Consumer(Closing):
    """`for message in consumer`, for one thread; messages may be settled by any. Ends after stop(); leaving its `with`
    block, or close(), sends what is to be settled and gives back what was not handed out."""

    def __init__(self, options: ConsumeOptions, requests: Requests, thread: LoopThread) -> None:
        self._intake, self._thread = Intake(options, requests), thread
        self._messages = MessageBuffer(self._settle, options.auto_commit_s)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        if self._messages.back():
            self._messages.fill(self._thread.run(self._intake.next()))
        message = None if self._intake.is_stopped else self._messages.give()
        if message is None:
            self.close()
            raise StopIteration
        return message

    def stop(self) -> None:
        """The loop ends with the message in hand, at once if it waits. For any thread."""
        self._thread.post(self._intake.stop)

    def flush(self) -> None:
        """Returns when what was settled so far is on the server's disk."""
        self._thread.run(self._intake.settlements.flush())

    def close(self) -> None:
        self._close_after(None)

    async def end(self) -> None:
        """On the loop, with its client: what was not handed out comes again when its visibility ends."""
        await self._intake.close([])

    def _close_after(self, error: BaseException | None) -> None:
        # Closed with its client, it has sent what was settled by then; the other messages come again.
        with contextlib.suppress(Closed):
            self._messages.commit()
            self._thread.run(close_after(partial(self._intake.close, self._messages.take_unread()), error))

    def _settle(self, verdict: Verdict) -> concurrent.futures.Future[bool]:
        promise: concurrent.futures.Future[bool] = thread_promise()
        self._thread.post(partial(self._intake.put, verdict, promise))
        return promise
