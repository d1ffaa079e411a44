"""Queues, groups, users and keys in numbers and words, as a server tells of them and a client reads it. A client passes
over fields that a newer server adds."""

from __future__ import annotations

import msgspec


class Tally(msgspec.Struct):
    """Numbers of messages since the directory was opened."""

    delivered: int = 0
    redelivered: int = 0
    acked: int = 0
    stale: int = 0
    failed: int = 0
    returned: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    expired: int = 0
    filtered: int = 0
    lost: int = 0
    """gone by retention before they were settled"""

    def add(self, *others: Tally) -> None:
        for other in others:
            self.delivered += other.delivered
            self.redelivered += other.redelivered
            self.acked += other.acked
            self.stale += other.stale
            self.failed += other.failed
            self.returned += other.returned
            self.dead_lettered += other.dead_lettered
            self.dropped += other.dropped
            self.expired += other.expired
            self.filtered += other.filtered
            self.lost += other.lost


class PartitionDescription(msgspec.Struct, frozen=True):
    """Offsets start to end - 1 are kept; not every one names a message."""

    partition: int
    start: int
    end: int
    messages: int


class MemberDescription(msgspec.Struct, frozen=True):
    number: int
    partitions: list[int]
    prefetch: int
    in_flight: int
    is_suspended: bool = False
    """it settles nothing, so other members get its messages"""


class ProgressDescription(msgspec.Struct, frozen=True):
    """A group in a partition: messages below `floor` are settled, those from `next` on were never delivered."""

    partition: int
    floor: int
    next: int
    end: int
    lag: int
    in_flight: int
    waiting: int
    owner: int | None


class GroupDescription(msgspec.Struct, frozen=True):
    """`lag` counts every message that the group has not settled, `depth` only those that came after it was created or
    reset; `lag_s` is the age of the oldest one it has not settled."""

    queue: str
    namespace: str
    name: str
    filter: str | None
    created_ms: int
    is_paused: bool
    is_derived: bool
    members: list[MemberDescription]
    generation: int
    rebalances: int
    is_rebalancing: bool
    depth: int
    lag: int
    lag_s: float
    in_flight: int
    waiting: int
    ready: int
    parked: int
    counts: Tally
    partitions: list[ProgressDescription]


class QueueDescription(msgspec.Struct, frozen=True):
    """`published` and `refused` count since the directory was opened. Partitions that never had a message are not
    listed."""

    name: str
    namespace: str
    incarnation: int
    created_ms: int
    is_auto: bool
    is_paused: bool
    messages: int
    depth: int
    published: int
    refused: int
    dead_letter_queue: str | None
    partitions: list[PartitionDescription]
    groups: list[GroupDescription]
    settings: dict[str, object]
    is_volatile: bool = False
    """in memory alone: gone when the server is"""


class UserDescription(msgspec.Struct, frozen=True):
    name: str
    namespace: str
    roles: tuple[str, ...]
    has_password: bool
    login: tuple[str, ...]
    """password, scram; empty where only a certificate or a token is a login"""
    created_ms: int
    changed_ms: int


class KeyDescription(msgspec.Struct, frozen=True):
    id: str
    user: str
    """its name in rules"""
    roles: tuple[str, ...]
    namespace: str
    description: str
    created_ms: int
    expires_ms: int | None
