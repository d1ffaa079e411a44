"""Queues and groups as they were declared, read from the log of the configuration without the broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from penstock.core.ports import Buffer
from penstock.log.batch import Batch
from penstock.queues.names import DEFAULT_NAMESPACE, GroupName

_QUEUE, _GROUP = "queue:", "group:"


class DeclaredSettings(msgspec.Struct, frozen=True):
    """Of a queue's settings, what jobs have to know."""

    name: str
    partitions: int = 0
    namespace: str = DEFAULT_NAMESPACE


class DeclaredQueue(msgspec.Struct, frozen=True):
    incarnation: int
    settings: DeclaredSettings
    created_ms: int
    first_partitions: int
    is_deleted: bool = False


class DeclaredGroup(msgspec.Struct, frozen=True):
    """`starts`: of partitions that existed, where the group began and where history ended for it."""

    incarnation: int
    number: int
    name: str
    filter: str | None
    created_ms: int
    starts: dict[int, tuple[int, int]]

    @property
    def key(self) -> GroupName:
        return GroupName(self.name, self.filter)


@dataclass(frozen=True, slots=True)
class Declared:
    """What stands, without what is being deleted."""

    queues: dict[tuple[str, str], DeclaredQueue] = field(default_factory=dict)
    """by namespace and name"""
    groups: dict[int, list[DeclaredGroup]] = field(default_factory=dict)
    """by the incarnation of their queue"""

    def groups_of(self, queue: DeclaredQueue) -> list[DeclaredGroup]:
        return self.groups.get(queue.incarnation, [])


def read_declared(batches: Iterable[Buffer]) -> Declared:
    """Of the batches of queues.names.CONFIGURATION_LOG."""
    found = Declared()
    for key, value in _newest(batches).items():
        if key.startswith(_QUEUE):
            queue = msgspec.json.decode(value, type=DeclaredQueue)
            if not queue.is_deleted:
                found.queues[queue.settings.namespace, queue.settings.name] = queue
        elif key.startswith(_GROUP):
            group = msgspec.json.decode(value, type=DeclaredGroup)
            found.groups.setdefault(group.incarnation, []).append(group)
    return found


def _newest(batches: Iterable[Buffer]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for key, value in _values(batches):
        if value:
            found[key] = value
        else:
            found.pop(key, None)
    return found


def _values(batches: Iterable[Buffer]) -> Iterator[tuple[str, bytes]]:
    for data in batches:
        for row in Batch.parse(data, verify=False):
            if row.key is not None:
                yield row.key.decode(), row.value
