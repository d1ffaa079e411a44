"""Calls at a running time, one for each key."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Hashable
from itertools import count

from penstock.core.timeline import Timeline

logger = logging.getLogger("penstock.broker.alarms")

# Whether the wall clock was set is looked at this often, while something is due later.
_LONGEST_SLEEP_S = 1.0
# Entries of alarms that were dropped, or set to an earlier time.
_SPARE = 1000


class Alarms:
    """Used from the loop. An alarm is set to the earliest time asked for its key, and forgotten when it rings."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline, self._loop = timeline, asyncio.get_running_loop()
        self._due: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable, Callable[[int], None]]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def set(self, key: Hashable, due_ms: int, call: Callable[[int], None]) -> None:
        """`call` gets the time, not before `due_ms`. An earlier alarm of the key stands."""
        if self._due.get(key, due_ms + 1) <= due_ms or self._is_closed:
            return
        self._due[key] = due_ms
        if len(self._heap) > 2 * len(self._due) + _SPARE:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (due_ms, next(self._numbers), key, call))
        if self._heap[0][2] is key or self._timer is None:
            self._sleep()

    def drop(self, key: Hashable) -> None:
        self._due.pop(key, None)

    def ring(self) -> None:
        """Make the calls that are due now."""
        self._timeline.look()
        now = self._timeline.now()
        while self._heap and self._heap[0][0] <= now:
            due, _, key, call = heapq.heappop(self._heap)
            if self._due.get(key) != due:
                continue
            del self._due[key]
            try:
                call(now)
            except Exception:
                logger.exception("an alarm failed key=%r", key)
        self._sleep()

    def close(self) -> None:
        self._is_closed = True
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _sleep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap and not self._is_closed:
            wait_s = max(self._heap[0][0] - self._timeline.now(), 0) / 1000
            self._timer = self._loop.call_later(min(wait_s, _LONGEST_SLEEP_S), self.ring)
