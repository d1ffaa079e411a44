"""basic.qos, consume, cancel, get and recover."""

from __future__ import annotations

import secrets
from time import monotonic

from penstock.broker.broker import Broker
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.queues.group import Group
from penstock.codecs.amqp091 import methods as m
from penstock.codecs.amqp091.errors import AmqpError, Fault, named, type_name
from penstock.codecs.amqp091.kinds import Table
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.consumer import Consumer
from penstock.gateways.amqp091.delivery_frames import DeliveryFrames
from penstock.gateways.amqp091.options import CurrentOptions
from penstock.gateways.amqp091.queues import SINGLE_ACTIVE, Queues, declaration
from penstock.gateways.amqp091.replies import REPLY_QUEUE, Replies
from penstock.gateways.amqp091.routes import Routes
from penstock.kernels.amqp_deliver import get_answers
from penstock.queues.rabbit_arguments import QUORUM, STREAM, Declared, is_on

CONSUME, GET, QOS, RECOVER = (60, 20), (60, 70), (60, 10), (60, 110)
_CANCEL_NOTIFY = "consumer_cancel_notify"
_INTEGERS = "bBsuIilL"


class Consuming:
    """For all connections."""

    def __init__(
        self, broker: Broker, queues: Queues, replies: Replies, routes: Routes, options: CurrentOptions
    ) -> None:
        self._broker, self._queues, self._replies, self._routes = broker, queues, replies, routes
        self._options = options

    async def take(self, connection: Connection, channel: Channel, method: m.Method) -> None:
        match method:
            case m.BasicQos():
                self._qos(connection, channel, method)
            case m.BasicConsume():
                await self._consume(connection, channel, method)
            case m.BasicCancel():
                self._cancel(connection, channel, method)
            case m.BasicGet():
                await self._get(connection, channel, method)
            case m.BasicRecover() | m.BasicRecoverAsync():
                self._recover(connection, channel, method)

    def close(self, connection: Connection, channel: Channel) -> None:
        """The channel is going."""
        self._replies.cancel(channel)

    # Prefetch

    def _qos(self, connection: Connection, channel: Channel, method: m.BasicQos) -> None:
        if method.prefetch_size:
            raise AmqpError(Fault.PREFETCH_SIZE, channel.number, QOS, size=method.prefetch_size)
        if method.is_global:
            channel.limit = method.prefetch_count
            channel.pump()
        else:
            channel.prefetch = method.prefetch_count
        connection.send(channel.number, m.BasicQosOk())

    # Consumers

    async def _consume(self, connection: Connection, channel: Channel, method: m.BasicConsume) -> None:
        tag = method.consumer_tag or f"amq.ctag-{secrets.token_urlsafe(16)}"
        if tag in channel.consumers or (channel.reply is not None and channel.reply.tag == tag):
            raise AmqpError(Fault.TAG_IN_USE, 0, CONSUME, tag=tag)
        if method.queue == REPLY_QUEUE:
            self._consume_replies(connection, channel, method, tag)
            return
        queue = self._queues.to_read(connection, channel, method.queue, CONSUME)
        what, declared = named("queue", queue.name, connection.vhost), declaration(queue)
        self._refuse_consumer(channel, method, declared, what)
        if len(channel.consumers) >= self._options.now.max_consumers_per_channel:
            detail = f"a channel has at most {self._options.now.max_consumers_per_channel} consumers"
            raise AmqpError(Fault.PRECONDITION, channel.number, CONSUME, detail=detail)
        priority = _integer(method.arguments, "x-priority", what, channel)
        if declared.type == STREAM:
            group = await self._queues.reading(queue, method.arguments)
        else:
            group = await self._queues.group(queue)
        prefetch = 0 if method.no_ack else channel.prefetch
        competitor = self._broker.compete(group, prefetch, priority=priority, is_exclusive=method.exclusive)
        competitor.name = connection.name
        if not method.nowait:
            connection.send(channel.number, m.BasicConsumeOk(tag))
        owner = _Owner(connection, channel, self._queues)
        frame_max = connection.frame_max
        made = Consumer(
            self._broker, channel, connection.outbox, competitor, tag, frame_max, method.no_ack, self._routes, owner
        )
        channel.consumers[tag] = made

    def _refuse_consumer(self, channel: Channel, method: m.BasicConsume, declared: Declared, what: str) -> None:
        """What a queue of its type does not do."""
        if declared.type == QUORUM and channel.limit:
            raise AmqpError(Fault.GLOBAL_QOS, channel.number, CONSUME, what=what)
        if declared.type == STREAM:
            if method.no_ack:
                raise AmqpError(Fault.STREAM_NO_ACK, channel.number, CONSUME, what=what)
            if not channel.prefetch:
                raise AmqpError(Fault.STREAM_PREFETCH, channel.number, CONSUME, what=what)
        if method.exclusive and is_on(declared.arguments, SINGLE_ACTIVE):
            raise AmqpError(Fault.EXCLUSIVE_CONSUMER, channel.number, CONSUME, what=what)

    def _consume_replies(self, connection: Connection, channel: Channel, method: m.BasicConsume, tag: str) -> None:
        if not method.no_ack:
            raise AmqpError(Fault.REPLY_NO_ACK, channel.number, CONSUME)
        if channel.reply is not None:
            raise AmqpError(Fault.REPLY_AGAIN, channel.number, CONSUME)
        self._replies.consume(connection, channel, tag)
        if not method.nowait:
            connection.send(channel.number, m.BasicConsumeOk(tag))

    def _cancel(self, connection: Connection, channel: Channel, method: m.BasicCancel) -> None:
        tag = method.consumer_tag
        if channel.reply is not None and channel.reply.tag == tag:
            self._replies.cancel(channel)
        consumer = channel.consumers.pop(tag, None)
        if isinstance(consumer, Consumer):
            consumer.cancel()
            channel.retired[consumer] = None
            channel.settled()
        if not method.nowait:
            connection.send(channel.number, m.BasicCancelOk(tag))

    # One by one

    async def _get(self, connection: Connection, channel: Channel, method: m.BasicGet) -> None:
        queue = self._queues.to_read(connection, channel, method.queue, GET)
        what, declared = named("queue", queue.name, connection.vhost), declaration(queue)
        if declared.type == STREAM:
            raise AmqpError(Fault.STREAM_GET, channel.number, GET, what=what)
        if declared.type == QUORUM and is_on(declared.arguments, SINGLE_ACTIVE):
            raise AmqpError(Fault.LOCKED_GET, channel.number, GET, what=what)
        group = await self._queues.group(queue)
        found = self._broker.take_one(group, channel.session)
        delivery = found if found is None or isinstance(found, Delivery) else await found
        if delivery is None:
            connection.send(channel.number, m.BasicGetEmpty())
        elif channel.is_open:
            self._send_got(connection, channel, group, delivery, method.no_ack)
        else:
            self._broker.settling.release(Held(delivery))

    def _send_got(
        self, connection: Connection, channel: Channel, group: Group, delivery: Delivery, no_ack: bool
    ) -> None:
        encoder = get_answers(channel.number, group.ready(), connection.frame_max)
        data = DeliveryFrames(encoder, self._routes, self._broker.timeline).encode(delivery, channel.tags.next)
        if not data:
            self._broker.settling.reject(Held(delivery), "its properties are longer than the consumer's frames")
            connection.send(channel.number, m.BasicGetEmpty())
            return
        if no_ack:
            channel.tags.skip(1)
            self._broker.settling.ack(Held(delivery), is_awaited=False)
        else:
            channel.tags.add(delivery, None, monotonic())
        connection.outbox.write(data)

    def _recover(self, connection: Connection, channel: Channel, method: m.BasicRecover | m.BasicRecoverAsync) -> None:
        if not method.requeue:
            raise AmqpError(Fault.RECOVER, channel.number, (method.class_id, method.method_id))
        channel.requeue()
        if isinstance(method, m.BasicRecover):
            connection.send(channel.number, m.BasicRecoverOk())


class _Owner:
    """Of a consumer: the client hears that its queue is gone."""

    def __init__(self, connection: Connection, channel: Channel, queues: Queues) -> None:
        self._connection, self._channel, self._queues = connection, channel, queues

    def left(self, consumer: Consumer) -> None:
        self._queues.left(consumer.competitor.group)

    def dismissed(self, consumer: Consumer) -> None:
        channel, connection = self._channel, self._connection
        if channel.consumers.pop(consumer.tag, None) is None:
            return
        channel.tags.drop(consumer)
        consumer.leave()
        if channel.is_open and connection.is_open and _CANCEL_NOTIFY in connection.capabilities:
            connection.send(channel.number, m.BasicCancel(consumer.tag, True))

    def broke(self, consumer: Consumer, error: BaseException) -> None:
        self._connection.broke(error, self._channel.number)


def _integer(arguments: Table, name: str, what: str, channel: Channel) -> int:
    field = arguments.get(name)
    if field is None:
        return 0
    if field.kind not in _INTEGERS or not isinstance(field.value, int):
        reason = f'"expected integer, got {type_name(field)}"'
        raise AmqpError(Fault.INVALID_ARG, channel.number, CONSUME, arg=name, what=what, reason=reason)
    return field.value
