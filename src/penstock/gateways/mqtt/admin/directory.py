"""Clients of this gateway as operators see them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from time import monotonic

from penstock.broker.broker import Broker
from penstock.broker.clients import ClientDescription, ClientTally, SubscriptionDescription
from penstock.broker.sessions.records import Subscription as StoredSubscription
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.codecs.mqtt.text import parse_shared
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.connections import PROTOCOLS
from penstock.gateways.mqtt.sessions.login import KEEP_ALIVE_GRACE
from penstock.gateways.mqtt.sessions.queue_subscriptions import Terms
from penstock.gateways.mqtt.sessions.registry import Registry
from penstock.gateways.mqtt.sessions.session import Session
from penstock.queues.names import default_group, subscription_address

logger = logging.getLogger("penstock.mqtt")

_QOS = 3
# Of what an operator says to a client.
_REASON_CHARACTERS = 100


class MqttDirectory:
    """`broker.clients.ClientDirectory`."""

    def __init__(self, registry: Registry, broker: Broker) -> None:
        self._registry, self._broker = registry, broker

    def clients(self) -> Iterator[ClientDescription]:
        return map(self._described, self._registry)

    def tallies(self) -> Iterator[ClientTally]:
        return map(self._tally, self._registry)

    def client(self, namespace: str, client_id: str) -> ClientDescription | None:
        session = self._registry.find(namespace, client_id)
        return None if session is None else self._described(session)

    async def disconnect(self, namespace: str, client_id: str, reason: str) -> bool:
        said = "".join(filter(str.isprintable, reason))[:_REASON_CHARACTERS]
        is_gone = await self._registry.put_out(namespace, client_id, ReasonCode.ADMINISTRATIVE_ACTION, said)
        if is_gone:
            logger.info("client disconnected by an operator namespace=%s client=%s", namespace, client_id)
        return is_gone

    def subscriptions(self) -> Iterator[SubscriptionDescription]:
        for session in self._registry:
            yield from _topics(session)
            yield from self._queues(session)

    def _described(self, session: Session) -> ClientDescription:
        connection, stored = self._registry.connection(session), session.stored
        if connection is not None:
            return self._connected(session, connection)
        return ClientDescription(
            client_id=session.client_id,
            namespace=session.namespace,
            user="" if stored is None else stored.owner,
            protocol=None,
            listener=None,
            peer=None,
            is_connected=False,
            connected_ms=None,
            keep_alive_s=None,
            session_expiry_s=session.expiry_s,
            subscriptions=0 if stored is None else len(stored.subscriptions),
            queued=0 if stored is None else stored.queued,
            in_flight=0,
            received=0,
            sent=0,
        )

    def _connected(self, session: Session, connection: Connection) -> ClientDescription:
        waiting = len(connection.sender.backlog)
        opened_s = monotonic() - connection.opened_s
        return ClientDescription(
            client_id=session.client_id,
            namespace=session.namespace,
            user=connection.identity.name,
            protocol=PROTOCOLS[session.version],
            listener=connection.facts.name,
            peer=connection.peer,
            is_connected=True,
            connected_ms=self._broker.wall() - round(1000 * opened_s),
            keep_alive_s=round(connection.keep_alive_s / KEEP_ALIVE_GRACE),
            session_expiry_s=session.expiry_s,
            subscriptions=len(session.subscriptions) + len(connection.deliveries.consumers),
            queued=waiting if session.stored is None else waiting + session.stored.queued,
            in_flight=len(session.outgoing),
            received=connection.received,
            sent=connection.sender.sent,
        )

    def _queues(self, session: Session) -> Iterator[SubscriptionDescription]:
        if (connection := self._registry.connection(session)) is not None:
            yield from _consumed(session, connection)
        elif session.stored is not None:
            for filter, stored in session.stored.subscriptions.items():
                if filter not in session.subscriptions:
                    yield self._to_come(session, filter, stored)

    def _tally(self, session: Session) -> ClientTally:
        connection, stored = self._registry.connection(session), session.stored
        if connection is None:
            return ClientTally(session.namespace, False, 0 if stored is None else len(stored.subscriptions))
        return ClientTally(session.namespace, True, len(session.subscriptions) + len(connection.deliveries.consumers))

    def _to_come(self, session: Session, filter: str, stored: StoredSubscription) -> SubscriptionDescription:
        """To a queue, by a client that is away: it consumes when it comes back."""
        shared, terms = parse_shared(filter), Terms.decoded(stored.extra)
        address = subscription_address(filter if shared is None else shared.filter)
        declaring = self._broker.declaring
        share = None if shared is None else shared.group
        return SubscriptionDescription(
            client_id=session.client_id,
            namespace=session.namespace,
            filter=filter,
            qos=stored.options & _QOS,
            share=share,
            queue=None if address is None else declaring.queue_of(address, session.namespace),
            group=share or terms.group or default_group(session.client_id),
        )


def _topics(session: Session) -> Iterator[SubscriptionDescription]:
    for subscription in list(session.subscriptions.values()):
        yield SubscriptionDescription(
            client_id=session.client_id,
            namespace=session.namespace,
            filter=subscription.filter,
            qos=subscription.qos,
            share=subscription.share,
        )


def _consumed(session: Session, connection: Connection) -> Iterator[SubscriptionDescription]:
    for filter, consumer in list(connection.deliveries.consumers.items()):
        shared = parse_shared(filter)
        yield SubscriptionDescription(
            client_id=session.client_id,
            namespace=session.namespace,
            filter=filter,
            qos=consumer.qos,
            share=None if shared is None else shared.group,
            queue=consumer.queue.name,
            group=str(consumer.group.key),
        )
