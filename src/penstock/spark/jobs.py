"""Pieces of jobs done by Spark's workers: a task each, nothing shuffled."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from penstock.core.errors import ErrorCode, InvalidArgument, PenstockError
from penstock.spark.connect import remote_session
from penstock.spark.session import session_builder

Piece = TypeVar("Piece")
Result = TypeVar("Result")

# What is done is known, and recorded by jobs that can go on, after each so many: enough for the cores of a small
# cluster, and a few minutes of work lost at most.
PIECES_AT_ONCE = 64
_SCHEMA = "number long, result binary"


class SparkFailed(PenstockError):
    """Also after it tried again."""

    code = ErrorCode.PLATFORM

    def __init__(self, reason: str) -> None:
        super().__init__(f"Spark could not do it: {reason}; look at the logs of its workers, or run it without Spark")
        self.reason = reason


class OnSpark:
    """`local[*]`, a cluster or Spark Connect: its workers must see the directories that the pieces name, and have
    Penstock installed."""

    def __init__(self, session: SparkSession, pieces_at_once: int = PIECES_AT_ONCE) -> None:
        self._session, self._at_once = session, pieces_at_once

    def results(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[tuple[int, Result]]:
        """So many together, when the last of them is done. Our own errors are raised as they are, at once; after others
        Spark tries again first, as it is told to."""
        for first in range(0, len(pieces), self._at_once):
            some = [pickle.dumps(piece) for piece in pieces[first : first + self._at_once]]
            tasks = self._session.range(0, len(some), 1, len(some)).mapInArrow(_Task(work, some), _SCHEMA)
            for row in _collected(tasks):
                result = pickle.loads(row.result)
                if isinstance(result, PenstockError):
                    raise result
                yield first + row.number, result


class _Task:
    """What a worker is given: Spark pickles it, the pieces in it."""

    def __init__(self, work: Callable[[Piece], object], pieces: list[bytes]) -> None:
        self._work, self._pieces = work, pieces

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                done = pickle.dumps(self._result(number))
                yield pa.RecordBatch.from_pydict({"number": [number], "result": [done]})

    def _result(self, number: int) -> object:
        try:
            return self._work(pickle.loads(self._pieces[number]))
        except PenstockError as error:
            return error


@contextmanager
def job_session(master: str | None = None, remote: str | None = None) -> Iterator[SparkSession]:
    """Of Spark at `master` (`local[*]`, `spark://host:7077`), or behind Spark Connect (`sc://host:15002`); stopped
    afterwards. UnsupportedPlatform if there is no Java for the first, or not all packages for the other, ConnectionLost
    if nobody answers there."""
    if remote is not None and master is not None:
        raise InvalidArgument("a master and a remote Spark exclude each other: give one of them")
    session = remote_session(remote, {}) if remote is not None else _local(master or "local[*]")
    try:
        yield session
    finally:
        session.stop()


def _local(master: str) -> SparkSession:
    builder = session_builder(master).appName("penstock").config("spark.ui.enabled", "false")
    session: SparkSession = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _collected(tasks: DataFrame) -> list[Row]:
    try:
        return tasks.collect()
    except (PySparkException, Py4JError) as error:
        said = next((line for line in reversed(str(error).splitlines()) if line.strip()), "no reason")
        raise SparkFailed(said.strip()[:500]) from error
