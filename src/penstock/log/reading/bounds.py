"""Start, end and epochs of a log: the part of its state that the loop and the keeper fold alike."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.kernels.staged import Span
from penstock.log.records import Edit, EpochStart

# After an unclean stop, a log that may have lost acknowledged records goes on this far behind its recovered end.
OFFSET_GAP = 1 << 32


class Bounds(Span):
    """Offsets start..end; `epochs` says which epoch, or which gap, begins where."""

    __slots__ = ("_epochs",)

    def __init__(self, start: int = 0, end: int = 0, epochs: Iterable[EpochStart] = (EpochStart(0, 0, 0),)) -> None:
        self._epochs = list(epochs)
        super().__init__(start, end, self._epochs[-1].epoch)

    @property
    def epochs(self) -> list[EpochStart]:
        """Not to be changed in place."""
        return self._epochs

    @epochs.setter
    def epochs(self, epochs: list[EpochStart]) -> None:
        self._epochs, self.epoch = epochs, epochs[-1].epoch

    def take(self, end: int, edit: Edit | None) -> None:
        """Fold an entry of a frame: a batch that ends there, or an edit."""
        if edit is None:
            self.end = end
        else:
            self.apply(edit)

    def apply(self, edit: Edit) -> None:
        if edit.end is not None and edit.end < self.end:
            self.epochs = [epoch for epoch in self.epochs if epoch.start <= edit.end]
            self.end = edit.end
        elif edit.end is not None and edit.end > self.end:
            self.epochs = [*self.epochs, EpochStart(self.epoch, edit.end, self.end)]
            self.end = edit.end
        if edit.adopted:
            self.end = edit.adopted[-1].end
        if edit.start is not None:
            self.start = max(self.start, edit.start)
        if edit.epoch is not None and edit.epoch != self.epoch:
            self.epochs = [*self.epochs, EpochStart(edit.epoch, self.end, self.end)]

    def skipped(self) -> int:
        """Offsets between start and end that never named a record because they were skipped."""
        return sum(
            epoch.start - max(epoch.previous_end, self.start) for epoch in self.epochs if epoch.start > self.start
        )
