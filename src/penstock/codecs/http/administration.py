"""Queues, templates, groups and keys as they are listed and changed."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.codecs.http.shapes import GroupName, Partition, Place
from penstock.core.descriptions import KeyDescription


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
    is_volatile: bool = False
    """in memory alone: gone when the server is"""


class Queues(msgspec.Struct, frozen=True):
    items: list[QueueSummary]
    next: str | None


class Purged(msgspec.Struct, frozen=True):
    purged: int
    dry_run: bool


class TemplateDescription(msgspec.Struct, frozen=True):
    match: str
    settings: dict[str, object]


class Templates(msgspec.Struct, frozen=True):
    items: list[TemplateDescription]


class NewGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: GroupName
    """`name|filter` gets only what the filter matches"""
    start: Place = "earliest"
    """where it begins: earliest, latest, an offset, a time, or a duration back from now"""


class Reset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: Place
    """earliest, latest, an offset, a time, or a duration back from now"""
    partitions: list[Partition] | None = None
    dry_run: bool = False


class Moved(msgspec.Struct, frozen=True):
    partition: int
    before: int
    """the first offset that is not settled"""
    after: int


class ResetReport(msgspec.Struct, frozen=True):
    dry_run: bool
    partitions: list[Moved]


class Commit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    offsets: dict[Annotated[str, msgspec.Meta(pattern="^[0-9]{1,9}$")], Annotated[int, msgspec.Meta(ge=0)]]
    """by partition: the first that is not done"""


class Committed(msgspec.Struct, frozen=True):
    settled: int


class CreatedKey(msgspec.Struct, frozen=True):
    """`key` is shown this once."""

    key: str
    description: KeyDescription
