"""What a worker does with a message before and after its function: order of keys, acknowledgements, failures."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic

from penstock.broker.feed.held import Held
from penstock.embedded.message import DeliveredMessage, M, held_of
from penstock.embedded.subscription import Subscription
from penstock.queues.settings import Ordering

logger = logging.getLogger("penstock.embedded.worker")


class Reject(Exception):
    """Raised by a worker's function: the message is never to be done and goes to the dead letters, with this text."""


class Retry(Exception):
    """Raised by a worker's function: the message comes again after `delay` seconds, by default those of the queue's
    retry policy. Any other exception does the same without a say in the delay."""

    def __init__(self, reason: str = "", delay: float | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


def reason_of(error: Exception) -> str:
    return str(error) if isinstance(error, Reject | Retry) else f"{type(error).__name__}: {error}"


class Lanes(Generic[M]):
    """Messages that must keep their order wait here while one before them is being handled. For any thread."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._lock = threading.Lock()
        self._waiting: dict[bytes | None, deque[M]] = {}

    def admit(self, message: M) -> bool:
        """Whether it may be handled now; else following() gives it."""
        lane = self._lane(message)
        if lane is None:
            return True
        with self._lock:
            if lane in self._waiting:
                self._waiting[lane].append(message)
                return False
            self._waiting[lane] = deque()
            return True

    def following(self, message: M) -> M | None:
        """The next one in order, after a message was handled."""
        lane = self._lane(message)
        if lane is None:
            return None
        with self._lock:
            if self._waiting[lane]:
                return self._waiting[lane].popleft()
            del self._waiting[lane]
            return None

    async def drop_taken_back(self, message: M) -> None:
        """On the broker's loop, after a message failed: those behind it come again, unless they came since."""
        lane = self._lane(message)
        if lane is None:
            return
        with self._lock:
            self._waiting[lane] = deque(each for each in self._waiting[lane] if self._subscription.is_held(each))

    def _lane(self, message: M) -> bytes | None:
        ordering = self._subscription.ordering
        if ordering is Ordering.STRICT:
            return b""
        return message.key if ordering is Ordering.PARTITION else None


class Acks:
    """Acknowledgements that nobody waits for one by one: what has come when the broker looks is one call. A message
    handled and not yet acknowledged comes again after a crash, as one does that was not handled."""

    def __init__(self, subscription: Subscription, on_failure: Callable[[BaseException], None]) -> None:
        self._subscription, self._on_failure = subscription, on_failure
        self._handled: deque[DeliveredMessage] = deque()
        self._is_posted = False
        self._under_way: set[asyncio.Task[object] | None] = set()

    def add(self, message: DeliveredMessage) -> None:
        """For any thread."""
        self._handled.append(message)
        if not self._is_posted:
            self._is_posted = True
            self._subscription.runtime.post(self._flush(), self)

    def done(self, result: None) -> None:
        """Nobody waits for it."""

    def failed(self, error: BaseException) -> None:
        self._on_failure(error)

    async def finish(self) -> None:
        """Returns when all are durable, or have failed."""
        await self._flush()
        while self._under_way:
            await asyncio.wait([task for task in self._under_way if task is not None])

    async def _flush(self) -> None:
        # First: who comes after the last look posts again.
        self._is_posted = False
        handled = self._taken()
        if not handled:
            return
        task = asyncio.current_task()
        self._under_way.add(task)
        try:
            settled = await self._subscription.ack_many(handled)
        finally:
            self._under_way.discard(task)
        if settled.stale:
            logger.warning(
                "%d messages were handled too late and come again queue=%s group=%s",
                settled.stale,
                self._subscription.queue.name,
                self._subscription.group.name,
            )

    def _taken(self) -> list[Held]:
        taken = []
        while self._handled:
            taken.append(self._handled.popleft())
        return held_of(taken)
