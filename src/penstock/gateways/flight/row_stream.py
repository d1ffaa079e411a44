"""A stream of rows from a client to the server: batches go on as they come, and are answered when they are durable."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyarrow import flight

from penstock.core.errors import Closed, InvalidArgument, PenstockError, TooLarge
from penstock.gateways.beside.frames import Reply, result_of
from penstock.gateways.beside.server_intake import ServerIntake, answered
from penstock.gateways.beside.server_line import Refused
from penstock.gateways.flight.commands import PutCommand
from penstock.gateways.flight.heads import BatchHead, PutBatches, PutBegin, PutDone, PutEnd, PutStream
from penstock.gateways.flight.partition_groups import Group, Partitions, appended_groups, cut, staged_groups
from penstock.gateways.flight.streams import Budget
from penstock.tables.incoming import check_columns, columns_of, partitions_of

# What one stream may have under way in the server; beyond, its client waits.
_WINDOW_BYTES = 16 << 20
# Of a record batch. Larger ones than a frame are cut, but they have to be held at a time, here and by whoever sends.
MAX_BATCH_BYTES = 32 << 20
# A stage needs not be one commit: smaller ones let others in between.
_STAGE_BYTES = 4 << 20

Tell = Callable[[bytes], None]
Receive = Callable[[int], AbstractContextManager[Callable[[int], None]]]
"""entered when a batch that may be so large can be received; then it is told how large it was"""


class _Sent(NamedTuple):
    """A record batch that was given to the server, in one piece or several."""

    rows: int
    replies: list[Future[Reply]]


@contextmanager
def opened(intake: ServerIntake, begin: PutBegin) -> Iterator[PutStream]:
    """The stream in the server. Refused if it may not be."""
    stream = result_of(intake.ask(begin), PutStream)
    try:
        yield stream
    finally:
        intake.send(PutEnd(stream.stream))


class RowStream:
    """Use run(), once, in the thread of the call; answers are told in another. A batch that is refused ends the stream:
    `tell` is given the reason at once, as the client may wait for an answer, and run() raises it."""

    def __init__(
        self, intake: ServerIntake, command: PutCommand, stream: PutStream, budget: Budget, receive: Receive, tell: Tell
    ) -> None:
        self._intake, self._command, self._stream, self._tell = intake, command, stream, tell
        self._budget, self._receive = budget, receive
        self._partitions = Partitions(stream.partitions, stream.unkeyed)
        self._sent: queue.SimpleQueue[_Sent | None] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._open_bytes = 0
        self._failure: PenstockError | Refused | None = None

    def run(self, reader: flight.MetadataRecordBatchReader) -> None:
        answering = threading.Thread(target=self._answer, name="penstock-flight-answers", daemon=True)
        answering.start()
        try:
            _check_schema(reader)
            expected_bytes = MAX_BATCH_BYTES
            while self._failure is None:
                with self._receive(expected_bytes) as arrived:
                    if (batch := _next_batch(reader)) is None:
                        break
                    expected_bytes = batch.nbytes
                    arrived(expected_bytes)
                    self._take(batch)
                    del batch  # before the next one is received
        finally:
            self._sent.put(None)
            answering.join()
        if self._failure is not None:
            raise self._failure

    def _take(self, batch: pa.RecordBatch) -> None:
        if batch.nbytes > MAX_BATCH_BYTES:
            raise TooLarge("a record batch", batch.nbytes, MAX_BATCH_BYTES)
        with self._budget.taken(batch.nbytes):
            replies = [self._send(groups) for groups in self._pieces(batch)] if batch.num_rows else []
        self._sent.put(_Sent(batch.num_rows, replies))

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[list[Group]]:
        """Each is one commit."""
        is_staged, columns = self._command.action == "stage", columns_of(batch, MAX_BATCH_BYTES)
        wanted = partitions_of(batch, self._partitions.count)
        if wanted is not None and self._command.partition is not None:
            raise InvalidArgument("the command names a partition, and the column 'partition' others: give one of both")
        grouped = staged_groups if is_staged or self._command.partition is not None else appended_groups
        limit = min(_STAGE_BYTES, self._stream.piece_bytes) if is_staged else self._stream.piece_bytes
        for first, stop in list(cut(columns, limit)):
            some = None if wanted is None else wanted.slice(first, stop - first)
            yield grouped(columns.part(first, stop), some, self._partitions)

    def _send(self, groups: list[Group]) -> Future[Reply]:
        heads = [BatchHead(group.size_bytes, group.partition, group.is_by_key) for group in groups]
        size = sum([head.size_bytes for head in heads])
        self._wait_for_room(size)
        request = PutBatches(self._intake.next_id(), self._stream.stream, self._partitions.count, heads)
        reply = self._intake.send(request, [piece for group in groups for piece in group.pieces])
        reply.add_done_callback(lambda _: self._make_room(size))
        return reply

    def _wait_for_room(self, size: int) -> None:
        with self._room:
            self._room.wait_for(lambda: not self._open_bytes or self._open_bytes + size <= _WINDOW_BYTES)
            self._open_bytes += size

    def _answer(self) -> None:
        while (sent := self._sent.get()) is not None:
            try:
                said = self._said(sent)
                if self._failure is None:
                    self._tell(said)
            except (Refused, PenstockError) as error:
                self._fail(error)
            except pa.ArrowException:
                self._failure = self._failure or Closed("the client is gone")

    def _said(self, sent: _Sent) -> bytes:
        places: list[msgspec.Raw] = []
        created: dict[str, str] = {}
        for reply in sent.replies:
            done = result_of(answered(reply), PutDone)
            places += msgspec.json.decode(done.places, type=list[msgspec.Raw])
            created |= {} if done.created is None else {"created_queue": done.created}
        name = "staged" if self._command.action == "stage" else "placed"
        return msgspec.json.encode({"rows": sent.rows, name: places, **created})

    def _make_room(self, size: int) -> None:
        with self._room:
            self._open_bytes -= size
            self._room.notify_all()

    def _fail(self, error: Refused | PenstockError) -> None:
        if self._failure is None:
            self._failure = error
            self._tell(msgspec.json.encode({"error": {"code": error.code.value, "reason": str(error)}}))


def _check_schema(reader: flight.MetadataRecordBatchReader) -> None:
    with _readable():
        check_columns(reader.schema)


def _next_batch(reader: flight.MetadataRecordBatchReader) -> pa.RecordBatch | None:
    """None at the end."""
    with _readable():
        try:
            return reader.read_chunk().data
        except StopIteration:
            return None


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as error:
        raise InvalidArgument(f"the stream cannot be read: {str(error)[:200]}") from None
