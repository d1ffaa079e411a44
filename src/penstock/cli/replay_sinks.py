"""Queues that a replay writes to: of a server over Flight, or of a directory that the command opens itself. Both stage
the rows of an epoch and commit them under its key, so that an epoch that is done again is recognised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.broker.queue import Queue
from penstock.broker.staging.records import StagedRange
from penstock.cli.table_source import DirectorySource, FlightSource, Source
from penstock.core.errors import DirectoryInUse, InvalidArgument, PenstockError
from penstock.embedded.runtime import Runtime
from penstock.jobs.replay import Sink
from penstock.jobs.replay_rows import OUTGOING
from penstock.log.columns import Columns
from penstock.queues.names import canonical_queue
from penstock.queues.properties import Envelope, pack

if TYPE_CHECKING:
    from penstock.client.flight import FlightClient
    from penstock.client.flight import StagedRange as FlightRange

# A frame holds 16 MiB, and a row may be as large as a message may be.
_STAGED_BYTES = 4 << 20
_CONTENT_TYPE, _REPLY_TO, _CORRELATION_ID = _OWN = ("content-type", "reply-to", "correlation-id")


def sink_of(source: Source, queue: str) -> AbstractContextManager[Sink]:
    """Where the queue is that messages come from. DirectoryInUse for a directory that a server has."""
    if isinstance(source, FlightSource):
        return _flight_sink(source, queue)
    return _directory_sink(source, queue)


class FlightSink:
    """Of a server."""

    def __init__(self, client: FlightClient, queue: str, namespace: str | None) -> None:
        self._client, self._queue, self._namespace = client, queue, namespace

    def write(self, query: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> int:
        stager = self._client.stager(self._queue, writer=query, namespace=self._namespace)
        try:
            with stager:
                for batch in batches:
                    stager.stage(batch)
        except BaseException:
            self._let_go(stager.ranges)
            raise
        if stager.ranges:
            self._client.commit(query, epoch, stager.ranges)
        return sum(each.rows for each in stager.ranges)

    def _let_go(self, ranges: Sequence[FlightRange]) -> None:
        """Who cannot be reached collects them by itself, a day later."""
        with suppress(PenstockError):
            self._client.abandon(ranges)


class DirectorySink:
    """Of a directory that this process has open."""

    def __init__(self, runtime: Runtime, queue: Queue) -> None:
        self._runtime, self._queue = runtime, queue

    def write(self, query: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> int:
        staging, ranges = self._runtime.broker.staging, list[StagedRange]()
        try:
            for part in chain.from_iterable(map(_parts, batches)):
                ranges.append(self._runtime.run(staging.stage(self._queue, columns_of(part), writer=query)))
        except BaseException:
            self._runtime.run(staging.abandon(ranges))
            raise
        if ranges:
            self._runtime.run(staging.commit(query, epoch, ranges))
        return sum(each.rows for each in ranges)


@contextmanager
def _flight_sink(source: FlightSource, queue: str) -> Iterator[Sink]:
    client = source.login.connected()
    try:
        yield FlightSink(client, canonical_queue(queue), source.namespace)
    finally:
        client.close()


@contextmanager
def _directory_sink(source: DirectorySource, queue: str) -> Iterator[Sink]:
    runtime = _opened(source.path, source.namespace)
    try:
        yield DirectorySink(runtime, runtime.run(runtime.ensure(queue)))
    finally:
        runtime.close()


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
    values, keys, topics, headers = (batch.column(name).to_pylist() for name in OUTGOING.names)
    return Columns.of(
        [value or b"" for value in values],
        keys=[key or b"" for key in keys] if any(keys) else None,
        topics=[(topic or "").encode() for topic in topics] if any(topics) else None,
        properties=[_properties([(pair["key"], pair["value"]) for pair in pairs]) for pairs in headers],
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
