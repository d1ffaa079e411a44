"""Queues and groups as they were declared, read from the log of the configuration without the broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from penstock.core.ports import Buffer
from penstock.log.batch import Batch
from penstock.queues.declared import GroupRecord, QueueRecord, Record, apply


@dataclass(frozen=True, slots=True)
class Declared:
    """What stands, without what is being deleted."""

    queues: dict[tuple[str, str], QueueRecord] = field(default_factory=dict)
    """by namespace and name"""
    groups: dict[int, list[GroupRecord]] = field(default_factory=dict)
    """by the incarnation of their queue"""

    def groups_of(self, queue: QueueRecord) -> list[GroupRecord]:
        return self.groups.get(queue.incarnation, [])


def read_declared(batches: Iterable[Buffer]) -> Declared:
    """Of the batches of queues.names.CONFIGURATION_LOG."""
    records: dict[str, Record] = {}
    apply(records, _values(batches))
    found = Declared()
    for record in records.values():
        if isinstance(record, QueueRecord) and not record.is_deleted:
            found.queues[record.namespace, record.name] = record
        elif isinstance(record, GroupRecord):
            found.groups.setdefault(record.incarnation, []).append(record)
    return found


def _values(batches: Iterable[Buffer]) -> Iterator[tuple[str, bytes]]:
    for data in batches:
        for row in Batch.parse(data, verify=False):
            if row.key is not None:
                yield row.key.decode(), row.value
