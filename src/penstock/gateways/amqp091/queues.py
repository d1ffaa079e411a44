"""Queues as clients of AMQP see them: whose they are, who reads them, and when they go by themselves."""

from __future__ import annotations

from contextlib import suppress

from penstock.broker.broker import Broker
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.volatile import VolatileQueue
from penstock.codecs.amqp091.errors import AmqpError, Fault, named
from penstock.codecs.amqp091.kinds import Table
from penstock.core.errors import NoSuchQueue
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.rights import READ, At, require_queue
from penstock.gateways.amqp091.streams import is_reader, reader_name, start_of
from penstock.gateways.background import Background
from penstock.queues.names import GroupName
from penstock.queues.rabbit_arguments import Declared, is_on
from penstock.queues.rabbit_records import declared_of
from penstock.queues.rabbit_settings import arguments_of

DEFAULT_GROUP = GroupName("default", None)
SINGLE_ACTIVE = "x-single-active-consumer"


def declaration(queue: Queue) -> Declared:
    """What it was declared with; of one that another protocol has declared, what it would have been."""
    found = declared_of(queue.record.declared)
    return Declared(arguments=arguments_of(queue.settings)) if found is None else found


class Queues:
    """For all connections."""

    def __init__(self, broker: Broker, background: Background) -> None:
        self._broker, self._background = broker, background

    # Finding

    def named(self, channel: Channel, name: str, at: At) -> str:
        """What an empty name stands for: the queue that was declared last on the channel."""
        if name:
            return name
        if not channel.previous_queue:
            raise AmqpError(Fault.NO_PREVIOUS_QUEUE, channel.number, at)
        return channel.previous_queue

    def known(self, connection: Connection, name: str) -> Queue | None:
        return self._broker.declaring.queues.get((connection.namespace, name))

    def found(self, connection: Connection, channel: Channel, name: str, at: At) -> Queue:
        """AmqpError if there is none, or if it is another connection's alone."""
        queue = self.known(connection, name)
        if queue is None:
            raise AmqpError(Fault.MISSING, channel.number, at, what=named("queue", name, connection.vhost))
        self.refuse_locked(connection, channel, queue, at)
        return queue

    def refuse_locked(self, connection: Connection, channel: Channel, queue: Queue, at: At) -> None:
        if isinstance(queue, VolatileQueue) and queue.owner not in (None, connection):
            raise AmqpError(Fault.LOCKED, channel.number, at, what=named("queue", queue.name, connection.vhost))

    def to_read(self, connection: Connection, channel: Channel, name: str, at: At) -> Queue:
        name = self.named(channel, name, at)
        require_queue(connection, channel, READ, name, at)
        return self.found(connection, channel, name, at)

    async def group(self, queue: Queue) -> Group:
        """Of those who take its messages for good."""
        found = queue.groups.get(DEFAULT_GROUP) or await self._broker.group(queue, DEFAULT_GROUP)
        found.turns.is_single_active = is_on(declaration(queue).arguments, SINGLE_ACTIVE)
        return found

    async def reading(self, queue: Queue, arguments: Table) -> Group:
        """Of one reader of a stream, who takes nothing from others. InvalidArgument for where it begins."""
        return await self._broker.group(queue, reader_name(), start_of(queue, arguments), is_derived=True)

    # Counts

    def ready(self, queue: Queue) -> int:
        found = queue.groups.get(DEFAULT_GROUP)
        return queue.depth() if found is None else found.ready()

    def consumers(self, queue: Queue) -> int:
        return sum([group.consuming for group in queue.groups.values()])

    # Going by themselves

    def left(self, group: Group) -> None:
        """A consumer does."""
        if is_reader(group) and not group.is_deleted:
            self._background.spawn(self._broker.declaring.delete_group(group))
        queue = self._broker.declaring.by_incarnation.get(group.queue.incarnation)
        if queue is not None and not queue.is_deleted and declaration(queue).auto_delete and not self.consumers(queue):
            self.delete_soon(queue)

    def gone(self, connection: Connection) -> None:
        """With the queues that were its own."""
        for name in connection.exclusive:
            queue = self.known(connection, name)
            if isinstance(queue, VolatileQueue) and queue.owner is connection:
                self._broker.declaring.delete_volatile(queue)
        connection.exclusive = {}

    def delete_soon(self, queue: Queue) -> None:
        if queue.is_volatile:
            self._broker.declaring.delete_volatile(queue)
        else:
            self._background.spawn(self._delete(queue))

    async def delete(self, queue: Queue) -> None:
        if queue.is_volatile:
            self._broker.declaring.delete_volatile(queue)
        else:
            await self._broker.declaring.delete(queue)

    async def _delete(self, queue: Queue) -> None:
        with suppress(NoSuchQueue):  # somebody else was quicker
            await self.delete(queue)
