"""The sink with a fault, for tests: registered by name beside the real one."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.spark.sink_options import parse_sink_options
from penstock.spark.source import PenstockSource
from penstock.spark.writer import QueueStreamWriter, TaskStaged

_SLOW_S = 5.0
DRIVER = "PENSTOCK_TEST_DRIVER"
"""The environment variable of workers that names a file with the process id of the driver's JVM."""


def kill_driver() -> None:
    os.kill(int(Path(os.environ[DRIVER]).read_text()), signal.SIGKILL)


class _DyingBefore(QueueStreamWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        kill_driver()


class _DyingAfter(QueueStreamWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        super().commit(messages, batchId)
        kill_driver()


class _Keyless(QueueStreamWriter):
    """As a sink would be that has nothing to know a repeated epoch by."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        key = f"keyless-{uuid.uuid4()}"
        told = [replace(each, query=key) for each in messages if isinstance(each, TaskStaged)]
        super().commit([*told], batchId)


class _KeylessDyingAfter(_Keyless):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        super().commit(messages, batchId)
        kill_driver()


class _Faulty(PenstockSource):
    writer_class: type[QueueStreamWriter]

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return self.writer_class(parse_sink_options(self.options, is_stream=True), schema)


class DyingBeforeCommit(_Faulty):
    writer_class = _DyingBefore

    @classmethod
    def name(cls) -> str:
        return "dying-before-commit"


class DyingAfterCommit(_Faulty):
    writer_class = _DyingAfter

    @classmethod
    def name(cls) -> str:
        return "dying-after-commit"


class Keyless(_Faulty):
    writer_class = _Keyless

    @classmethod
    def name(cls) -> str:
        return "keyless"


class KeylessDyingAfterCommit(_Faulty):
    writer_class = _KeylessDyingAfter

    @classmethod
    def name(cls) -> str:
        return "keyless-dying-after-commit"


FAULTY = (DyingBeforeCommit, DyingAfterCommit, Keyless, KeylessDyingAfterCommit)


Passing = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for mapInArrow."""


def killing_once(place: str) -> Passing:
    """The first task that has passed on some batches is killed, whoever else does so later is not."""

    def passing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for count, batch in enumerate(batches):
            if count == 3:
                _die_if_first(Path(place))
            yield batch

    return passing


def slow_once() -> Passing:
    """The first try of a second task takes seconds to end when it has passed on all its rows: another one begins."""

    def passing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1 and context.attemptNumber() == 0:
            time.sleep(_SLOW_S)

    return passing


def _die_if_first(place: Path) -> None:
    try:
        place.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
