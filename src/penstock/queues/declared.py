"""What the log of the configuration says: queues, groups, templates, exchanges and bindings, as records whose newest of
a key is the truth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.queues.exchange_records import BindingRecord, ExchangeRecord
from penstock.queues.names import DEFAULT_NAMESPACE, GroupName
from penstock.queues.policies import PolicyRecord


class Switch(msgspec.Struct, frozen=True):
    """The number of partitions grew: messages at or behind `ends` were placed among more partitions than those
    before."""

    ends: dict[int, int]
    deadline_ms: int
    """by the wall clock"""


class QueueRecord(msgspec.Struct, frozen=True):
    """`settings` as people write them; `first_partitions`: how many the queue had when it was declared."""

    incarnation: int
    settings: dict[str, Any]
    created_ms: int
    first_partitions: int
    is_auto: bool = False
    is_paused: bool = False
    switches: tuple[Switch, ...] = ()
    """those that a group may still have before it, oldest first"""
    is_deleted: bool = False
    """its logs are going; the record goes behind them"""
    declared: dict[str, Any] | None = None
    """what a door wants to know of it again: how it was declared there"""

    @property
    def name(self) -> str:
        found: str = self.settings["name"]
        return found

    @property
    def namespace(self) -> str:
        found: str = self.settings.get("namespace", DEFAULT_NAMESPACE)
        return found

    @property
    def partitions(self) -> int:
        found: int = self.settings.get("partitions", 0)
        return found


class GroupRecord(msgspec.Struct, frozen=True):
    """`starts`: of each partition that existed, where the group begins and where history ends for it."""

    incarnation: int
    number: int
    name: str
    filter: str | None
    created_ms: int
    starts: dict[int, tuple[int, int]]
    is_derived: bool = False
    is_paused: bool = False
    is_permanent: bool = False
    """stays though nobody uses it"""

    @property
    def key(self) -> GroupName:
        return GroupName(self.name, self.filter)


class TemplateRecord(msgspec.Struct, frozen=True):
    match: str
    settings: dict[str, Any]


class NumbersRecord(msgspec.Struct, frozen=True):
    """The next ones to be given away. Those of deleted queues and groups are never used again: ids of messages and
    records of state logs carry them."""

    incarnation: int
    group: int


class NamespaceRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One that somebody has declared, though there may be nothing in it."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()


Record = (
    QueueRecord
    | GroupRecord
    | TemplateRecord
    | NumbersRecord
    | ExchangeRecord
    | BindingRecord
    | PolicyRecord
    | NamespaceRecord
)
_KINDS: dict[str, type[Record]] = {
    "numbers": NumbersRecord,
    "queue": QueueRecord,
    "group": GroupRecord,
    "template": TemplateRecord,
    "exchange": ExchangeRecord,
    "binding": BindingRecord,
    "policy": PolicyRecord,
    "namespace": NamespaceRecord,
}


NUMBERS_KEY = "numbers:"
QUEUE_KEYS = "queue:"
"""how those of queues begin"""


def queue_key(incarnation: int) -> str:
    return f"{QUEUE_KEYS}{incarnation}"


def group_key(incarnation: int, number: int) -> str:
    return f"group:{incarnation}:{number}"


def namespace_key(name: str) -> str:
    return f"namespace:{name}"


def template_key(match: str) -> str:
    return f"template:{match}"


WRITES_KEY = "\0writes"
"""of a record that declares nothing: how many commits the log has taken, by which the newer of two copies is known"""


def apply(records: dict[str, Record], rows: Iterable[tuple[str, bytes]]) -> None:
    """Keys and values of the log, in its order; an empty value takes a record away."""
    for key, value in rows:
        if key == WRITES_KEY:
            continue
        if value:
            records[key] = msgspec.json.decode(value, type=_KINDS[key.partition(":")[0]])
        else:
            records.pop(key, None)
