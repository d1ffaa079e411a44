"""A replay: rows of a time, or dead letters, put into a queue again, piece after piece, each of them once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa

from penstock.core.errors import ErrorCode, PenstockError
from penstock.jobs.job import Progress
from penstock.jobs.replay_plan import ReplayFile, ReplayPiece
from penstock.jobs.replay_rows import outgoing
from penstock.jobs.replay_transform import ReplayTable, Transform

_PASSING = frozenset({ErrorCode.QUEUE_FULL, ErrorCode.DISK_LOW, ErrorCode.PAUSED})


class Sink(Protocol):
    """A queue that is written to."""

    def write(self, query: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> int:
        """Make the rows of an epoch messages, all of them or none, unless that was done before. How many there were."""
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
                if error.code not in _PASSING or waited_s >= self.wait_s:
                    raise
            time.sleep(self.pause_s)
            waited_s += self.pause_s


@dataclass(frozen=True, slots=True)
class Replayed:
    pieces: int
    rows: int
    """that were written, those of an earlier run that was stopped included"""


@dataclass(frozen=True, slots=True)
class Replay:
    """`open_table` gives a table of the queue to read for one thread."""

    queue: str
    open_table: Callable[[], ReplayTable]
    transform: Transform

    def rows(self, piece: ReplayPiece) -> Iterator[pa.RecordBatch]:
        """What a piece becomes."""
        for batch in self.transform(self.queue, self.open_table, piece):
            if batch.num_rows:
                yield outgoing(batch, self.queue, piece)

    def run(self, file: ReplayFile, sink: Sink, progress: Progress, patience: Patience) -> Replayed:
        """All pieces that are not done. A piece that was committed, and the file does not know it, is recognised by its
        key. A queue that is full is waited for."""
        plan = file.plan
        total = sum(piece.rows for piece in plan.pieces)
        gone_through = 0
        for epoch, piece in enumerate(plan.pieces):
            progress("replay", gone_through, total)
            if epoch not in file.done:
                write = partial(self._write, sink, plan.query, epoch, piece)
                file.record(epoch, patience.tried(write))
            gone_through += piece.rows
        progress("replay", total, total)
        return Replayed(len(plan.pieces), sum(file.done.values()))

    def _write(self, sink: Sink, query: str, epoch: int, piece: ReplayPiece) -> int:
        return sink.write(query, epoch, self.rows(piece))

    def counted(self, pieces: list[ReplayPiece], progress: Progress) -> Replayed:
        """What would be written, and nothing is."""
        rows = gone_through = 0
        total = sum(piece.rows for piece in pieces)
        for piece in pieces:
            progress("replay", gone_through, total)
            rows += sum(batch.num_rows for batch in self.rows(piece))
            gone_through += piece.rows
        return Replayed(len(pieces), rows)
