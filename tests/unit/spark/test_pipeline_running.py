"""A pipeline at work, without Spark: what is begun again and when, what ends it, and how it stops."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from penstock.spark.pipelines.declaration import Restart
from penstock.spark.pipelines.failures import FailureKind, failure_kind, failure_reason
from penstock.spark.pipelines.problems import BadPipeline, Problem
from penstock.spark.pipelines.progress import Progress, QueryProgress, lags_of, progress_of
from penstock.spark.pipelines.runner import PipelineFailed, Running, SinkQuery

NO_BROKER = """Job aborted
Traceback (most recent call last):
  File "writer.py", line 1
pyarrow._flight.FlightUnavailableError: CONNECTION_LOST: nobody listens
"""


@dataclass
class FakeSource:
    endOffset: str
    latestOffset: str


@dataclass
class FakeProgress:
    batchId: int = 0
    numInputRows: int = 1
    processedRowsPerSecond: float = 10.0
    batchDuration: int = 100
    sources: tuple[FakeSource, ...] = ()


@dataclass
class FakeQuery:
    """Ends at once, with the error if there is one; with `lasts` it goes on until it is stopped."""

    error: Exception | None = None
    lastProgress: QueryProgress | None = None
    lasts: bool = False
    writes_for: int = 0
    """how often it says that it is writing"""
    stopped: bool = False

    @property
    def isActive(self) -> bool:
        return self.lasts and not self.stopped

    @property
    def status(self) -> Mapping[str, object]:
        self.writes_for -= 1
        return {"isTriggerActive": self.writes_for >= 0}

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.stopped = True


@dataclass
class Recorder:
    events: list[tuple[str, ...]] = field(default_factory=list)
    pauses_s: list[float | None] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)

    def started(self, sink: str) -> None:
        self.events.append((sink, "started"))

    def progressed(self, progress: Progress) -> None:
        self.progress.append(progress)

    def failed(self, sink: str, kind: FailureKind, reason: str, pause_s: float | None) -> None:
        self.events.append((sink, "failed", kind))
        self.pauses_s.append(pause_s)

    def ended(self, sink: str) -> None:
        self.events.append((sink, "ended"))


class Clock:
    """A minute passes with every look at it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 60
        return self.now_s


