"""Writing to a queue exactly once: tasks stage their rows in the server, or give the driver those that are few, and one
commit of the driver makes them messages, under the key (query, epoch)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.client.flight import StagedRange
from penstock.core.errors import ErrorCode, InvalidArgument, PenstockError
from penstock.spark.plainly import plainly
from penstock.spark.sink_options import SinkOptions
from penstock.spark.sink_schema import as_messages, check_sink_schema, stageable
from penstock.spark.staging import CARRYING_TASKS, abandon, batches_of, carried, commit, staged
from penstock.spark.workers import task_begins

_LOG = logging.getLogger("penstock.spark")
# As Spark names them: StreamExecution.QUERY_ID_KEY and MicroBatchExecution.BATCH_ID_KEY.
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class TaskStaged(WriterCommitMessage):
    """What a task has staged, for the driver; or its rows, as an Arrow stream, if they are few."""

    query: str
    epoch: int
    ranges: tuple[StagedRange, ...]
    rows: bytes = b""


class CannotCommit(PenstockError):
    """The messages of the tasks do not belong together: nothing is committed."""

    code = ErrorCode.INVALID_ARGUMENT


class QueueWriter(DataSourceArrowWriter):
    """A batch: one write has one id, which its tasks and its commit share, its own unless the options give it one.
    Picklable."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_sink_schema(schema, options.queue is None)
        self._options = options
        self._query, self._epoch = options.key or (f"batch-{uuid.uuid4()}", 0)

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskStaged:
        return _write(self._options, self._query, self._epoch, iterator)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._options, messages, self._epoch, is_single=self._options.key is None)

    @plainly
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._options, messages)


class QueueStreamWriter(DataSourceStreamArrowWriter):
    """A stream. Spark makes one for each micro-batch and another for its commit; only tasks are told which query they
    belong to, by the id in its checkpoint, so that they tell the driver."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_sink_schema(schema, options.queue is None)
        self._options = options

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskStaged:
        return _write(self._options, *_query_and_epoch(), iterator)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _commit(self._options, messages, batchId)

    @plainly
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _abort(self._options, messages)


def refuse_overwriting(overwrite: bool) -> None:
    if overwrite:
        raise InvalidArgument(
            "a queue is appended to and never replaced: write with mode append, a stream with outputMode append; "
            "to empty a queue, purge it"
        )


def _query_and_epoch() -> tuple[str, int]:
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY_ID)
    epoch = None if context is None else context.getLocalProperty(_BATCH_ID)
    if query is None or epoch is None:
        raise CannotCommit(
            f"Spark did not tell the task its query and micro-batch ({_QUERY_ID}, {_BATCH_ID}): without them an epoch "
            f"that is repeated cannot be known; write with df.writeStream of Spark 4.2 or newer"
        )
    return query, int(epoch)


def _write(options: SinkOptions, query: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> TaskStaged:
    task_begins()
    rows = stageable(as_messages(batches, with_queue=options.queue is None), options.batch_rows)
    if _may_carry():
        few, rows = carried(options, rows)
        if few:
            return TaskStaged(query, epoch, (), few)
    return TaskStaged(query, epoch, tuple(staged(options, f"{query}/{epoch}", rows)))


def _may_carry() -> bool:
    """Of many tasks only the first ones: the driver has to hold it all."""
    context = TaskContext.get()
    return context is None or context.partitionId() < CARRYING_TASKS


def _commit(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], epoch: int, is_single: bool = False
) -> None:
    """All rows of an epoch, once, however often it is said. An epoch without rows needs no key: repeating it changes
    nothing."""
    told = _of_tasks(messages)
    if (
        len(told) != len(messages)
        or len({each.query for each in told}) > 1
        or any(each.epoch != epoch for each in told)
    ):
        raise CannotCommit(f"epoch {epoch}: the tasks' messages are not of one query and epoch: {str(told)[:400]}")
    rows, ranges = _in_order(options, told)
    if not rows and not ranges:
        return
    committed = commit(options, told[0].query, epoch, rows, ranges, is_single)
    if committed.is_repeated:
        _LOG.warning("epoch %d of query %s was committed before: its rows are there once", epoch, told[0].query)


def _in_order(options: SinkOptions, told: Sequence[TaskStaged]) -> tuple[list[pa.RecordBatch], list[StagedRange]]:
    """Rows that go with the commit, and what is staged and comes behind them. Rows of a task behind one that has staged
    are staged now, so that all keep the order of their tasks."""
    rows: list[pa.RecordBatch] = []
    ranges: list[StagedRange] = []
    for each in told:
        if each.rows and ranges:
            ranges += staged(options, f"{each.query}/{each.epoch}", batches_of(each.rows))
        elif each.rows:
            rows += batches_of(each.rows)
        ranges += each.ranges
    return rows, ranges


def _abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    abandon(options, [staged_range for each in _of_tasks(messages) for staged_range in each.ranges])


def _of_tasks(messages: Sequence[WriterCommitMessage | None]) -> list[TaskStaged]:
    return [each for each in messages if isinstance(each, TaskStaged)]
