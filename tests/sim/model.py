"""What a shard must hold: the fold of its commits, in their one order. Recovery gives the fold of a first part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.core.errors import PenstockError
from penstock.core.types import Durability
from penstock.log.records import Edit, LogSettings

OFFSET_GAP = 1 << 32


@dataclass(frozen=True, slots=True)
class ModelBatch:
    first: int
    end: int
    data: bytes


@dataclass(slots=True)
class ModelLog:
    name: str
    settings: LogSettings
    start: int = 0
    end: int = 0
    epochs: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)
    batches: list[ModelBatch] = field(default_factory=list)

    def copy(self) -> ModelLog:
        return ModelLog(self.name, self.settings, self.start, self.end, self.epochs, list(self.batches))

    def kept(self) -> list[bytes]:
        """The batches that hold a record at or above the start."""
        return [batch.data for batch in self.batches if batch.end > self.start]

    def edit(self, edit: Edit) -> None:
        if edit.end is not None and edit.end < self.end:
            self.epochs = tuple(epoch for epoch in self.epochs if epoch[1] <= edit.end)
            self.batches = [batch for batch in self.batches if batch.first < edit.end]
            self.end = edit.end
        elif edit.end is not None and edit.end > self.end:
            self.epochs = (*self.epochs, (self.epochs[-1][0], edit.end, self.end))
            self.end = edit.end
        self.start = max(self.start, edit.start or 0)
        if edit.epoch is not None and edit.epoch != self.epochs[-1][0]:
            self.epochs = (*self.epochs, (edit.epoch, self.end, self.end))

    def append(self, batch: ModelBatch) -> None:
        assert batch.first >= self.end
        self.batches.append(batch)
        self.end = batch.end


Logs = dict[int, ModelLog]


@dataclass(frozen=True, slots=True)
class Append:
    number: int
    batch: ModelBatch

    def apply(self, logs: Logs) -> None:
        logs[self.number].append(self.batch)


@dataclass(frozen=True, slots=True)
class Alter:
    number: int
    edit: Edit

    def apply(self, logs: Logs) -> None:
        logs[self.number].edit(self.edit)


@dataclass(frozen=True, slots=True)
class Declare:
    number: int
    name: str
    settings: LogSettings

    def apply(self, logs: Logs) -> None:
        log = logs.setdefault(self.number, ModelLog(self.name, self.settings))
        log.settings = self.settings


@dataclass(frozen=True, slots=True)
class Delete:
    number: int

    def apply(self, logs: Logs) -> None:
        del logs[self.number]


Change = Append | Alter | Declare | Delete


@dataclass(slots=True)
class Commit:
    """One frame on its way; `done` is what the engine calls."""

    level: Durability
    history: History
    sequence: int = -1
    changes: list[Change] = field(default_factory=list)
    told: bool = False
    acked: bool = False

    def done(self, error: PenstockError | None) -> None:
        assert not self.told, f"commit {self.sequence} was answered twice"
        self.told, self.acked = True, error is None
        if self.acked and self.sequence >= 0:
            self.history.acknowledged(self)


class History:
    """All commits since the directory was made. `settled` is the fold of those that must survive whatever happens,
    `tip` of all that were staged."""

    def __init__(self) -> None:
        self.settled: Logs = {}
        self.tip: Logs = {}
        self.pending: list[Commit] = []
        self.first_pending = 0
        self.durable_end = 0
        """commits below were acknowledged as synced"""
        self.written_end = 0
        """commits below were acknowledged as written: they survive the process, not the machine"""
        self.named: dict[int, int] = {}
        """log number -> end of the offsets that a reader or a publisher has been told of"""
        self.numbers: set[int] = set()
        """of logs that anybody has been told of"""

    @property
    def next_sequence(self) -> int:
        return self.first_pending + len(self.pending)

    def begin(self, level: Durability) -> Commit:
        return Commit(level, self)

    def staged(self, commit: Commit, changes: Iterable[Change]) -> None:
        commit.sequence, commit.changes = self.next_sequence, list(changes)
        self.pending.append(commit)
        for change in commit.changes:
            self._check_new(change)
            change.apply(self.tip)
        if commit.acked:
            self.acknowledged(commit)

    def acknowledged(self, commit: Commit) -> None:
        if commit.level is Durability.COMMIT:
            self.durable_end = max(self.durable_end, commit.sequence + 1)
        if commit.level is not Durability.MEMORY:
            self.written_end = max(self.written_end, commit.sequence + 1)
        for change in commit.changes:
            self._told_of(change)

    def seen(self, number: int, end: int) -> None:
        """A reader has been shown the records below `end`."""
        if end:
            self.named[number] = max(self.named.get(number, 0), end)

    def recovered(self, end: int, power_lost: bool) -> None:
        """The directory was opened again and says it holds the commits below `end`."""
        least = self.durable_end if power_lost else self.written_end
        assert least <= end <= self.next_sequence, f"commits below {least} must be there, {end} are"
        self._settle(end)
        self.pending = []
        self.durable_end = self.written_end = end
        self.tip = {number: log.copy() for number, log in self.settled.items()}

    def fold_durable(self) -> None:
        """Forget what need not be told apart any more."""
        self._settle(self.durable_end)

    def _settle(self, end: int) -> None:
        count = max(0, end - self.first_pending)
        for commit in self.pending[:count]:
            for change in commit.changes:
                change.apply(self.settled)
                if not commit.acked:
                    self._told_of(change)
        self.pending = self.pending[count:]
        self.first_pending += count

    def _told_of(self, change: Change) -> None:
        if isinstance(change, Append):
            self.seen(change.number, change.batch.end)
        elif isinstance(change, Declare):
            self.numbers.add(change.number)
        elif isinstance(change, Alter) and change.edit.end is not None and change.number in self.named:
            self.named[change.number] = min(self.named[change.number], change.edit.end)

    def _check_new(self, change: Change) -> None:
        """An offset never names two messages, a number never two logs; a cut takes its offsets back."""
        if isinstance(change, Declare) and change.number not in self.tip:
            assert change.number not in self.numbers, f"log number {change.number} is used again"
            assert change.number not in self.named, f"log number {change.number} is used again"
        if isinstance(change, Append):
            cuts = [
                other.edit.end
                for commit in self.pending
                for other in commit.changes
                if not commit.acked
                and isinstance(other, Alter)
                and other.number == change.number
                and other.edit.end is not None
            ]
            named = min([self.named.get(change.number, 0), *cuts])
            assert change.batch.first >= named, f"offset {change.batch.first} of log {change.number} is used again"
