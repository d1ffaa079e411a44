"""What the process of a door gives the server to do: a head of JSON and the bytes it speaks of, behind each other on a
second socket pair. Answers come back as JSON, in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Generic, TypeVar

import msgspec

LENGTH = Struct("<I")
MAX_HEAD_BYTES = 1 << 20
# A frame of the journal, and what stands around it; also the body of an action, which may name 100,000 stages.
MAX_BODY_BYTES = 24 << 20

HeadT = TypeVar("HeadT")
Result = TypeVar("Result")


class Caller(msgspec.Struct, frozen=True):
    """Who asked the door for it: the header authorization, and where it came from."""

    authorization: str | None
    peer: str
    namespace: str | None = None


class Reply(msgspec.Struct, frozen=True):
    """`error` is an ErrorCode, with its text in `reason`; else the result is JSON."""

    id: int
    error: str | None = None
    reason: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class Heads(Generic[HeadT]):
    """The heads that a door sends: how they are read, and the sizes of the bodies behind one."""

    decode: Callable[[memoryview], HeadT]
    sizes: Callable[[HeadT], list[int]]


def head_bytes(head: msgspec.Struct) -> bytes:
    return _framed(head)


def reply_bytes(id: int, result: object) -> bytes:
    return _framed(Reply(id, result=msgspec.Raw(msgspec.json.encode(result))))


def refusal_bytes(id: int, error: str, reason: str) -> bytes:
    return _framed(Reply(id, error, reason))


def result_of(reply: Reply, kind: type[Result]) -> Result:
    return msgspec.json.decode(reply.result, type=kind)


def _framed(message: msgspec.Struct) -> bytes:
    data = msgspec.json.encode(message)
    return LENGTH.pack(len(data)) + data
