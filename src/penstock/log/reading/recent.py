"""Batches that have left the hot tail but are likely to be read soon: by those who are a little behind."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.log.journal.frames import Entry


class RecentBatches:
    """Those of one log, oldest first."""

    __slots__ = ("_batches", "_head")

    def __init__(self) -> None:
        self._batches: list[Entry] = []
        self._head = 0

    def add(self, batches: list[Entry]) -> None:
        self._batches += batches

    def drop(self, batches: list[Entry]) -> None:
        """They must be the oldest, unless all were cleared since."""
        if self._head < len(self._batches) and self._batches[self._head] is batches[0]:
            self._head += len(batches)
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
# Of what a log brings at once so much comes and goes together, at most.
_TOGETHER_BATCHES, _TOGETHER_BYTES = 64, 1 << 20


class _Lot(NamedTuple):
    """Batches of one log that came together."""

    recent: RecentBatches
    batches: list[Entry]
    bytes: int


class Recently:
    """A bound in bytes and in number over all logs: what came first goes first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes, self._bytes, self._count = limit_bytes, 0, 0
        self._lots: deque[_Lot] = deque()

    def add(self, recent: RecentBatches, batches: list[Entry], size_bytes: int) -> None:
        """`size_bytes` of all of them."""
        recent.add(batches)
        if size_bytes <= _TOGETHER_BYTES and 0 < len(batches) <= _TOGETHER_BATCHES:
            self._lots.append(_Lot(recent, batches, size_bytes))
        else:
            self._lots.extend(_lots(recent, batches, 1 if size_bytes > _TOGETHER_BYTES else _TOGETHER_BATCHES))
        self._bytes += size_bytes
        self._count += len(batches)
        while self._bytes > self._limit_bytes or self._count > _MOST_BATCHES:
            oldest = self._lots.popleft()
            oldest.recent.drop(oldest.batches)
            self._bytes -= oldest.bytes
            self._count -= len(oldest.batches)


def _lots(recent: RecentBatches, batches: list[Entry], most: int) -> Iterator[_Lot]:
    for first in range(0, len(batches), most):
        some = batches[first : first + most]
        yield _Lot(recent, some, sum([len(batch.data) for batch in some]))


def _first(batch: Entry) -> int:
    return batch.first
