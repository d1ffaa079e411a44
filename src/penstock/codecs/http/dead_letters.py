"""Dead letters as they are listed, and what became of those sent again or dropped."""

from __future__ import annotations

import msgspec

from penstock.codecs.http.messages import Message


class DeadLetterMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """`source` is the id of the original message. A message that was published here directly has no origin."""

    message: Message
    source: str | None = None
    group: str | None = None
    reason: str | None = None
    detail: str | None = None
    deliveries: int | None = None
    failures: int | None = None
    first_failed_ms: int | None = None
    moved_ms: int | None = None


class DeadLetterList(msgspec.Struct, frozen=True):
    queue: str | None
    """where they are; null before the first one came"""
    waiting: int
    items: list[DeadLetterMessage]


class DeadLetterQueue(msgspec.Struct, frozen=True):
    name: str
    waiting: int


class DeadLetterQueues(msgspec.Struct, frozen=True):
    items: list[DeadLetterQueue]


class RetryReport(msgspec.Struct, frozen=True):
    retried: int
    left: dict[str, int]
    """how many could not be sent, by the reason why"""
    missing: list[str]
    """ids that were not found"""
    dry_run: bool = False


class DropReport(msgspec.Struct, frozen=True):
    dropped: int
    missing: list[str]
    dry_run: bool = False
