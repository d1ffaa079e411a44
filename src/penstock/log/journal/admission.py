"""Who may stage now: publishes and settlements have budgets of their own, and those who wait are let in in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from penstock.core.metrics import ShardMetrics
from penstock.core.types import Purpose
from penstock.log.engine import Usage
from penstock.log.options import ShardOptions

_PURPOSES = tuple(Purpose)


class Admission:
    """Used from the loop. Whoever is over (the shard is closed, or has failed) is let in, to be told so."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        usage: Usage,
        metrics: ShardMetrics,
        options: ShardOptions,
        is_over: Callable[[], bool],
        want_room: Callable[[], None],
    ) -> None:
        """`want_room` is called when somebody begins to wait."""
        self._want_room = want_room
        self._loop, self._usage, self._metrics, self._is_over = loop, usage, metrics, is_over
        tail_bytes = options.tail_limit_bytes
        self._limits = (options.publish_budget_bytes, tail_bytes), (options.settle_budget_bytes, 2 * tail_bytes)
        """by purpose"""
        self._waiting: list[deque[tuple[int, asyncio.Future[None]]]] = [deque() for _ in _PURPOSES]
        self._let_in = 0
        """of those who waited for room, how many may go on and have not run yet"""

    async def admitted(self, purpose: Purpose, size: int) -> None:
        """Wait, in turn, until there is room for so many bytes."""
        if self.is_let_in(purpose, size):
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting[purpose].append((size, future))
        self._metrics.admission_waits += 1
        self._want_room()
        try:
            await future
        finally:
            if not future.cancelled():
                self._let_in -= 1
                self._loop.call_soon(self.admit_waiting)

    def is_let_in(self, purpose: Purpose, size: int) -> bool:
        """At once. Those who wait come first, and those who were let in and have not run yet."""
        return not (self._let_in or self._waiting[purpose]) and self._has_room(purpose, size)

    def admit_waiting(self) -> None:
        """There may be room."""
        if not any(self._waiting):
            return
        for purpose, waiting in zip(_PURPOSES, self._waiting, strict=True):
            budget = 0
            while waiting and (self._is_over() or self._has_room(purpose, budget + waiting[0][0])):
                size, future = waiting.popleft()
                budget += size
                if not future.done():
                    self._let_in += 1
                    future.set_result(None)

    def _has_room(self, purpose: Purpose, size: int) -> bool:
        """One commit is always let in, however large; the frame limit bounds it."""
        usage, (budget, tail_bytes) = self._usage, self._limits[purpose]
        staged, tail = usage.staged[purpose], usage.tail
        return (not staged or staged + size <= budget) and (not tail or tail + size <= tail_bytes)
