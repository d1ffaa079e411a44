"""Stages of a write, in tasks and on the driver. A server that is away, full or short of space is waited for."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence

import pyarrow as pa

from penstock.client.flight import Committed, FlightClient, StagedRange, Stager
from penstock.core.errors import PenstockError
from penstock.spark.connections import connection
from penstock.spark.patience import Patience, patiently
from penstock.spark.sink_options import SinkOptions

_LOG = logging.getLogger("penstock.spark")


class TaskStaging:
    """The rows of one task, sent ahead of their answers. What a server that went away has not answered is sent again:
    if it was stored all the same, nobody will ever name it in a commit. One thread."""

    def __init__(self, client: FlightClient, options: SinkOptions, writer: str) -> None:
        self._client, self._options, self._writer = client, options, writer
        self._patience = Patience(options.server.wait_s, f"writing to queue {options.queue!r}")
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
        self._stager = self._client.stager(self._options.queue, writer=self._writer, namespace=self._options.namespace)
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


def staged(options: SinkOptions, writer: str, batches: Iterable[pa.RecordBatch]) -> list[StagedRange]:
    """In a task: all rows are durable when it returns, and nobody sees them. When it fails, what it staged is given up
    at once, if the server can be reached."""
    client = connection(options.server)
    task = TaskStaging(client, options, writer)
    try:
        for batch in batches:
            task.add(batch)
        task.finish()
    except BaseException:
        task.cancel()
        _give_up(client, task.ranges)
        raise
    return task.ranges


def _give_up(client: FlightClient, ranges: Sequence[StagedRange]) -> None:
    """The error that is on its way says more than one of this."""
    if not ranges:
        return
    try:
        client.abandon(ranges)
    except PenstockError as error:
        _LOG.warning("%d stages are left to be collected after a day: %s", len(ranges), error)


def commit(options: SinkOptions, query: str, epoch: int, ranges: Sequence[StagedRange]) -> Committed:
    """Said again until it is answered: the key makes sure that it is done once."""
    what = f"the commit of epoch {epoch} to queue {options.queue!r}"
    client = connection(options.server)
    return patiently(
        lambda: client.commit(query, epoch, ranges, pipeline=options.pipeline, reset=options.reset_pipeline),
        options.server.wait_s,
        what,
    )


def abandon(options: SinkOptions, ranges: Sequence[StagedRange]) -> None:
    """What the tasks of an epoch have staged that is given up on."""
    _give_up(connection(options.server), ranges)
