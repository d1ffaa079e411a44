"""RabbitMQ's configure, write and read as rights of the broker."""

from __future__ import annotations

from penstock.broker.auth.rules import Action
from penstock.codecs.amqp091.errors import AmqpError, Fault, named
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.connection import Connection

At = tuple[int, int]
CONFIGURE, WRITE, READ = Action.CONFIGURE, Action.PUBLISH, Action.CONSUME


def require_exchange(connection: Connection, channel: Channel, action: Action, name: str, at: At) -> None:
    """AmqpError where the client may not."""
    if not connection.permissions.may_with_exchange(action, name):
        _refuse(connection, channel, "exchange", name or "amq.default", at)


def require_queue(connection: Connection, channel: Channel, action: Action, name: str, at: At) -> None:
    """The same of a queue."""
    if not connection.permissions.may_with_queue(action, name):
        _refuse(connection, channel, "queue", name, at)


def require_key(connection: Connection, channel: Channel, exchange: str, key: str, at: At) -> None:
    """Of a binding to an exchange that the client may read."""
    if not connection.permissions.may_with_exchange(READ, exchange, key.encode()):
        what = named("exchange", exchange, connection.vhost)
        raise AmqpError(Fault.TOPIC_REFUSED, channel.number, at, topic=key, what=what, user=connection.user)


def _refuse(connection: Connection, channel: Channel, kind: str, name: str, at: At) -> None:
    what = named(kind, name, connection.vhost)
    raise AmqpError(Fault.REFUSED, channel.number, at, what=what, user=connection.user)
