"""What the keys of a window are doing: open addressing over 64-bit hashes, one slot a key."""

from __future__ import annotations

from array import array

_FEWEST = 16
# One slot that no key has: what a table is before its first key. Most never have one.
_NO_KEYS = array("Q", bytes(8))
_NO_COUNTS = array("i", bytes(4))


class KeyTable:
    """Keys are 1 to 2**64 - 1. A slot holds how many entries of its key are held, by whom, how many wait, and the first
    and last index of its chain of entries. A key of which nothing is held or waits keeps its slot until the table is
    full; slots move then, so one is good until the next add()."""

    def __init__(self) -> None:
        self.used = self.mask = 0
        self.key = _NO_KEYS
        self.held = _NO_COUNTS
        self.owner = _NO_COUNTS
        self.waiting = _NO_COUNTS
        self.first = _NO_COUNTS
        self.last = _NO_COUNTS

    def find(self, key: int) -> int:
        """The slot; -1 if the key has none."""
        at = (key ^ key >> 32) & self.mask
        while self.key[at] != 0:
            if self.key[at] == key:
                return at
            at = (at + 1) & self.mask
        return -1

    def add(self, key: int) -> int:
        """The slot, a new one if need be."""
        slot = self.find(key)
        if slot >= 0:
            return slot
        if 4 * (self.used + 1) > 3 * (self.mask + 1):
            self._rehash()
        return self._place(key)

    def clear(self) -> int:
        """In place, unless it has grown large: windows of small batches are emptied again and again."""
        if self.mask >= 64 * _FEWEST:
            self._allocate(_FEWEST)
        elif self.used > 0:
            for i in range(len(self.key)):
                self.key[i] = 0
                self.held[i] = self.waiting[i] = 0
            self.used = 0
        return 0

    def _place(self, key: int) -> int:
        at = (key ^ key >> 32) & self.mask
        while self.key[at] != 0:
            at = (at + 1) & self.mask
        self.key[at] = key
        self.used += 1
        return at

    def _rehash(self) -> int:
        """Into a table that is at most half full, leaving out what is not used any more."""
        key, held, owner, waiting = self.key, self.held, self.owner, self.waiting
        first, last = self.first, self.last
        live = 0
        for i in range(len(key)):
            live += key[i] != 0 and held[i] + waiting[i] > 0
        size = _FEWEST
        while size < 2 * live + 2:
            size *= 2
        self._allocate(size)
        for i in range(len(key)):
            if key[i] != 0 and held[i] + waiting[i] > 0:
                slot = self._place(key[i])
                self.held[slot], self.owner[slot], self.waiting[slot] = held[i], owner[i], waiting[i]
                self.first[slot], self.last[slot] = first[i], last[i]
        return 0

    def _allocate(self, size: int) -> int:
        self.mask = size - 1
        self.used = 0
        self.key = array("Q", bytes(8 * size))
        self.held = array("i", bytes(4 * size))
        self.owner = array("i", bytes(4 * size))
        self.waiting = array("i", bytes(4 * size))
        self.first = array("i", bytes(4 * size))
        self.last = array("i", bytes(4 * size))
        return 0
