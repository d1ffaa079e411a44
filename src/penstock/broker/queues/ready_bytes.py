"""How many bytes of values wait in a partition, for queues that limit them: what each batch has, and of a part of one
its share."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from penstock.broker.queues.unit import Unit
from penstock.kernels.window import EntryState, Window
from penstock.log.batch import VALUE, Batch

# Of messages that came back: of more than these, the others are taken to be as long.
_LOOKED_AT = 1000
# Entries of batches that were settled meanwhile.
_SPARE = 1024


class ReadyBytes:
    """From an offset on. What is not in memory when it is looked at first counts as nothing."""

    def __init__(self, first: int) -> None:
        self._ends, self._totals = array("q", [first]), array("q", [0])
        """where batches end, and the bytes of all up to there"""

    def of(self, unit: Unit, window: Window) -> int:
        """What nobody holds, staged or committed."""
        self._note(unit)
        self._forget(window.floor)
        ahead = self._between(max(window.next, unit.start), unit.data.end)
        if not window.ready:
            return ahead
        back = window.offsets(EntryState.READY, _LOOKED_AT)
        size = sum([self._between(offset, offset + 1) for offset in back])
        return ahead + size * window.ready // len(back)

    def _note(self, unit: Unit) -> None:
        while self._ends[-1] < unit.data.end and (batches := unit.batches_from(self._ends[-1])):
            before = self._ends[-1]
            for batch in batches:
                if batch.end > self._ends[-1]:
                    column = Batch.parse(batch.data, verify=False).var_column(VALUE)
                    self._ends.append(batch.end)
                    self._totals.append(self._totals[-1] + (0 if column is None else len(column[2])))
            if self._ends[-1] == before:
                break

    def _forget(self, floor: int) -> None:
        gone = bisect_right(self._ends, floor) - 1
        if gone > _SPARE:
            del self._ends[:gone], self._totals[:gone]

    def _between(self, first: int, stop: int) -> int:
        return self._up_to(stop) - self._up_to(first) if stop > first else 0

    def _up_to(self, offset: int) -> int:
        at = bisect_right(self._ends, offset)
        if at == 0:
            return self._totals[0]
        if at == len(self._ends):
            return self._totals[-1]
        first, stop = self._ends[at - 1], self._ends[at]
        size = self._totals[at] - self._totals[at - 1]
        return self._totals[at - 1] + size * (offset - first) // (stop - first)
