"""Volatile queues, in short words."""

from __future__ import annotations

from tests.support.broker import Stage

from penstock.broker.broker import Broker
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.volatile import VolatileQueue
from penstock.queues.names import GroupName

DEFAULT = GroupName("default")


def volatile(s: Stage, name: str = "v", owner: object | None = None, **settings: object) -> VolatileQueue:
    """With a group `default`."""
    explicit = {"name": name, "partitions": 1, "ordering": "none", **settings}
    made = s.broker.declaring.declare_volatile(s.broker.declaring.settings_for(name, explicit), (DEFAULT,), owner=owner)
    assert isinstance(made, VolatileQueue)
    return made


def default_of(queue: VolatileQueue) -> Group:
    return queue.groups[DEFAULT]


def used(s: Stage) -> int:
    """Bytes of all volatile queues."""
    return s.broker.declaring.volatile.memory.used


def declared(broker: Broker, name: str) -> Queue:
    """One with a group `default`, in a server."""
    explicit = {"name": name, "partitions": 1, "ordering": "none"}
    return broker.declaring.declare_volatile(broker.declaring.settings_for(name, explicit), (DEFAULT,))
