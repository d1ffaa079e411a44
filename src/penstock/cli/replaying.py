"""A replay as a program asks for it: where queues are, what becomes of messages, and who does the work."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.cli.pipeline.replay_sinks import sink_of
from penstock.cli.table_source import Source
from penstock.core.queue_paths import canonical_queue
from penstock.jobs import replay_plan
from penstock.jobs.job import Progress, Runner, run
from penstock.jobs.local import InThisProcess
from penstock.jobs.ranges import ALL_TIMES, TimeSpan
from penstock.jobs.replay import Replay, Replayed
from penstock.jobs.replay_plan import ReplayFile, ReplayPiece
from penstock.jobs.replay_sink import Patience
from penstock.jobs.replay_spool import remove_spool
from penstock.jobs.replay_transform import Transform, unchanged

GoesOn = Callable[[ReplayFile], None]
"""told of a replay that an earlier run has begun"""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Queues `from_queue` and `to_queue` of a directory that nobody has open, or of a server. `asked`: what else makes
    it this replay and no other, as times and transform were written; a file that says otherwise is refused."""

    source: Source
    from_queue: str
    to_queue: str
    span: TimeSpan = ALL_TIMES
    transform: Transform = unchanged
    checkpoint: Path | None = None
    wait_s: float = 60.0
    asked: tuple[tuple[str, str], ...] = ()

    @property
    def what(self) -> dict[str, str]:
        queues = {"from": canonical_queue(self.from_queue), "to": canonical_queue(self.to_queue)}
        return queues | {"at": str(self.source)} | dict(self.asked)

    @property
    def file(self) -> Path:
        return self.checkpoint or Path(re.sub("[^A-Za-z0-9_.-]", "_", canonical_queue(self.to_queue)) + ".replay")

    def work(self) -> Replay:
        queue = canonical_queue(self.from_queue)
        return Replay(queue, partial(self.source.anywhere().open_table, queue), self.transform)


def replay(
    request: ReplayRequest, runner: Runner, progress: Progress | None = None, goes_on: GoesOn | None = None
) -> Replayed:
    """Put the messages into the queue, each once, however often it is stopped and called again. Whoever does the pieces
    must see the directory; then rows pass through files beside the checkpoint, which must be seen as well."""
    work, path = request.work(), request.file
    spooled = path.with_name(path.name + ".pieces")
    pieces = None if isinstance(runner, InThisProcess) else spooled
    # The directory is opened before it is planned: what only its journal has is a row then.
    with sink_of(request.source.anywhere(), request.what["to"], pieces) as sink:
        file = ReplayFile.opened(path, request.what, partial(_pieces, work, request.span))
        with closing(file):
            if file.done and goes_on is not None:
                goes_on(file)
            done = work.run(file, sink, runner, Patience(request.wait_s), progress or _silent)
        file.remove()
        remove_spool(spooled)  # of an earlier run, by several processes, that was killed
        return done


def count_replay(request: ReplayRequest, runner: Runner, progress: Progress | None = None) -> Replayed:
    """What replay() would write now. Nothing is."""
    work = request.work()
    return run(work.counting(_pieces(work, request.span)), runner, progress)


def _pieces(work: Replay, span: TimeSpan) -> list[ReplayPiece]:
    with closing(work.open_table()) as table:
        return replay_plan.plan_pieces(table, span)


def _silent(what: str, done: int, total: int) -> None:
    """Nobody asked for progress."""
