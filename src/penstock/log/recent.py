"""Batches that have left the hot tail but are likely to be read soon: by those who are a little behind."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.log.frames import Entry
    from penstock.log.partition import Log


class RecentBatches:
    """Those of one log, oldest first."""

    __slots__ = ("_batches", "_head")

    def __init__(self) -> None:
        self._batches: list[Entry] = []
        self._head = 0

    def add(self, batch: Entry) -> None:
        self._batches.append(batch)

    def drop(self, batch: Entry) -> None:
        """It must be the oldest, unless all were cleared since."""
        if self._head < len(self._batches) and self._batches[self._head] is batch:
            self._head += 1
            if 2 * self._head > len(self._batches):
                del self._batches[: self._head]
                self._head = 0

    def clear(self) -> None:
        self._batches.clear()
        self._head = 0

    def find(self, offset: int) -> Entry | None:
        """The batch whose range holds the offset."""
        at = bisect_right(self._batches, offset, self._head, key=_first) - 1
        if at < self._head or offset >= self._batches[at].end:
            return None
        return self._batches[at]


# Of single messages a bound in bytes would keep that many objects that the garbage collector has to look at.
_MOST_BATCHES = 8192


class Recently:
    """A bound in bytes and in number over all logs: what came first goes first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes, self._bytes = limit_bytes, 0
        # Side by side: a tuple of both would be an object more for the garbage collector.
        self._logs: deque[Log] = deque()
        self._batches: deque[Entry] = deque()

    def add(self, log: Log, batches: list[Entry]) -> None:
        for batch in batches:
            log.recent.add(batch)
            self._logs.append(log)
            self._batches.append(batch)
            self._bytes += len(batch.data)
        while self._bytes > self._limit_bytes or len(self._batches) > _MOST_BATCHES:
            other, oldest = self._logs.popleft(), self._batches.popleft()
            other.recent.drop(oldest)
            self._bytes -= len(oldest.data)


def _first(batch: Entry) -> int:
    return batch.first
