"""queue.declare, bind, unbind, purge and delete."""

from __future__ import annotations

import secrets
from contextlib import suppress

import msgspec

from penstock.broker.broker import Broker
from penstock.broker.queues.queue import Queue
from penstock.codecs.amqp091 import methods as m
from penstock.codecs.amqp091.errors import AmqpError, Fault, named
from penstock.core.errors import NoSuchBinding, NoSuchExchange, NoSuchQueue, QueueExists
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.exchange_checks import check_binding
from penstock.gateways.amqp091.exchange_requests import values_of
from penstock.gateways.amqp091.queues import DEFAULT_GROUP, Queues, declaration
from penstock.gateways.amqp091.replies import REPLY_QUEUE, Replies
from penstock.gateways.amqp091.rights import CONFIGURE, READ, WRITE, require_exchange, require_key, require_queue
from penstock.queues.exchange_topics import DEFAULT_EXCHANGE
from penstock.queues.exchange_types import TOPIC_TYPE, Destination
from penstock.queues.names import RESERVED_PREFIX, check_own_queue_name, check_queue_name
from penstock.queues.rabbit_arguments import STREAM, At, Declared, check, refuse_difference
from penstock.queues.rabbit_records import record_of
from penstock.queues.rabbit_settings import queue_settings
from penstock.queues.settings import QueueSettings

DECLARE, BIND, PURGE, DELETE, UNBIND = (50, 10), (50, 20), (50, 30), (50, 40), (50, 50)
_MOST_KNOWN, _KNOWN_BYTES = 256, 4096
_DEAD_LETTERS = "x-dead-letter-exchange"


