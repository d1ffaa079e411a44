"""A pipeline at work: a query for each sink, watched, begun again where that may help, and stopped between two
micro-batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.core.errors import ErrorCode, PenstockError
from penstock.spark.pipelines.declaration import Restart
from penstock.spark.pipelines.failures import FailureKind, failure_kind, failure_reason
from penstock.spark.pipelines.problems import BadPipeline
from penstock.spark.pipelines.progress import Progress, QueryProgress, progress_of

# Each look asks the JVM a few dozen times.
_LOOK_S = 0.5


class Query(Protocol):
    """What is asked of Spark's StreamingQuery."""

    @property
    def isActive(self) -> bool: ...

    @property
    def lastProgress(self) -> QueryProgress | None: ...

    @property
    def status(self) -> Mapping[str, object]: ...

    def exception(self) -> Exception | None: ...

    def stop(self) -> None: ...


class Board(Protocol):
    """Who is shown what happens."""

    def started(self, sink: str) -> None: ...

    def progressed(self, progress: Progress) -> None: ...

    def failed(self, sink: str, kind: FailureKind, reason: str, pause_s: float | None) -> None:
        """`pause_s` until it begins again; None if it does not."""
        ...

    def ended(self, sink: str) -> None: ...


class PipelineFailed(PenstockError):
    """A query failed, and beginning it again would not help or did not. The others were stopped."""

    code = ErrorCode.REFUSED

    def __init__(self, sink: str, kind: FailureKind, reason: str, attempts: int) -> None:
        tried = f" ({attempts} attempts)" if attempts > 1 else ""
        advice = {
            "user": "mend the pipeline or its data and run it again: it goes on where it was",
            "unknown": "look at the cause, then run it again: it goes on where it was",
        }.get(kind, "run it again when that is mended: it goes on where it was")
        super().__init__(f"sink {sink} failed{tried}: {reason}; {advice}")
        self.sink, self.kind, self.reason = sink, kind, reason


def text_of(error: BaseException) -> str:
    """All that is known of an error and its causes, with the names of their kinds."""
    texts, seen = list[str](), set[int]()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        texts.append(f"{cause}\n{type(cause).__name__}\n{getattr(cause, '_stackTrace', '')}")
        cause = cause.__cause__ or getattr(cause, "_cause", None)
    return "\n".join(texts)


@dataclass(slots=True)
class SinkQuery:
    """One sink, through all the queries that it takes."""

    name: str
    begin: Callable[[], Query]
    query: Query | None = None
    attempts: int = 0
    """since rows were last written"""
    begin_at_s: float = 0.0
    seen: Progress | None = None
    has_ended: bool = False


@dataclass(slots=True)
class Running:
    """Of one pipeline. `clock` tells seconds."""

    sinks: list[SinkQuery]
    restart: Restart
    board: Board
    stopping: threading.Event = field(default_factory=threading.Event)
    hurrying: threading.Event = field(default_factory=threading.Event)
    """set when a micro-batch is not waited for any more"""
    stop_timeout_s: float = 30.0
    clock: Callable[[], float] = time.monotonic

    def run(self) -> None:
        """Until every sink has ended, or `stopping` is set. PipelineFailed or BadPipeline if one cannot go on."""
        try:
            while not self.stopping.is_set() and not all(sink.has_ended for sink in self.sinks):
                for sink in self.sinks:
                    self._look_at(sink)
                self.stopping.wait(_LOOK_S)
        finally:
            self.stop()

    def stop(self) -> None:
        """Each query when its micro-batch is written, or after the timeout; what was not written comes again."""
        deadline_s = self.clock() + self.stop_timeout_s
        busy = {sink.name: _batch(sink.query) for sink in self.sinks}
        for sink in self.sinks:
            query = sink.query
            if query is None or sink.has_ended:
                continue
            while self.clock() < deadline_s and _is_writing(query) and _batch(query) == busy[sink.name]:
                if self.hurrying.wait(_LOOK_S / 4):
                    break
            query.stop()
            self._tell_progress(sink)
            sink.has_ended = True
            self.board.ended(sink.name)

    def _look_at(self, sink: SinkQuery) -> None:
        if sink.has_ended:
            return
        if sink.query is None:
            if self.clock() >= sink.begin_at_s:
                self._begin(sink)
            return
        is_active = sink.query.isActive
        self._tell_progress(sink)
        if is_active:
            return
        if (error := sink.query.exception()) is not None:
            self._fail(sink, error)
        else:
            sink.has_ended = True
            self.board.ended(sink.name)

    def _begin(self, sink: SinkQuery) -> None:
        sink.attempts += 1
        try:
            sink.query = sink.begin()
        except BadPipeline as error:
            if failure_kind(text_of(error)) in ("user", "unknown"):
                raise
            self._fail(sink, error)
        else:
            self.board.started(sink.name)

    def _tell_progress(self, sink: SinkQuery) -> None:
        found = sink.query.lastProgress if sink.query is not None else None
        if found is None:
            return
        progress = progress_of(sink.name, found)
        if progress != sink.seen:
            sink.seen = progress
            if progress.rows:
                sink.attempts = 1
            self.board.progressed(progress)

    def _fail(self, sink: SinkQuery, error: BaseException) -> None:
        text = text_of(error)
        kind, reason = failure_kind(text), failure_reason(text)
        sink.query = None
        may_help = kind != "user" and kind in self.restart.after
        if not may_help or sink.attempts > self.restart.retries:
            sink.has_ended = True
            self.board.failed(sink.name, kind, reason, None)
            raise PipelineFailed(sink.name, kind, reason, sink.attempts) from error
        pause_s = self._pause_s(sink.attempts)
        sink.begin_at_s = self.clock() + pause_s
        self.board.failed(sink.name, kind, reason, pause_s)

    def _pause_s(self, attempts: int) -> float:
        """Twice as long after each."""
        restart = self.restart
        return min(restart.pause_ms << min(attempts - 1, 30), restart.longest_pause_ms) / 1000


def _is_writing(query: Query) -> bool:
    return query.isActive and bool(query.status.get("isTriggerActive"))


def _batch(query: Query | None) -> int | None:
    """The last micro-batch that is done."""
    found = query.lastProgress if query is not None else None
    return None if found is None else found.batchId
