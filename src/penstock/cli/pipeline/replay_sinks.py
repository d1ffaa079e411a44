"""Queues that a replay writes to: of a server over Flight, or of a directory that the command opens itself. Both stage
the rows of an epoch and commit them under its key, so that an epoch that is done again is recognised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.broker.queues.queue import Queue
from penstock.broker.staging.records import StagedRange
from penstock.cli.table_source import DirectorySource, FlightSource, Source
from penstock.core.errors import DirectoryInUse, InvalidArgument, PenstockError
from penstock.core.queue_paths import canonical_queue
from penstock.embedded.runtime import Runtime
from penstock.jobs.replay_rows import OUTGOING
from penstock.jobs.replay_sink import Sink
from penstock.jobs.replay_spool import Spool, SpooledPiece, spool
from penstock.log.columns import Columns
from penstock.queues.properties import Envelope, pack

if TYPE_CHECKING:
    from penstock.client.flight import FlightClient
    from penstock.client.flight import StagedRange as FlightRange

# A frame holds 16 MiB, and a row may be as large as a message may be.
_STAGED_BYTES = 4 << 20
_CONTENT_TYPE, _REPLY_TO, _CORRELATION_ID = _OWN = ("content-type", "reply-to", "correlation-id")


# What prepare() of one gave is seen by its commit() and discard() alone: which type that is, is nobody else's business.
AnySink = Sink[Any]


def sink_of(source: Source, queue: str, pieces: Path | None = None) -> AbstractContextManager[AnySink]:
    """Where the queue is that messages come from. With `pieces`, a directory to be made for files on their way, its
    prepare() can be pickled; without, it is for this process. DirectoryInUse for a directory that a server has."""
    if isinstance(source, FlightSource):
        return _flight_sink(source, queue, is_spread=pieces is not None)
    return _directory_sink(source, queue) if pieces is None else _spooled_sink(source, queue, pieces)


@dataclass(frozen=True, slots=True)
class FlightStaging:
    """Over a connection of its own, by whatever process does a piece."""

    source: FlightSource
    queue: str
    is_spread: bool

    def __call__(self, query: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> list[FlightRange]:
        # What a writer of this name staged in vain, as a task that was tried again, goes with the commit. One process
        # alone keeps one name: all messages without a key stay in one partition, in order.
        writer = f"{query}/{epoch}" if self.is_spread else query
        with closing(self.source.login.connected()) as client:
            stager = client.stager(self.queue, writer=writer, namespace=self.source.namespace)
            try:
                with stager:
                    for batch in batches:
                        stager.stage(batch)
            except BaseException:
                _let_go(client, stager.ranges)
                raise
            return stager.ranges


class FlightSink:
    """Of a server."""

    def __init__(self, client: FlightClient, staging: FlightStaging) -> None:
        self._client, self.prepare = client, staging

    def commit(self, query: str, epoch: int, prepared: list[FlightRange]) -> int:
        if prepared:
            self._client.commit(query, epoch, prepared)
        return sum(each.rows for each in prepared)

    def discard(self, prepared: list[FlightRange]) -> None:
        _let_go(self._client, prepared)


class DirectorySink:
    """Of a directory that this process has open, which does the pieces too."""

    def __init__(self, runtime: Runtime, queue: Queue) -> None:
        self._runtime, self._queue = runtime, queue

    def prepare(self, query: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> list[StagedRange]:
        staging, ranges = self._runtime.broker.staging, list[StagedRange]()
        try:
            for part in chain.from_iterable(map(_parts, batches)):
                ranges.append(self._runtime.run(staging.stage(self._queue, columns_of(part), writer=query)))
        except BaseException:
            self.discard(ranges)
            raise
        return ranges

    def commit(self, query: str, epoch: int, prepared: list[StagedRange]) -> int:
        if prepared:
            self._runtime.run(self._runtime.broker.staging.commit(query, epoch, prepared))
        return sum(each.rows for each in prepared)

    def discard(self, prepared: list[StagedRange]) -> None:
        self._runtime.run(self._runtime.broker.staging.abandon(prepared))


class SpooledSink:
    """Of a directory that this process has open, while others do the pieces."""

    def __init__(self, directory: DirectorySink, spool: Spool) -> None:
        self._directory, self.prepare = directory, spool

    def commit(self, query: str, epoch: int, prepared: SpooledPiece) -> int:
        staged = self._directory.prepare(query, epoch, prepared.read())
        try:
            rows = self._directory.commit(query, epoch, staged)
        except PenstockError:
            self._directory.discard(staged)  # the file is still there, and may be tried again
            raise
        prepared.remove()
        return rows

    def discard(self, prepared: SpooledPiece) -> None:
        prepared.remove()


def _let_go(client: FlightClient, ranges: Sequence[FlightRange]) -> None:
    """Who cannot be reached collects them by itself, a day later."""
    with suppress(PenstockError):
        client.abandon(ranges)


@contextmanager
def _flight_sink(source: FlightSource, queue: str, is_spread: bool) -> Iterator[FlightSink]:
    with closing(source.login.connected()) as client:
        yield FlightSink(client, FlightStaging(source, canonical_queue(queue), is_spread))


@contextmanager
def _directory_sink(source: DirectorySource, queue: str) -> Iterator[DirectorySink]:
    runtime = _opened(source.path, source.namespace)
    try:
        yield DirectorySink(runtime, runtime.run(runtime.ensure(queue)))
    finally:
        runtime.close()


@contextmanager
def _spooled_sink(source: DirectorySource, queue: str, pieces: Path) -> Iterator[SpooledSink]:
    with _directory_sink(source, queue) as sink, spool(pieces) as spooled:
        yield SpooledSink(sink, spooled)


def _opened(path: Path, namespace: str) -> Runtime:
    runtime = Runtime(path, namespace=namespace)
    runtime.start()
    try:
        runtime.run(runtime.open())
    except DirectoryInUse as error:
        runtime.abandon()
        raise InvalidArgument(f"{error}: a server writes to it; replay through its Flight, with --url") from error
    except BaseException:
        runtime.abandon()
        raise
    return runtime


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Of which each fits a frame well, or has one row."""
    if batch.num_rows <= 1 or batch.nbytes <= _STAGED_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _parts(batch.slice(0, half))
    yield from _parts(batch.slice(half))


def columns_of(batch: pa.RecordBatch) -> Columns:
    """Of rows that penstock.jobs.replay_rows.outgoing() made."""
    values, keys, topics, headers, native = (batch.column(name).to_pylist() for name in OUTGOING.names)
    return Columns.of(
        [value or b"" for value in values],
        keys=[key or b"" for key in keys] if any(keys) else None,
        topics=[(topic or "").encode() for topic in topics] if any(topics) else None,
        properties=[_properties([(pair["key"], pair["value"]) for pair in pairs]) for pairs in headers],
        native=[entry or b"" for entry in native] if any(native) else None,
    )


def _properties(pairs: list[tuple[str, bytes]]) -> bytes:
    """What MQTT has a property of its own for is one again. What is not text was not sent as a header of text, and is
    given as it can be."""
    own = {name: value for name, value in reversed(pairs) if name in _OWN}
    others = tuple((name, value.decode(errors="replace")) for name, value in pairs if name not in _OWN)
    content_type, reply_to = own.get(_CONTENT_TYPE), own.get(_REPLY_TO)
    return pack(
        Envelope(
            others,
            content_type=None if content_type is None else content_type.decode(errors="replace"),
            reply_to=None if reply_to is None else reply_to.decode(errors="replace"),
            correlation_id=own.get(_CORRELATION_ID),
        )
    )
