"""The actions of Flight that decide over staged rows: commit, abandon, committed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from penstock.broker.queues.queue import Queue
from penstock.broker.staging.records import StagedRange
from penstock.broker.staging.staging import Staging
from penstock.core.errors import InvalidArgument
from penstock.core.queue_paths import canonical_queue
from penstock.gateways.flight.rights import Writer
from penstock.log.encoded import Encoded

Kind = TypeVar("Kind")


class CommitBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: str
    epoch: int
    ranges: list[StagedRange]
    pipeline: str | None = None
    reset: bool = False
    queues: list[str] = []
    """that an epoch without rows is for"""
    namespace: str | None = None
    """of these queues; the caller's own if it is left out"""
    single: bool = False


class AbandonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ranges: list[StagedRange]


class CommittedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: str


class ReleaseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: str
    pipeline: str = ""


class CommittedPlace(msgspec.Struct, frozen=True):
    namespace: str
    queue: str
    partition: int
    base_offset: int
    rows: int


class CommitResult(msgspec.Struct, frozen=True, omit_defaults=True):
    placed: list[CommittedPlace]
    is_repeated: bool
    created_queue: str | None = None
    """for rows that came with the commit"""


async def commit(
    staging: Staging, writer: Writer, data: bytes, rows: Sequence[tuple[Queue, Encoded]] = ()
) -> CommitResult:
    """The right to publish is asked for again, of every queue: where the rows are, if it was committed before; where
    rows of the query went, or of the one that has the pipeline's name, if that is nobody's yet; and of those that an
    epoch without rows is for. For the queues of `rows` it was asked."""
    body = _decoded(data, CommitBody)
    for place in staging.places(body.query, body.epoch):
        writer.require_publish(place.queue, place.namespace)
    for namespace, queue in staging.queues_of(body.query) + staging.queues_under(body.pipeline or ""):
        writer.require_publish(queue, namespace)
    _require(staging, writer, body.ranges)
    staging.require_owner(body.query, writer.owner)
    if not rows and not body.ranges and body.epoch not in staging.epochs(body.query):
        _require_named(writer, body)
    done = await staging.commit(
        body.query,
        body.epoch,
        body.ranges,
        pipeline=body.pipeline or "",
        reset=body.reset,
        by=writer.owner,
        single=body.single,
        rows=rows,
    )
    return CommitResult([CommittedPlace(*msgspec.structs.astuple(each)) for each in done.placed], done.is_repeated)


async def abandon(staging: Staging, writer: Writer, data: bytes) -> dict[str, int]:
    body = _decoded(data, AbandonBody)
    _require(staging, writer, body.ranges)
    return {"count": await staging.abandon(body.ranges, by=writer.owner)}


async def committed(staging: Staging, writer: Writer, data: bytes) -> dict[str, list[int]]:
    query = _decoded(data, CommittedBody).query
    staging.require_owner(query, writer.owner)
    return {"epochs": staging.epochs(query)}


async def release(staging: Staging, writer: Writer, data: bytes) -> dict[str, str]:
    """For administrators: a query, and a pipeline's name, are of who uses them next."""
    body = _decoded(data, ReleaseBody)
    await staging.release(body.query, body.pipeline, writer.owner)
    return {"query": body.query, "pipeline": body.pipeline}


ACTIONS: dict[str, Callable[[Staging, Writer, bytes], Awaitable[object]]] = {
    "commit": commit,
    "abandon": abandon,
    "committed": committed,
    "release": release,
}


def _require(staging: Staging, writer: Writer, ranges: list[StagedRange]) -> None:
    for queue in staging.targets(ranges):
        writer.require_publish(queue.name, queue.namespace)


def _require_named(writer: Writer, body: CommitBody) -> None:
    """An epoch without rows decides one all the same: it needs the right that its rows would have needed. An admin,
    who has it everywhere, need not name queues."""
    if not body.queues and not writer.permissions.administers(writer.namespace):
        raise InvalidArgument(
            f"epoch {body.epoch} of query {body.query[:80]!r} has no rows, and names no queue that it is for: "
            f'say "queues", whose right to publish is asked for'
        )
    for queue in body.queues:
        writer.require_publish(canonical_queue(queue), body.namespace or writer.namespace)


def _decoded(data: bytes, kind: type[Kind]) -> Kind:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the body of the action cannot be read ({error}): write it as JSON") from None