class Impatient(threading.Event):
    """Nobody waits for it."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


def running(queries: list[FakeQuery], board: Recorder, restart: Restart | None = None, others: int = 0) -> Running:
    waiting = iter(queries)
    sinks = [SinkQuery("table", lambda: next(waiting))]
    sinks += [SinkQuery(f"other{number}", lambda: FakeQuery(lasts=True)) for number in range(others)]
    return Running(sinks, restart or Restart(), board, Impatient(), Impatient(), clock=Clock())


def failing(text: str, progress: FakeProgress | None = None) -> FakeQuery:
    return FakeQuery(RuntimeError(text), progress)


def test_it_ends_when_every_sink_has_ended() -> None:
    board = Recorder()
    running([FakeQuery(lastProgress=FakeProgress())], board).run()
    assert board.events == [("table", "started"), ("table", "ended")]
    assert [progress.rows for progress in board.progress] == [1]


def test_what_may_pass_is_tried_again_with_growing_pauses() -> None:
    board = Recorder()
    running([*(failing(NO_BROKER) for _ in range(4)), FakeQuery()], board, Restart(longest_pause_ms=4000)).run()
    assert board.pauses_s == [1, 2, 4, 4]
    assert board.events[-1] == ("table", "ended")


def test_it_is_tried_so_often_and_no_more() -> None:
    board = Recorder()
    said = r"sink table failed \(3 attempts\): FlightUnavailableError: CONNECTION_LOST"
    with pytest.raises(PipelineFailed, match=said):
        running([failing(NO_BROKER) for _ in range(9)], board, Restart(retries=2)).run()
    assert board.pauses_s == [1, 2, None]


def test_rows_that_were_written_begin_the_count_anew() -> None:
    board = Recorder()
    working = [failing(NO_BROKER, FakeProgress(batchId=number)) for number in range(4)]
    running([*working, FakeQuery()], board, Restart(retries=1)).run()
    assert board.pauses_s == [1, 1, 1, 1]


@pytest.mark.parametrize("text", ["rule plausible of readings does not hold for a row", "what nobody knows"])
def test_a_mistake_of_the_pipeline_is_not_tried_again_and_the_others_stop(text: str) -> None:
    board = Recorder()
    pipeline = running([failing(text)], board, Restart(after=("unavailable", "storage", "executor")), others=1)
    with pytest.raises(PipelineFailed, match=text):
        pipeline.run()
    assert board.pauses_s == [None]
    assert ("other0", "ended") in board.events


def test_errors_that_nobody_knows_are_tried_again_if_that_is_asked_for_but_never_the_users() -> None:
    board = Recorder()
    running([failing("what nobody knows"), FakeQuery()], board, Restart(after=("unknown",))).run()
    with pytest.raises(PipelineFailed):
        running([failing("AnalysisException: x")], board, Restart(after=("unknown",))).run()


def test_a_query_that_cannot_begin_is_a_mistake_or_tried_again() -> None:
    def refuse() -> FakeQuery:
        raise BadPipeline("x.yaml", [Problem("sinks.table.queue", "no such thing")])

    board = Recorder()
    with pytest.raises(BadPipeline):
        Running([SinkQuery("table", refuse)], Restart(), board, Impatient(), Impatient(), clock=Clock()).run()


@pytest.mark.parametrize("is_hurried", [False, True])
def test_a_stop_waits_for_the_micro_batch_unless_it_is_in_a_hurry(is_hurried: bool) -> None:
    board, query = Recorder(), FakeQuery(lasts=True, writes_for=5)
    pipeline = running([query], board)
    pipeline.clock = lambda: 0.0
    pipeline._look_at(pipeline.sinks[0])
    if is_hurried:
        pipeline.hurrying.set()
    pipeline.stop()
    assert query.stopped
    assert (query.writes_for == -1) is not is_hurried
    assert board.events[-1] == ("table", "ended")


def test_a_stop_waits_no_longer_than_it_may() -> None:
    query = FakeQuery(lasts=True, writes_for=1 << 30)
    pipeline = running([query], Recorder())
    pipeline._look_at(pipeline.sinks[0])
    pipeline.stop()
    assert query.stopped


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (NO_BROKER, "unavailable"),
        ("java.net.ConnectException: Connection refused", "unavailable"),
        ("penstock.core.errors.QueueFull: queue 'x' is full", "unavailable"),
        ("penstock.client.flight.problems.FlightRefused: queue-full: queue 'x' is full", "unavailable"),
        ("penstock.client.flight.problems.FlightRefused: pipeline-known: pipeline 'x' belongs to", "user"),
        ("penstock.client.flight.problems.FlightRefused: stage-gone: staged rows", "unavailable"),
        ("penstock.spark.patience.GaveUp: nothing moved for 60 s", "unavailable"),
        ("ExecutorLostFailure (executor 3 exited)", "executor"),
        ("Python worker exited unexpectedly (crashed)", "executor"),
        ("SparkException: Python worker failed to connect back.\\n java.net.SocketTimeoutException", "executor"),
        ("java.io.IOException: No space left on device", "storage"),
        ("[USER_RAISED_EXCEPTION] rule a of b does not hold for a row; java.io.IOException", "user"),
        ("[CAST_INVALID_INPUT] The value 'x' of the type", "user"),
        ("penstock.core.errors.NotAuthorised: not allowed", "user"),
        ("ValueError: what a function raised", "unknown"),
    ],
)
def test_kinds_of_failures(text: str, kind: str) -> None:
    assert failure_kind(text) == kind


def test_a_reason_is_what_python_raised_or_how_spark_begins() -> None:
    traceback = (
        'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: no such place\n\n\tat org.apache'
    )
    assert failure_reason(f"Job aborted\n{traceback}") == "ValueError: no such place"
    hidden = (
        "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: ValueError: no such place\n SQLSTATE: 38000"
    )
    assert failure_reason(hidden) == "ValueError: no such place"
    assert failure_reason("[X] it\n  went wrong. SQLSTATE: 42K09\nmore") == "[X] it"
    gone = (
        '<Error of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "nobody listens"\n\tmore>'
    )
    assert failure_reason(gone) == "UNAVAILABLE: nobody listens"


def test_the_lag_is_what_waits_in_queues() -> None:
    latest = {"a": {"0": 1 << 40, "1": 3}, "b": {"0": 1}, "$behind": {"a": 4, "b": 0}}
    ours = FakeSource('{"a": {"0": 5, "1": 3}, "b": {"0": 1}}', json.dumps(latest))
    files = FakeSource('{"logOffset": 3}', "")
    assert lags_of([ours, files, ours]) == {"a": 4, "b": 0}


def test_speed_that_is_no_number_is_none() -> None:
    assert progress_of("table", FakeProgress(processedRowsPerSecond=float("nan"))).rows_per_s == 0
    assert progress_of("table", FakeProgress(processedRowsPerSecond=float("inf"))).rows_per_s == 0
