"""The actions of Flight that decide over staged rows: commit, abandon, committed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from penstock.broker.staging.records import StagedRange
from penstock.broker.staging.staging import Staging
from penstock.core.errors import InvalidArgument
from penstock.gateways.flight.rights import Writer

Kind = TypeVar("Kind")


class CommitBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: str
    epoch: int
    ranges: list[StagedRange]
    pipeline: str = ""
    reset: bool = False


class AbandonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ranges: list[StagedRange]


class CommittedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: str


class CommittedPlace(msgspec.Struct, frozen=True):
    namespace: str
    queue: str
    partition: int
    base_offset: int
    rows: int


class CommitResult(msgspec.Struct, frozen=True):
    placed: list[CommittedPlace]
    is_repeated: bool


async def commit(staging: Staging, writer: Writer, data: bytes) -> CommitResult:
    """The right to publish is asked for again, of every queue: where the rows are, if it was committed before."""
    body = _decoded(data, CommitBody)
    for place in staging.places(body.query, body.epoch):
        writer.require_publish(place.queue, place.namespace)
    _require(staging, writer, body.ranges)
    done = await staging.commit(body.query, body.epoch, body.ranges, pipeline=body.pipeline, reset=body.reset)
    return CommitResult([CommittedPlace(*msgspec.structs.astuple(each)) for each in done.placed], done.is_repeated)


async def abandon(staging: Staging, writer: Writer, data: bytes) -> dict[str, int]:
    body = _decoded(data, AbandonBody)
    _require(staging, writer, body.ranges)
    return {"count": await staging.abandon(body.ranges)}


async def committed(staging: Staging, writer: Writer, data: bytes) -> dict[str, list[int]]:
    return {"epochs": staging.epochs(_decoded(data, CommittedBody).query)}


ACTIONS: dict[str, Callable[[Staging, Writer, bytes], Awaitable[object]]] = {
    "commit": commit,
    "abandon": abandon,
    "committed": committed,
}


def _require(staging: Staging, writer: Writer, ranges: list[StagedRange]) -> None:
    for queue in staging.targets(ranges):
        writer.require_publish(queue.name, queue.namespace)


def _decoded(data: bytes, kind: type[Kind]) -> Kind:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the body of the action cannot be read ({error}): write it as JSON") from None