class QueueRequests:
    """For all connections."""

    def __init__(self, broker: Broker, queues: Queues, replies: Replies) -> None:
        self._broker, self._queues, self._replies = broker, queues, replies
        self._known: dict[tuple[str, str], QueueSettings] = {}
        """by namespace and arguments"""

    async def take(self, connection: Connection, channel: Channel, method: m.Method) -> None:
        match method:
            case m.QueueDeclare():
                await self._declare(connection, channel, method)
            case m.QueueBind():
                await self._bind(connection, channel, method)
            case m.QueueUnbind():
                await self._unbind(connection, channel, method)
            case m.QueuePurge():
                await self._purge(connection, channel, method)
            case m.QueueDelete():
                await self._delete(connection, channel, method)

    def gone(self, connection: Connection) -> None:
        """With the queues that were its own."""
        self._queues.gone(connection)

    # Declaring

    async def _declare(self, connection: Connection, channel: Channel, method: m.QueueDeclare) -> None:
        name = method.queue
        if name.startswith(REPLY_QUEUE):
            self._declare_replies(connection, channel, method)
            return
        if method.passive:
            queue = self._queues.found(connection, channel, name, DECLARE)
        else:
            name = name or f"amq.gen-{secrets.token_urlsafe(16)}"
            queue = await self._declared(connection, channel, method, name)
        channel.previous_queue = queue.name
        if not method.nowait:
            ready, consumers = self._queues.ready(queue), self._queues.consumers(queue)
            connection.send(channel.number, m.QueueDeclareOk(queue.name, ready, consumers))

    def _declare_replies(self, connection: Connection, channel: Channel, method: m.QueueDeclare) -> None:
        name = method.queue
        if name != REPLY_QUEUE and not self._replies.is_there(name.encode()):
            raise AmqpError(Fault.MISSING, channel.number, DECLARE, what=named("queue", name, connection.vhost))
        if not method.nowait:
            connection.send(channel.number, m.QueueDeclareOk(name, 0, 1))

    async def _declared(self, connection: Connection, channel: Channel, method: m.QueueDeclare, name: str) -> Queue:
        require_queue(connection, channel, CONFIGURE, name, DECLARE)
        wanted = Declared(method.durable, method.exclusive, method.auto_delete, dict(method.arguments))
        at, is_server_named = At(named("queue", name, connection.vhost), channel.number), not method.queue
        if (queue := self._queues.known(connection, name)) is None:
            if name.startswith(RESERVED_PREFIX) and not is_server_named:
                raise AmqpError(Fault.RESERVED_NAME, channel.number, DECLARE, kind="queue", name=name)
            check(wanted, at, is_server_named=is_server_named)
            self._require_dead_letters(connection, channel, wanted, name)
            try:
                return await self._make(connection, wanted, name, is_server_named)
            except QueueExists:
                queue = self._queues.found(connection, channel, name, DECLARE)
        self._queues.refuse_locked(connection, channel, queue, DECLARE)
        mine = declaration(queue)
        if mine.is_exclusive != wanted.is_exclusive:
            raise at.error(Fault.LOCKED)
        refuse_difference(mine, wanted, at, is_ours=queue.record.declared is None)
        queue.declared_ms = self._broker.now()
        return queue

    def _require_dead_letters(self, connection: Connection, channel: Channel, wanted: Declared, name: str) -> None:
        field = wanted.arguments.get(_DEAD_LETTERS)
        if field is not None and isinstance(field.value, str):
            require_queue(connection, channel, READ, name, DECLARE)
            require_exchange(connection, channel, WRITE, field.value, DECLARE)

    async def _make(self, connection: Connection, wanted: Declared, name: str, is_server_named: bool) -> Queue:
        declaring, settings = self._broker.declaring, self._settings(connection, wanted, name, is_server_named)
        if wanted.is_durable and not wanted.is_exclusive:
            return await declaring.declare(settings, (DEFAULT_GROUP,), declared=record_of(wanted))
        owner = connection if wanted.is_exclusive else None
        queue = declaring.declare_volatile(settings, (DEFAULT_GROUP,), owner=owner, declared=record_of(wanted))
        if wanted.is_exclusive:
            connection.exclusive[name] = None
        return queue

    def _settings(self, connection: Connection, wanted: Declared, name: str, is_server_named: bool) -> QueueSettings:
        """Those of clients that say the same are worked out once, where no template goes by names."""
        declaring, namespace = self._broker.declaring, connection.namespace
        said = namespace, repr(wanted.arguments)
        known = None if declaring.templates else self._known.get(said)
        if known is not None:
            (check_queue_name if is_server_named else check_own_queue_name)(name)
            return msgspec.structs.replace(known, name=name)
        explicit = {"name": name, "namespace": namespace, **queue_settings(wanted)}
        settings = declaring.settings_for(name, explicit, is_server_named=is_server_named)
        if not declaring.templates and len(said[1]) <= _KNOWN_BYTES:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[said] = settings
        return settings

    # Bindings

    async def _bind(self, connection: Connection, channel: Channel, method: m.QueueBind) -> None:
        name = self._queues.named(channel, method.queue, BIND)
        key = method.routing_key or ("" if method.queue else name)
        require_queue(connection, channel, WRITE, name, BIND)
        require_exchange(connection, channel, READ, method.exchange, BIND)
        if method.exchange == DEFAULT_EXCHANGE:
            raise AmqpError(Fault.DEFAULT_EXCHANGE, channel.number, BIND)
        space = self._broker.exchanges.of(connection.namespace)
        if method.exchange not in space:
            what = named("exchange", method.exchange, connection.vhost)
            raise AmqpError(Fault.MISSING, channel.number, BIND, what=what)
        self._queues.found(connection, channel, name, BIND)
        kind = space.find(method.exchange).type
        if kind == TOPIC_TYPE:
            require_key(connection, channel, method.exchange, key, BIND)
        check_binding(kind, key, method.arguments, channel.number, BIND)
        await self._broker.exchanges.bind(
            connection.namespace, method.exchange, Destination("queue", name), key, values_of(method.arguments)
        )
        if not method.nowait:
            connection.send(channel.number, m.QueueBindOk())

    async def _unbind(self, connection: Connection, channel: Channel, method: m.QueueUnbind) -> None:
        name = self._queues.named(channel, method.queue, UNBIND)
        key = method.routing_key or ("" if method.queue else name)
        require_queue(connection, channel, WRITE, name, UNBIND)
        require_exchange(connection, channel, READ, method.exchange, UNBIND)
        if method.exchange == DEFAULT_EXCHANGE:
            raise AmqpError(Fault.DEFAULT_EXCHANGE, channel.number, UNBIND)
        with suppress(NoSuchBinding, NoSuchExchange, NoSuchQueue):  # it is gone, which is what was asked for
            await self._broker.exchanges.unbind(
                connection.namespace, method.exchange, Destination("queue", name), key, values_of(method.arguments)
            )
        connection.send(channel.number, m.QueueUnbindOk())

    # Messages and all

    async def _purge(self, connection: Connection, channel: Channel, method: m.QueuePurge) -> None:
        queue = self._queues.to_read(connection, channel, method.queue, PURGE)
        if declaration(queue).type == STREAM:
            what = named("queue", queue.name, connection.vhost)
            raise AmqpError(Fault.STREAM_PURGE, channel.number, PURGE, what=what)
        purged = await self._broker.settling.purge_ready(await self._queues.group(queue))
        if not method.nowait:
            connection.send(channel.number, m.QueuePurgeOk(purged.done))

    async def _delete(self, connection: Connection, channel: Channel, method: m.QueueDelete) -> None:
        name = self._queues.named(channel, method.queue, DELETE)
        require_queue(connection, channel, CONFIGURE, name, DELETE)
        count = 0
        if (queue := self._queues.known(connection, name)) is not None:
            self._queues.refuse_locked(connection, channel, queue, DELETE)
            count, what = self._queues.ready(queue), named("queue", name, connection.vhost)
            if method.if_unused and self._queues.consumers(queue):
                raise AmqpError(Fault.IN_USE, channel.number, DELETE, what=what)
            if method.if_empty and count:
                raise AmqpError(Fault.NOT_EMPTY, channel.number, DELETE, what=what)
            try:
                await self._queues.delete(queue)
            except NoSuchQueue:
                count = 0  # somebody else was quicker
            connection.exclusive.pop(name, None)
        if not method.nowait:
            connection.send(channel.number, m.QueueDeleteOk(count))
