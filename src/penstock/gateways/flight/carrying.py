"""What the listener gives the server to write: a head of JSON and the bytes it speaks of, behind each other on a second
socket pair. Answers come back as JSON, in any order."""

from __future__ import annotations

from struct import Struct
from typing import TypeVar

import msgspec

LENGTH = Struct("<I")
MAX_HEAD_BYTES = 1 << 20
# A frame of the journal, and what stands around it; also the body of an action, which may name 100,000 stages.
MAX_BODY_BYTES = 24 << 20


class Caller(msgspec.Struct, frozen=True):
    authorization: str | None
    peer: str
    namespace: str | None = None


class PutBegin(msgspec.Struct, frozen=True, tag="begin"):
    """A stream of rows for a queue. Answered by a PutStream."""

    id: int
    caller: Caller
    queue: str
    is_staged: bool = False
    writer: str = ""
    partition: int | None = None
    makes_queue: bool = True


class BatchHead(msgspec.Struct, frozen=True, array_like=True):
    size_bytes: int
    partition: int | None = None
    is_by_key: bool = False


class PutBatches(msgspec.Struct, frozen=True, tag="put"):
    """Rows of a stream, in one commit; their batches follow. `partitions`: how many the queue had when keys were
    placed. Answered by a PutDone."""

    id: int
    stream: int
    partitions: int
    batches: list[BatchHead]


class PutDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """`places` are Placed, or staged ranges; `created` is the queue that was made for them."""

    places: msgspec.Raw
    created: str | None = None


class PutEnd(msgspec.Struct, frozen=True, tag="end"):
    """Of a stream. Not answered."""

    stream: int


class Action(msgspec.Struct, frozen=True, tag="action"):
    """The body follows, as the client sent it. Answered by what the client is told."""

    id: int
    caller: Caller
    kind: str
    size_bytes: int


class CommitRows(msgspec.Struct, frozen=True, tag="commit-rows"):
    """An action `commit` that brings rows of a queue along: its body follows, then their batches. Answered by what the
    client is told."""

    id: int
    caller: Caller
    size_bytes: int
    queue: str
    batches: list[BatchHead]
    makes_queue: bool = True


Head = PutBegin | PutBatches | PutEnd | Action | CommitRows


class PutStream(msgspec.Struct, frozen=True):
    """`unkeyed`: the partition of rows without a key; None where each batch of them goes to another one. One commit
    takes `piece_bytes`."""

    stream: int
    name: str
    partitions: int
    unkeyed: int | None
    piece_bytes: int


class Reply(msgspec.Struct, frozen=True):
    """`error` is an ErrorCode, with its text in `reason`; else the result is JSON."""

    id: int
    error: str | None = None
    reason: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")


def body_sizes(head: Head) -> list[int]:
    if isinstance(head, PutBatches):
        return [batch.size_bytes for batch in head.batches]
    if isinstance(head, CommitRows):
        return [head.size_bytes, *(batch.size_bytes for batch in head.batches)]
    return [head.size_bytes] if isinstance(head, Action) else []


def head_bytes(head: Head) -> bytes:
    data = msgspec.json.encode(head)
    return LENGTH.pack(len(data)) + data


def reply_bytes(id: int, result: object) -> bytes:
    return _framed(Reply(id, result=msgspec.Raw(msgspec.json.encode(result))))


def refusal_bytes(id: int, error: str, reason: str) -> bytes:
    return _framed(Reply(id, error, reason))


def _framed(reply: Reply) -> bytes:
    data = msgspec.json.encode(reply)
    return LENGTH.pack(len(data)) + data


Result = TypeVar("Result")


def result_of(reply: Reply, kind: type[Result]) -> Result:
    return msgspec.json.decode(reply.result, type=kind)
