"""What a server tells about itself. Fields that a newer server adds are passed over."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from penstock.client.http.incoming import StoredMessage
from penstock.codecs.http.dead_letters import DeadLetterMessage

T = TypeVar("T")

Facts = dict[str, object]
"""where what is told is shown, and not worked with"""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list; `next` is the cursor of the one behind it."""

    items: list[T]
    next: str | None = None


class MessagePage(msgspec.Struct, frozen=True):
    messages: list[StoredMessage]
    next: str | None = None


class PartitionInfo(msgspec.Struct, frozen=True):
    """Offsets start to end - 1 are kept."""

    partition: int
    start: int
    end: int
    messages: int


class Progress(msgspec.Struct, frozen=True):
    """A group in a partition: all below `floor` is settled, all from `next` on was never handed out."""

    partition: int
    floor: int
    next: int
    end: int
    lag: int
    in_flight: int
    waiting: int


class GroupInfo(msgspec.Struct, frozen=True):
    """`lag` counts every message that the group has not settled; `lag_s` is the age of the oldest of them."""

    queue: str
    name: str
    filter: str | None
    is_paused: bool
    depth: int
    lag: int
    lag_s: float
    in_flight: int
    waiting: int
    members: list[Facts]
    partitions: list[Progress]


class QueueInfo(msgspec.Struct, frozen=True):
    name: str
    namespace: str
    created_ms: int
    is_auto: bool
    is_paused: bool
    messages: int
    depth: int
    published: int
    refused: int
    dead_letter_queue: str | None
    partitions: list[PartitionInfo]
    groups: list[GroupInfo]
    settings: Facts


class DeadLetter(DeadLetterMessage, frozen=True):
    message: StoredMessage


class DeadLetters(msgspec.Struct, frozen=True):
    """`waiting` in all; `queue` is where they are, None before the first one came."""

    queue: str | None
    waiting: int
    items: list[DeadLetter]


class UserInfo(msgspec.Struct, frozen=True):
    """`login`: password, scram; empty where a certificate or a token is the only login."""

    name: str
    roles: list[str]
    namespace: str
    login: tuple[str, ...] = ()
    created_ms: int = 0
    changed_ms: int = 0


class KeyInfo(msgspec.Struct, frozen=True):
    id: str
    roles: list[str]
    namespace: str
    description: str
    created_ms: int
    expires_ms: int | None = None


class CreatedKey(msgspec.Struct, frozen=True):
    """`key` is shown this once."""

    key: str
    description: KeyInfo
