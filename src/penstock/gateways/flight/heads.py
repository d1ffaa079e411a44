"""What the listener gives the server to write: the heads of its requests, and what is answered."""

from __future__ import annotations

import msgspec

from penstock.gateways.beside.frames import Caller, Heads


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


def body_sizes(head: Head) -> list[int]:
    if isinstance(head, PutBatches):
        return [batch.size_bytes for batch in head.batches]
    if isinstance(head, CommitRows):
        return [head.size_bytes, *(batch.size_bytes for batch in head.batches)]
    return [head.size_bytes] if isinstance(head, Action) else []


HEADS: Heads[Head] = Heads(msgspec.json.Decoder(Head).decode, body_sizes)
