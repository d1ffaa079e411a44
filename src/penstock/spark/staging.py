"""Stages of a write, in tasks and on the driver. A server that is away, full or short of space is waited for.

Rows of a task that are few are not staged: it gives them to the driver, whose commit brings them along. An epoch of
such rows is one call, and one frame of the server."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa

from penstock.client.flight import Committed, FlightClient, StagedRange, Stager
from penstock.client.flight.put_stream import stream_of
from penstock.core.errors import PenstockError
from penstock.spark.connections import connection
from penstock.spark.patience import Patience, patiently
from penstock.spark.sink_options import SinkOptions
from penstock.spark.sink_schema import by_queue

_LOG = logging.getLogger("penstock.spark")
# Of a task, and so many tasks: what the driver is given stays far below what one commit takes (8 MiB). 10,000 rows of
# 100 bytes; above that the two calls of a stage and its commit are little beside the rows.
CARRIED_BYTES, CARRYING_TASKS = 1 << 20, 4


class TaskStaging:
    """The rows of one task, sent ahead of their answers. What a server that went away has not answered is sent again:
    if it was stored all the same, nobody will ever name it in a commit. One thread."""

    def __init__(self, client: FlightClient, options: SinkOptions, writer: str, queue: str) -> None:
        self._client, self._options, self._writer, self._queue = client, options, writer, queue
        self._patience = Patience(options.server.wait_s, f"writing to queue {queue!r}")
        self._stager: Stager | None = None
        self._noted = 0
        """ranges of the stager that were looked at"""
        self._unanswered: deque[pa.RecordBatch] = deque()
        self.ranges: list[StagedRange] = []
        """that are durable, in the order of rows"""

    def add(self, batch: pa.RecordBatch) -> None:
        self._unanswered.append(batch)
        while True:
            try:
                if self._stager is None:
                    return self._send_again()
                self._stager.stage(batch)
                return self._note_answers()
            except PenstockError as error:
                self._lost(error)

    def finish(self) -> None:
        """All rows are durable when it returns."""
        while self._unanswered:
            try:
                if self._stager is None:
                    self._send_again()
                if self._stager is not None:
                    self._stager.finish()
                    self._note_answers()
            except PenstockError as error:
                self._lost(error)

    def cancel(self) -> None:
        """The server is not to wait for more: the connection stays."""
        if self._stager is not None:
            self._stager.cancel()

    def _send_again(self) -> None:
        self._stager = self._client.stager(
            self._queue,
            writer=self._writer,
            namespace=self._options.namespace,
            create_queue=self._options.create_queues,
        )
        self._noted = 0
        for batch in tuple(self._unanswered):
            self._stager.stage(batch)
        self._note_answers()

    def _lost(self, error: PenstockError) -> None:
        """Waits before the next try, or raises."""
        self._note_answers()
        self._stager = None
        self._patience.wait(error)

    def _note_answers(self) -> None:
        if self._stager is None:
            return
        answered = self._stager.ranges[self._noted :]
        self._noted += len(answered)
        self.ranges += answered
        rows = sum(each.rows for each in answered)
        if rows:
            self._patience.moved()
        while rows:
            batch = self._unanswered.popleft()
            if batch.num_rows > rows:
                self._unanswered.appendleft(batch.slice(rows))
            rows -= min(batch.num_rows, rows)


def carried(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> tuple[bytes, Iterator[pa.RecordBatch]]:
    """All rows as an Arrow stream, if they are few and of one queue; else none, and all rows again. Rows that name
    their partition are staged."""
    if options.queue is None:
        return b"", batches
    held: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        held.append(batch)
        size_bytes += batch.nbytes
        if size_bytes > CARRIED_BYTES or "partition" in batch.schema.names:
            return b"", chain(held, batches)
    return (stream_of(held) if held else b""), iter(())


def batches_of(stream: bytes) -> list[pa.RecordBatch]:
    with pa.ipc.open_stream(stream) as reader:
        return list(reader)


def staged(options: SinkOptions, writer: str, batches: Iterable[pa.RecordBatch]) -> list[StagedRange]:
    """In a task: all rows are durable when it returns, and nobody sees them. When it fails, what it staged is given up
    at once, if the server can be reached."""
    client = connection(options.server)
    tasks: dict[str, TaskStaging] = {}
    try:
        for queue, batch in _routed(options, batches):
            if queue not in tasks:
                tasks[queue] = TaskStaging(client, options, writer, queue)
            tasks[queue].add(batch)
        for task in tasks.values():
            task.finish()
    except BaseException:
        for task in tasks.values():
            task.cancel()
        _give_up(client, _ranges(tasks.values()))
        raise
    return _ranges(tasks.values())


def _routed(options: SinkOptions, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Each with the queue that it goes to."""
    for batch in batches:
        yield from by_queue(batch, options.queues) if options.queue is None else [(options.queue, batch)]


def _ranges(tasks: Iterable[TaskStaging]) -> list[StagedRange]:
    return [staged_range for task in tasks for staged_range in task.ranges]


def _give_up(client: FlightClient, ranges: Sequence[StagedRange]) -> None:
    """The error that is on its way says more than one of this."""
    if not ranges:
        return
    try:
        client.abandon(ranges)
    except PenstockError as error:
        _LOG.warning("%d stages are left to be collected after a day: %s", len(ranges), error)


def commit(
    options: SinkOptions,
    query: str,
    epoch: int,
    rows: Sequence[pa.RecordBatch],
    ranges: Sequence[StagedRange],
    is_single: bool,
) -> Committed:
    """`rows` of the one queue and behind them what was staged. Said again until it is answered: the key makes sure that
    it is done once. `is_single`: a batch, whose id is its own."""
    client, pipeline, reset = connection(options.server), options.pipeline, options.reset_pipeline

    def call() -> Committed:
        if not rows or options.queue is None:
            return client.commit(query, epoch, ranges, pipeline=pipeline, reset=reset, single=is_single)
        return client.commit_rows(
            query,
            epoch,
            options.queue,
            rows,
            ranges,
            pipeline=pipeline,
            reset=reset,
            single=is_single,
            namespace=options.namespace,
            create_queue=options.create_queues,
        )

    return patiently(call, options.server.wait_s, f"the commit of epoch {epoch} to {options.target}")


def abandon(options: SinkOptions, ranges: Sequence[StagedRange]) -> None:
    """What the tasks of an epoch have staged that is given up on."""
    _give_up(connection(options.server), ranges)
