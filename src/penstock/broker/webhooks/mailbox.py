"""What waits for one receiver: bounded, in order, tried again with growing pauses."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from penstock.broker.webhooks.events import Hook, Notice, headers_of
from penstock.broker.webhooks.post import Failure, beside, post

logger = logging.getLogger("penstock.broker.webhooks")

MAX_WAITING = 1000
FIRST_RETRY_S, LAST_RETRY_S, _GROWTH = 1.0, 120.0, 4.0
# So that receivers that came back are not met by all hooks in the same second.
_JITTER = 0.2


class Mailbox:
    """Used from the loop. One request at a time, so a receiver that is dead delays nobody but itself."""

    def __init__(self, hook: Hook, first_retry_s: float = FIRST_RETRY_S) -> None:
        self.hook = hook
        """may be exchanged for one with the same address at any time"""
        self.sent = self.failed = self.dropped = 0
        self.is_closed = False
        self.on_empty: Callable[[], None] = lambda: None
        self._first_retry_s = first_retry_s
        self._waiting: deque[Notice] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many were not sent yet."""
        return len(self._waiting)

    def put(self, notice: Notice) -> None:
        """Dropped, and counted, if too many wait."""
        if self.is_closed or len(self._waiting) >= MAX_WAITING:
            self.dropped += 1
            if self.dropped.bit_count() == 1:
                # The first, the second, the fourth …: a receiver that is away for a day is not a line for each event.
                logger.warning("event dropped url=%s event=%s dropped=%d", self.hook.place, notice.event, self.dropped)
            return
        self._waiting.append(notice)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_all())

    async def close(self) -> None:
        """What could not be sent yet is given up, and counted as dropped."""
        self.is_closed = True
        self.dropped += len(self._waiting)
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def idle(self) -> None:
        """Returns when nothing waits."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                failure = await self._send(self._waiting[0])
                self._waiting.popleft()
                if failure is None:
                    self.sent += 1
                else:
                    self.failed += 1
                    logger.error("event not delivered url=%s error=%s", self.hook.place, failure.reason)
        finally:
            self._task = None
        self.on_empty()

    async def _send(self, notice: Notice) -> Failure | None:
        """What went wrong at the last try."""
        pause_s, tries = self._first_retry_s, 0
        while True:
            hook = self.hook
            headers = headers_of(hook, notice, int(time.time()))
            failure = await beside(partial(post, hook.url, notice.body, headers, hook.timeout_s))
            tries += 1
            if failure is None or failure.is_final or tries > self.hook.retries:
                return failure
            logger.info("event not taken, tried again url=%s tries=%d error=%s", hook.place, tries, failure.reason)
            await asyncio.sleep(pause_s * random.uniform(1 - _JITTER, 1 + _JITTER))
            pause_s = min(pause_s * _GROWTH, LAST_RETRY_S)
