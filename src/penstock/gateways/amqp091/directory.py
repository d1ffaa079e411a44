"""Clients of this gateway as operators see them."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic, time

from penstock.broker.clients import ChannelDescription, ClientDescription, ClientTally, SubscriptionDescription
from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.connections import PROTOCOL, Connections
from penstock.gateways.amqp091.consumer import Consumer

_REASON_CHARACTERS = 100


class AmqpDirectory:
    """`broker.clients.ClientDirectory`. A connection is named by what its client says, and by its number: a client may
    have several."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def clients(self) -> Iterator[ClientDescription]:
        return map(_described, self._open())

    def tallies(self) -> Iterator[ClientTally]:
        for connection in self._open():
            yield ClientTally(connection.namespace, True, sum(1 for _ in _consumers(connection)))

    def client(self, namespace: str, client_id: str) -> ClientDescription | None:
        found = self._find(namespace, client_id)
        return None if found is None else _described(found)

    async def disconnect(self, namespace: str, client_id: str, reason: str) -> bool:
        found = self._find(namespace, client_id)
        if found is None:
            return False
        said = "".join(filter(str.isprintable, reason))[:_REASON_CHARACTERS]
        found.fail(AmqpError(Fault.FORCED, 0, reason=said or "closed by an operator"))
        return True

    def subscriptions(self) -> Iterator[SubscriptionDescription]:
        for connection in self._open():
            for consumer in _consumers(connection):
                group = consumer.competitor.group
                yield SubscriptionDescription(
                    client_id=client_id_of(connection),
                    namespace=connection.namespace,
                    filter=consumer.tag,
                    qos=0 if consumer.needs_no_ack else 1,
                    queue=group.queue.name,
                    group=group.name,
                )

    def channels(self) -> Iterator[ChannelDescription]:
        for connection in self._open():
            for channel in list(connection.channels.values()):
                yield ChannelDescription(
                    client_id_of(connection),
                    connection.namespace,
                    connection.user,
                    channel.number,
                    consumers=len(channel.consumers),
                    unacknowledged=len(channel.tags),
                    unconfirmed=channel.under_way if channel.confirms is not None else 0,
                    prefetch=channel.prefetch,
                    is_confirming=channel.confirms is not None,
                    is_transactional=channel.transaction is not None,
                )

    def _open(self) -> Iterator[Connection]:
        return iter([connection for connection in self._connections if connection.is_open])

    def _find(self, namespace: str, client_id: str) -> Connection | None:
        wanted = (each for each in self._open() if (each.namespace, client_id_of(each)) == (namespace, client_id))
        return next(wanted, None)


def client_id_of(connection: Connection) -> str:
    return f"{connection.name}#{connection.number}"


def _consumers(connection: Connection) -> Iterator[Consumer]:
    for channel in list(connection.channels.values()):
        for consumer in list(channel.consumers.values()):
            if isinstance(consumer, Consumer):
                yield consumer


def _described(connection: Connection) -> ClientDescription:
    return ClientDescription(
        client_id=client_id_of(connection),
        namespace=connection.namespace,
        user=connection.user,
        protocol=PROTOCOL,
        listener=connection.facts.name,
        peer=connection.peer,
        is_connected=True,
        connected_ms=round(1000 * (time() - (monotonic() - connection.opened_s))),
        keep_alive_s=round(connection.heartbeat_s),
        session_expiry_s=0,
        subscriptions=sum(1 for _ in _consumers(connection)),
        queued=0,
        in_flight=sum([len(channel.tags) for channel in connection.channels.values()]),
        received=connection.received,
        sent=connection.sent,
    )
