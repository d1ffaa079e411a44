"""RabbitMQ's configure, write and read as rights of the broker."""

from __future__ import annotations

from penstock.codecs.amqp091.errors import AmqpError, Fault, named
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.connection import Connection
from penstock.queues.exchange_topics import exchange_topic

At = tuple[int, int]


class Rights:
    """AmqpError where the client may not."""

    def configure_exchange(self, connection: Connection, channel: Channel, name: str, at: At) -> None:
        if not connection.permissions.may_configure(exchange_topic(name, b"").decode()):
            _refuse(connection, channel, "exchange", name, at)

    def write_exchange(self, connection: Connection, channel: Channel, name: str, at: At) -> None:
        """Messages may be sent to it."""
        if not connection.permissions.may_publish(exchange_topic(name, b"")):
            _refuse(connection, channel, "exchange", name, at)

    def read_exchange(self, connection: Connection, channel: Channel, name: str, at: At) -> None:
        """Messages may be had of it: who may declare it, or what is published to it may be received."""
        topic = exchange_topic(name, b"").decode()
        permissions = connection.permissions
        if not permissions.may_receive(topic.encode()) and not permissions.may_configure(topic):
            _refuse(connection, channel, "exchange", name, at)

    def configure_queue(self, connection: Connection, channel: Channel, name: str, at: At) -> None:
        if not connection.permissions.may_configure(f"$queue/{name}"):
            _refuse(connection, channel, "queue", name, at)

    def write_queue(self, connection: Connection, channel: Channel, name: str, at: At) -> None:
        if not connection.permissions.may_publish(f"$queue/{name}".encode()):
            _refuse(connection, channel, "queue", name, at)

    def read_queue(self, connection: Connection, channel: Channel, name: str, at: At) -> None:
        if not connection.permissions.may_consume(name):
            _refuse(connection, channel, "queue", name, at)


def _refuse(connection: Connection, channel: Channel, kind: str, name: str, at: At) -> None:
    what = named(kind, name or "amq.default", connection.vhost)
    raise AmqpError(Fault.REFUSED, channel.number, at, what=what, user=connection.user)
