"""What a server tells about itself. Fields that a newer server adds are passed over."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from penstock.client.http.incoming import StoredMessage

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


class QueueSummary(msgspec.Struct, frozen=True):
    name: str
    namespace: str
    partitions: int
    messages: int
    depth: int
    groups: int
    consumers: int
    is_paused: bool
    is_auto: bool


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


class Purged(msgspec.Struct, frozen=True):
    purged: int
    dry_run: bool


class Moved(msgspec.Struct, frozen=True):
    """`before` and `after`: the first offset that is not settled."""

    partition: int
    before: int
    after: int


class ResetReport(msgspec.Struct, frozen=True):
    dry_run: bool
    partitions: list[Moved]


class Committed(msgspec.Struct, frozen=True):
    settled: int


class DeadLetter(msgspec.Struct, frozen=True):
    """`source` is the id of the message that it was."""

    message: StoredMessage
    source: str | None = None
    group: str | None = None
    reason: str | None = None
    detail: str | None = None
    deliveries: int | None = None
    failures: int | None = None
    first_failed_ms: int | None = None
    moved_ms: int | None = None


class DeadLetters(msgspec.Struct, frozen=True):
    """`waiting` in all; `queue` is where they are, None before the first one came."""

    queue: str | None
    waiting: int
    items: list[DeadLetter]


class RedriveReport(msgspec.Struct, frozen=True):
    """`left` could not be sent, by the reason why; `missing` are ids that were not found."""

    retried: int
    left: dict[str, int]
    missing: list[str]
    dry_run: bool = False


class DropReport(msgspec.Struct, frozen=True):
    """`missing` are ids that were not found."""

    dropped: int
    missing: list[str]
    dry_run: bool = False


class WaitingLetters(msgspec.Struct, frozen=True):
    """A queue of dead letters, and how many wait in it."""

    name: str
    waiting: int


class TemplateInfo(msgspec.Struct, frozen=True):
    """`match` is the pattern of the queues' names."""

    match: str
    settings: Facts


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
