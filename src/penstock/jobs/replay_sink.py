"""Pieces of a replay on their way into a queue: prepared anywhere, side by side, and committed here, one after the
other. So messages come in the order of pieces whoever prepares them, and one that was prepared twice counts once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from penstock.core.errors import ErrorCode, PenstockError
from penstock.jobs.job import Progress, Runner
from penstock.jobs.local import InThisProcess
from penstock.jobs.replay_plan import ReplayFile, ReplayPiece

# What is prepared and not committed yet takes disk, and room in the queue: so much as keeps a small cluster busy.
PIECES_AHEAD = 64
_PASSING = frozenset({ErrorCode.QUEUE_FULL, ErrorCode.DISK_LOW})

Prepared = TypeVar("Prepared")
Made = TypeVar("Made", covariant=True)


class Prepare(Protocol[Made]):
    def __call__(self, query: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> Made:
        """Bring the rows of an epoch where the sink finds them; nobody else sees them yet. Done again, it leaves what
        is let go of when the epoch is committed, or later. Pickled, except for InThisProcess."""
        ...


class Sink(Protocol[Prepared]):
    """A queue that is written to."""

    @property
    def prepare(self) -> Prepare[Prepared]: ...

    def commit(self, query: str, epoch: int, prepared: Prepared) -> int:
        """Make the rows of an epoch messages, all of them or none, unless that was done before. How many there are."""
        ...

    def discard(self, prepared: Prepared) -> None:
        """Let go of what will not be committed."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """What is tried again while the queue cannot take it, for so long."""

    wait_s: float
    pause_s: float = 1.0

    def tried(self, act: Callable[[], int]) -> int:
        waited_s = 0.0
        while True:
            try:
                return act()
            except PenstockError as error:
                if error.code not in _PASSING:
                    raise
                waited_s = self.waited(waited_s, error)

    def waited(self, waited_s: float, error: PenstockError) -> float:
        """How long it is after one more pause; the error once that is too long."""
        if waited_s >= self.wait_s:
            raise error
        time.sleep(self.pause_s)
        return waited_s + self.pause_s


@dataclass(frozen=True, slots=True)
class Epoch:
    number: int
    piece: ReplayPiece


@dataclass(frozen=True, slots=True)
class Full:
    """The queue cannot take a piece now."""

    error: PenstockError


@dataclass(frozen=True, slots=True)
class Preparing(Generic[Prepared]):
    """What is done with a piece, wherever that is."""

    rows: Callable[[ReplayPiece], Iterator[pa.RecordBatch]]
    query: str
    prepare: Prepare[Prepared]

    def __call__(self, epoch: Epoch) -> Prepared | Full:
        try:
            return self.prepare(self.query, epoch.number, self.rows(epoch.piece))
        except PenstockError as error:
            if error.code not in _PASSING:
                raise
            # Not waited for here: room may come only when pieces before this one are committed.
            return Full(error)


class Writing(Generic[Prepared]):
    """The pieces of a file that are not done, by the process that has the file."""

    def __init__(self, file: ReplayFile, sink: Sink[Prepared], patience: Patience, progress: Progress) -> None:
        self._file, self._sink, self._patience, self._progress = file, sink, patience, progress
        self._left = deque(epoch for epoch in range(len(file.plan.pieces)) if epoch not in file.done)
        self._total_rows = sum(piece.rows for piece in file.plan.pieces)
        self._gone_through = sum(file.plan.pieces[epoch].rows for epoch in file.done)

    def run(self, work: Preparing[Prepared], runner: Runner) -> None:
        """Where the queue is full, one piece at a time is tried: what others have prepared may be what fills it."""
        most = ahead = 1 if isinstance(runner, InThisProcess) else PIECES_AHEAD
        waited_s = 0.0
        self._tell()
        while self._left:
            before, tried = len(self._left), ahead
            full = self._some(work, runner, ahead)
            ahead = most if full is None else 1
            # Of several, those behind may have taken the room: the first is tried alone before anybody waits.
            is_stuck = full is not None and tried == 1 and len(self._left) == before
            waited_s = self._patience.waited(waited_s, full.error) if full is not None and is_stuck else 0.0

    def _some(self, work: Preparing[Prepared], runner: Runner, count: int) -> Full | None:
        """The next pieces, as far as the queue takes them; what is prepared beyond that is let go."""
        epochs = [Epoch(number, self._file.plan.pieces[number]) for number in islice(self._left, count)]
        prepared: dict[int, Prepared] = {}
        full: Full | None = None
        try:
            for at, result in runner.results(work, epochs):
                if isinstance(result, Full):
                    full = result
                else:
                    prepared[epochs[at].number] = result
                while self._left and self._left[0] in prepared:
                    self._commit(self._left[0], prepared.pop(self._left[0]))
        finally:
            for each in prepared.values():
                self._sink.discard(each)
        return full

    def _commit(self, epoch: int, prepared: Prepared) -> None:
        commit = partial(self._sink.commit, self._file.plan.query, epoch, prepared)
        self._file.record(epoch, self._patience.tried(commit))
        self._left.popleft()
        self._gone_through += self._file.plan.pieces[epoch].rows
        self._tell()

    def _tell(self) -> None:
        self._progress("replay", self._gone_through, self._total_rows)
