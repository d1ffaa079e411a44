"""A worker: a function that is called for every message of a queue, in threads or as tasks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from penstock.core.errors import StaleSettlement
from penstock.embedded.bridge import Ignored
from penstock.embedded.consumer import AsyncConsumer, Consumer
from penstock.embedded.handlers import Acks, Lanes, Reject, Retry, reason_of
from penstock.embedded.message import AsyncMessage, DeliveredMessage, Message
from penstock.embedded.runtime import Runtime
from penstock.embedded.subscription import Subscription

logger = logging.getLogger("penstock.embedded.worker")

PlainHandler: TypeAlias = Callable[[Message], object]
AsyncHandler: TypeAlias = Callable[[AsyncMessage], Awaitable[object]]
OnFailure: TypeAlias = Callable[[BaseException], None]


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker was registered with."""

    queue: str
    group: str
    concurrency: int
    prefetch: int
    start: str

    async def open(self, runtime: Runtime) -> Subscription:
        return await Subscription.open(runtime, self.queue, self.group, None, self.start, self.prefetch)

    def tell(self, message: DeliveredMessage, error: Exception) -> None:
        what = "rejected" if isinstance(error, Reject) else "failed"
        logger.warning("message %s message=%s group=%s error=%s", what, message.id, self.group, reason_of(error))
        logger.debug("where it failed message=%s", message.id, exc_info=error)


class ThreadWorker:
    """A plain function, in threads of its own. `on_failure` is told, in any thread, what the worker cannot go on
    after."""

    def __init__(self, runtime: Runtime, job: Job, handler: PlainHandler, on_failure: OnFailure) -> None:
        self._runtime, self._job, self._handler, self._on_failure = runtime, job, handler, on_failure
        self.is_stopping = False
        """set from anywhere: no further message is begun"""
        self._threads = [
            threading.Thread(target=self._work, name=f"penstock worker {job.queue} {number}", daemon=True)
            for number in range(job.concurrency)
        ]

    def start(self) -> None:
        self._subscription = subscription = self._runtime.run(self._job.open(self._runtime))
        self._consumer, self._acks = Consumer(subscription), Acks(subscription, self._on_failure)
        self._lanes = Lanes[Message](subscription)
        for thread in self._threads:
            thread.start()

    def ask_to_stop(self) -> None:
        self.is_stopping = True
        self._runtime.post(self._subscription.stop(), Ignored())

    def finish(self) -> None:
        """After ask_to_stop(): returns when every message in hand is settled and the others are given back."""
        for thread in self._threads:
            thread.join()
        self._runtime.run(self._acks.finish())
        self._runtime.run(self._subscription.close(counted=False))

    def has_thread(self, thread: threading.Thread) -> bool:
        return thread in self._threads

    def _work(self) -> None:
        try:
            while not self.is_stopping and (message := self._consumer.get()) is not None:
                following = message if self._lanes.admit(message) else None
                while following is not None and not self.is_stopping:
                    following = self._handle(following)
        except BaseException as error:
            self._on_failure(error)

    def _handle(self, message: Message) -> Message | None:
        """The next one of its key, if it is here."""
        try:
            self._handler(message)
        except Exception as error:
            self._fail(message, error)
        else:
            if not message.is_settled:
                self._acks.add(message)
        return self._lanes.following(message)

    def _fail(self, message: Message, error: Exception) -> None:
        self._job.tell(message, error)
        try:
            if isinstance(error, Reject):
                message.dead_letter(reason_of(error))
            else:
                message.retry(error.delay if isinstance(error, Retry) else None, reason_of(error))
                self._runtime.run(self._lanes.drop_taken_back(message))
        except StaleSettlement as stale:
            logger.warning("%s", stale)


class TaskWorker:
    """An async function, in tasks of the loop that work() runs on. `on_failure` as for ThreadWorker."""

    def __init__(self, runtime: Runtime, job: Job, handler: AsyncHandler, on_failure: OnFailure) -> None:
        self._runtime, self._job, self._handler, self._on_failure = runtime, job, handler, on_failure
        self._subscription: Subscription | None = None
        self.is_stopping = False
        """set from anywhere: no further message is begun"""

    def ask_to_stop(self) -> None:
        """For any thread."""
        self.is_stopping = True
        if self._subscription is not None:
            self._runtime.post(self._subscription.stop(), Ignored())

    async def work(self) -> None:
        """Returns after ask_to_stop(), when every message in hand is settled and the others are given back."""
        try:
            async with AsyncConsumer(self._runtime, self._open) as consumer:
                await self._work_on(consumer)
        except Exception as error:
            self._on_failure(error)

    async def _open(self) -> Subscription:
        self._subscription = subscription = await self._job.open(self._runtime)
        if self.is_stopping:
            await subscription.stop()
        return subscription

    async def _work_on(self, consumer: AsyncConsumer) -> None:
        subscription = self._subscription
        assert subscription is not None
        self._acks, self._lanes = Acks(subscription, self._on_failure), Lanes[AsyncMessage](subscription)
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._job.concurrency):
                    tasks.create_task(self._work(consumer))
        finally:
            await self._runtime.wait(self._acks.finish())
            await self._runtime.wait(subscription.close(counted=False))

    async def _work(self, consumer: AsyncConsumer) -> None:
        try:
            while not self.is_stopping and (message := await consumer.get()) is not None:
                following = message if self._lanes.admit(message) else None
                while following is not None and not self.is_stopping:
                    following = await self._handle(following)
        except Exception as error:
            self._on_failure(error)

    async def _handle(self, message: AsyncMessage) -> AsyncMessage | None:
        try:
            await self._handler(message)
        except Exception as error:
            await self._fail(message, error)
        else:
            if not message.is_settled:
                self._acks.add(message)
        return self._lanes.following(message)

    async def _fail(self, message: AsyncMessage, error: Exception) -> None:
        self._job.tell(message, error)
        try:
            if isinstance(error, Reject):
                await message.dead_letter(reason_of(error))
            else:
                await message.retry(error.delay if isinstance(error, Retry) else None, reason_of(error))
                await self._runtime.wait(self._lanes.drop_taken_back(message))
        except StaleSettlement as stale:
            logger.warning("%s", stale)
