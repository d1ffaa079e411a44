"""A replay: rows of a time, or dead letters, put into a queue again, piece after piece, each of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.jobs.job import Progress
from penstock.jobs.replay_plan import ReplayFile, ReplayPiece
from penstock.jobs.replay_rows import outgoing
from penstock.jobs.replay_transform import ReplayTable, Transform


class Sink(Protocol):
    """A queue that is written to."""

    def write(self, query: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> int:
        """Make the rows of an epoch messages, all of them or none, unless that was done before. How many there were."""
        ...


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

    def run(self, file: ReplayFile, sink: Sink, progress: Progress) -> Replayed:
        """All pieces that are not done. A piece that was committed, and the file does not know it, is recognised by its
        key."""
        plan = file.plan
        total = sum(piece.rows for piece in plan.pieces)
        gone_through = 0
        for epoch, piece in enumerate(plan.pieces):
            progress("replay", gone_through, total)
            if epoch not in file.done:
                file.record(epoch, sink.write(plan.query, epoch, self.rows(piece)))
            gone_through += piece.rows
        progress("replay", total, total)
        return Replayed(len(plan.pieces), sum(file.done.values()))

    def counted(self, pieces: list[ReplayPiece], progress: Progress) -> Replayed:
        """What would be written, and nothing is."""
        rows = gone_through = 0
        total = sum(piece.rows for piece in pieces)
        for piece in pieces:
            progress("replay", gone_through, total)
            rows += sum(batch.num_rows for batch in self.rows(piece))
            gone_through += piece.rows
        return Replayed(len(pieces), rows)
