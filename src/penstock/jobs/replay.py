"""A replay: rows of a time, or dead letters, put into a queue again, each of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.jobs.job import Job, Progress, Runner
from penstock.jobs.replay_plan import ReplayFile, ReplayPiece
from penstock.jobs.replay_rows import outgoing
from penstock.jobs.replay_sink import Patience, Prepared, Preparing, Sink, Writing
from penstock.jobs.replay_transform import ReplayTable, Transform


@dataclass(frozen=True, slots=True)
class Replayed:
    pieces: int
    rows: int
    """that were written, those of an earlier run that was stopped included"""


@dataclass(frozen=True, slots=True)
class Replay:
    """`open_table` gives a table of the queue to read for one thread. Pickled, with its transform, where pieces are
    done in other processes."""

    queue: str
    open_table: Callable[[], ReplayTable]
    transform: Transform

    def rows(self, piece: ReplayPiece) -> Iterator[pa.RecordBatch]:
        """What a piece becomes."""
        for batch in self.transform(self.queue, self.open_table, piece):
            if batch.num_rows:
                yield outgoing(batch, self.queue, piece)

    def run(
        self, file: ReplayFile, sink: Sink[Prepared], runner: Runner, patience: Patience, progress: Progress
    ) -> Replayed:
        """All pieces that are not done: rows are made where the runner does the pieces, and become messages piece after
        piece. One that was committed, and the file does not know it, is recognised by its key."""
        work = Preparing(self.rows, file.plan.query, sink.prepare)
        Writing(file, sink, patience, progress).run(work, runner)
        return Replayed(len(file.plan.pieces), sum(file.done.values()))

    def counting(self, pieces: Sequence[ReplayPiece]) -> Job[ReplayPiece, int, Replayed]:
        """What would be written, and nothing is."""
        return Job("replay", pieces, self._count, _added, lambda piece: piece.rows)

    def _count(self, piece: ReplayPiece) -> int:
        return sum(batch.num_rows for batch in self.rows(piece))


def _added(counts: Iterable[int]) -> Replayed:
    each = list(counts)
    return Replayed(len(each), sum(each))
