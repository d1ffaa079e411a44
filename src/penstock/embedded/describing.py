"""What there is: queues and groups in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.broker.group import Group
from penstock.broker.queue import Queue
from penstock.queues.settings import queue_json


@dataclass(frozen=True, slots=True)
class GroupDescription:
    queue: str
    name: str
    depth: int
    """messages that it has not settled, of those that came after it"""
    in_flight: int
    consumers: int
    is_paused: bool
    floors: dict[int, int]
    """by partition: the first offset that is not settled"""


@dataclass(frozen=True, slots=True)
class QueueDescription:
    name: str
    namespace: str
    depth: int
    """of its slowest group"""
    messages: int
    """kept, settled or not"""
    is_paused: bool
    settings: dict[str, object]
    """as people write them"""
    groups: list[GroupDescription]


def describe_group(group: Group) -> GroupDescription:
    cursors = {unit.partition: group.cursor(unit) for unit in group.queue.units.values()}
    return GroupDescription(
        queue=group.queue.name,
        name=group.name,
        depth=group.depth(),
        in_flight=sum(cursor.window.held for cursor in cursors.values()),
        consumers=len(group.consumers),
        is_paused=group.is_paused,
        floors={partition: cursor.window.floor for partition, cursor in cursors.items()},
    )


def describe_queue(queue: Queue) -> QueueDescription:
    return QueueDescription(
        name=queue.name,
        namespace=queue.namespace,
        depth=queue.depth(),
        messages=sum(unit.data.end - unit.start - unit.missing(unit.start) for unit in queue.units.values()),
        is_paused=queue.is_paused,
        settings=queue_json(queue.settings),
        groups=[describe_group(group) for group in queue.groups.values()],
    )
