"""A heap of indexes, the lowest first."""

from __future__ import annotations

from array import array

_FEWEST = 16
_NO_ITEMS = array("i")


class IndexHeap:
    """Indexes are 0 to 2**31 - 1 and may be in it twice: who pops one asks whether it still means something."""

    def __init__(self) -> None:
        self.size = 0
        self.items = _NO_ITEMS

    def push(self, index: int) -> int:
        if self.size == len(self.items):
            self._grow()
        at = self.size
        self.size += 1
        while at > 0 and self.items[(at - 1) >> 1] > index:
            self.items[at] = self.items[(at - 1) >> 1]
            at = (at - 1) >> 1
        self.items[at] = index
        return 0

    def pop(self) -> int:
        """The lowest; -1 if there is none."""
        if self.size == 0:
            return -1
        lowest = self.items[0]
        self.size -= 1
        last = self.items[self.size]
        at, child = 0, 1
        while child < self.size:
            if child + 1 < self.size and self.items[child + 1] < self.items[child]:
                child += 1
            if self.items[child] >= last:
                break
            self.items[at] = self.items[child]
            at, child = child, 2 * child + 1
        self.items[at] = last
        return lowest

    def clear(self) -> int:
        """Forget all, and the memory of a crowd."""
        self.size = 0
        if len(self.items) > 64 * _FEWEST:
            self.items = array("i", bytes(4 * _FEWEST))
        return 0

    def _grow(self) -> int:
        larger = array("i", bytes(4 * max(len(self.items) + (len(self.items) >> 1), _FEWEST)))
        grown = larger
        for i in range(self.size):
            grown[i] = self.items[i]
        self.items = larger
        return 0
