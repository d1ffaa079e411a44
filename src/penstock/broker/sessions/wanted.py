"""How many sessions still want each record of a message log."""

from __future__ import annotations

from array import array

from penstock.kernels import session_entries as kernel
from penstock.kernels.session_entries import CHUNK


class Living:
    """Four bytes a record, in chunks that come when a record of theirs is first wanted and go when the log's start
    passes them."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: dict[int, array[int]] = {}

    def add(self, offsets: array[int], change: int) -> None:
        """`change` for each of the offsets ('q'), which may repeat."""
        at = 0
        while at < len(offsets):
            number = offsets[at] // CHUNK
            chunk = self._chunks.get(number)
            if chunk is None:
                chunk = self._chunks[number] = array("i", bytes(4 * CHUNK))
            at = kernel.add_living(chunk, number, offsets, at, change)

    def is_wanted(self, offset: int) -> bool:
        chunk = self._chunks.get(offset // CHUNK)
        return chunk is not None and chunk[offset % CHUNK] > 0

    def count(self, first: int, stop: int) -> int:
        """Records from `first` to stop - 1 that somebody wants."""
        found = 0
        for number, chunk in self._chunks.items():
            start, end = max(first - number * CHUNK, 0), min(stop - number * CHUNK, CHUNK)
            if start < end:
                found += kernel.count_living(chunk, start, end)
        return found

    def first(self, start: int, stop: int) -> int:
        """The first record from `start` on that somebody wants; `stop` if there is none before it."""
        for number in sorted(self._chunks):
            base = number * CHUNK
            if base + CHUNK <= start or base >= stop:
                continue
            place = kernel.first_living(self._chunks[number], max(start - base, 0))
            if place < CHUNK:
                return min(base + place, stop)
        return stop

    def trim(self, start: int) -> None:
        """The log begins there now."""
        for number in [number for number in self._chunks if (number + 1) * CHUNK <= start]:
            del self._chunks[number]
