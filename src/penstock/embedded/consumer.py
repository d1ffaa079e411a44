"""Consuming: iterate, or take one or many; leaving gives back what was not settled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from penstock.broker.feed.settling import Settled
from penstock.core.closing import AsyncClosing, Closing
from penstock.core.errors import Closed
from penstock.embedded.auto_ack import AutoAck
from penstock.embedded.bridge import Ignored, Work
from penstock.embedded.message import AsyncMessage, Message, MessageBatch, held_of
from penstock.embedded.runtime import Runtime
from penstock.embedded.subscription import Subscription

# Taken at once where the caller asks for one: crossing to the broker's thread costs as much for all of them. The clock
# of a message runs from here on, so it is no more than is handled soon.
_TAKEN_AT_ONCE = 100


class Consumer(Closing):
    """A member of a group, for threads; several may share one, each message goes to one of them. Iteration ends when it
    is closed or stopped, or when nothing came for `idle_s`."""

    def __init__(
        self, subscription: Subscription, idle_s: float | None = None, auto_ack_s: float | None = None
    ) -> None:
        self._subscription, self._idle_s = subscription, idle_s
        self._auto_ack: AutoAck[Message] | None = None if auto_ack_s is None else AutoAck(auto_ack_s)
        self._fetching = threading.Lock()

    def __iter__(self) -> Consumer:
        return self

    def __next__(self) -> Message:
        message = self.get(self._idle_s)
        if message is None:
            raise StopIteration
        return message

    def get(self, timeout: float | None = None) -> Message | None:
        """The next message; None if there is none within `timeout` seconds (None: for ever) or when stopped."""
        if self._auto_ack is not None:
            return self._get_acking(self._auto_ack, timeout)
        return self._get(timeout)

    def _get_acking(self, auto_ack: AutoAck[Message], timeout: float | None) -> Message | None:
        if done := auto_ack.back():
            self.ack_many(done)
        message = self._get(timeout)
        if message is None and (done := auto_ack.rest()):
            self.ack_many(done)
        auto_ack.gave(message)
        return message

    def _get(self, timeout: float | None) -> Message | None:
        taken = self._subscription.inbox.take_one()
        until = None if timeout is None else time.monotonic() + timeout
        while taken is None and self._fetch(_TAKEN_AT_ONCE, until):
            taken = self._subscription.inbox.take_one()
        return None if taken is None else Message(self._subscription, *taken)

    def get_many(self, limit: int, timeout: float | None = None) -> MessageBatch[Message]:
        """Up to `limit` messages, as soon as there are any; none after `timeout` seconds or when stopped."""
        taken = self._subscription.inbox.take_many(limit)
        until = None if timeout is None else time.monotonic() + timeout
        while not taken and self._fetch(limit, until):
            taken = self._subscription.inbox.take_many(limit)
        return MessageBatch(self._subscription, Message, taken)

    def claim(self, limit: int = 100, idle: float = 30.0) -> MessageBatch[Message]:
        """Take over up to so many messages that other consumers of the group were handed `idle` seconds ago or earlier
        and have not settled: each is this one's for the queue's delivery_timeout, and what its holder says of it is
        stale. Of a key all that is in flight goes, or nothing. Consumers that were closed, or died with their process,
        need no claim: what they held is free at once."""
        return MessageBatch(
            self._subscription, Message, self._subscription.runtime.run(self._subscription.claim(limit, idle))
        )

    def ack_many(self, messages: Iterable[Message]) -> Settled:
        """How many are done with, and how many were stale: taken back, or settled before. Durable when it returns."""
        return self._subscription.ack_many_and_wait(held_of(messages))

    def stop(self) -> None:
        """Whoever waits for messages gets none; those at hand can be settled until close()."""
        self._subscription.runtime.run(self._subscription.stop())

    def close(self) -> None:
        """What was not settled is free for others at once."""
        with suppress(Closed):  # the directory was closed before it, and everything with it
            if self._auto_ack is not None and (done := self._auto_ack.rest()):
                self.ack_many(done)
            self._subscription.runtime.run(self._subscription.close())

    def _fetch(self, limit: int, until: float | None) -> bool:
        """False when there is nothing to look for any more. Of several threads one goes, for all of them."""
        wait_s = _left(until)
        if not self._fetching.acquire(timeout=-1 if wait_s is None else wait_s):
            return False
        try:
            subscription, runtime = self._subscription, self._subscription.runtime
            if subscription.inbox.has_messages or subscription.is_received_here(limit):
                return True
            return runtime.run(subscription.inbox.receive(limit, _left(until)))
        except BaseException:
            # A signal handler may raise anything: what the broker goes on to bring would be held for nobody.
            self._subscription.runtime.post(self._subscription.interrupt(), Ignored())
            raise
        finally:
            self._fetching.release()


class AsyncConsumer(AsyncClosing):
    """As Consumer, for the tasks of one loop, whichever. The group is joined when it is entered or first asked."""

    def __init__(
        self,
        runtime: Runtime,
        opening: Callable[[], Work[Subscription]],
        idle_s: float | None = None,
        auto_ack_s: float | None = None,
    ) -> None:
        self._runtime, self._opening, self._idle_s = runtime, opening, idle_s
        self._auto_ack: AutoAck[AsyncMessage] | None = None if auto_ack_s is None else AutoAck(auto_ack_s)
        self._subscription: Subscription | None = None
        self._is_closed = False
        self._joining, self._fetching = asyncio.Lock(), asyncio.Lock()

    async def __aenter__(self) -> AsyncConsumer:
        await self._opened()
        return self

    def __aiter__(self) -> AsyncConsumer:
        return self

    async def __anext__(self) -> AsyncMessage:
        message = await self.get(self._idle_s)
        if message is None:
            raise StopAsyncIteration
        return message

    async def get(self, timeout: float | None = None) -> AsyncMessage | None:  # noqa: ASYNC109  # as the plain face
        if self._auto_ack is None:
            return await self._get(timeout)
        if done := self._auto_ack.back():
            await self.ack_many(done)
        message = await self._get(timeout)
        if message is None and (done := self._auto_ack.rest()):
            await self.ack_many(done)
        self._auto_ack.gave(message)
        return message

    async def _get(self, timeout: float | None) -> AsyncMessage | None:  # noqa: ASYNC109  # as the plain face
        until = None if timeout is None else time.monotonic() + timeout
        subscription = self._subscription or await self._opened()
        taken = subscription.inbox.take_one()
        while taken is None and await self._fetch(subscription, _TAKEN_AT_ONCE, until):
            taken = subscription.inbox.take_one()
        return None if taken is None else AsyncMessage(subscription, *taken)

    async def get_many(
        self,
        limit: int,
        timeout: float | None = None,  # noqa: ASYNC109  # as the plain face has it
    ) -> MessageBatch[AsyncMessage]:
        until = None if timeout is None else time.monotonic() + timeout
        subscription = self._subscription or await self._opened()
        taken = subscription.inbox.take_many(limit)
        while not taken and await self._fetch(subscription, limit, until):
            taken = subscription.inbox.take_many(limit)
        return MessageBatch(subscription, AsyncMessage, taken)

    async def claim(self, limit: int = 100, idle: float = 30.0) -> MessageBatch[AsyncMessage]:
        subscription = self._subscription or await self._opened()
        return MessageBatch(subscription, AsyncMessage, await self._runtime.wait(subscription.claim(limit, idle)))

    async def ack_many(self, messages: Iterable[AsyncMessage]) -> Settled:
        subscription = self._subscription or await self._opened()
        return await self._runtime.wait(subscription.ack_many(held_of(messages)))

    async def stop(self) -> None:
        await self._runtime.wait((await self._opened()).stop())

    async def close(self) -> None:
        with suppress(Closed):  # the directory was closed before it, and everything with it
            if self._auto_ack is not None and (done := self._auto_ack.rest()):
                await self.ack_many(done)
            await self._runtime.wait(self._leave())

    async def _fetch(self, subscription: Subscription, limit: int, until: float | None) -> bool:
        """As Consumer's."""
        if not await self._has_turn(until):
            return False
        try:
            return subscription.inbox.has_messages or await self._runtime.wait(
                subscription.inbox.receive(limit, _left(until))
            )
        except asyncio.CancelledError:
            # Begun before anybody else gets the lock, so it ends this call and no later one.
            self._runtime.post(subscription.interrupt(), Ignored())
            raise
        finally:
            self._fetching.release()

    async def _has_turn(self, until: float | None) -> bool:
        try:
            async with asyncio.timeout(_left(until) if self._fetching.locked() else None):
                return await self._fetching.acquire()
        except TimeoutError:
            return False

    async def _opened(self) -> Subscription:
        async with self._joining:
            if self._subscription is not None:
                return self._subscription
            try:
                return await self._runtime.wait(self._join())
            except asyncio.CancelledError:
                self._runtime.post(self._leave(), Ignored())
                raise

    # On the broker's loop

    async def _join(self) -> Subscription:
        self._subscription = subscription = await self._opening()
        if self._is_closed:
            await subscription.close()
        return subscription

    async def _leave(self) -> None:
        self._is_closed = True
        if self._subscription is not None:
            await self._subscription.close()


def _left(until: float | None) -> float | None:
    """Seconds; None: for ever."""
    return None if until is None else max(until - time.monotonic(), 0.0)
