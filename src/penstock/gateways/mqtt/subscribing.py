"""SUBSCRIBE and UNSUBSCRIBE: topics, queues, shared subscriptions, and what is retained."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.broker.sessions.records import Subscription as StoredSubscription
from penstock.codecs.mqtt.errors import ProtocolError
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import RetainHandling, SubAck, Subscribe, UnsubAck, Unsubscribe
from penstock.codecs.mqtt.packets import Subscription as Wanted
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.codecs.mqtt.text import parse_shared
from penstock.core.errors import ErrorCode, NoSuchQueue, PenstockError
from penstock.gateways.mqtt.queue_subscriptions import Terms, consume, is_durable_share
from penstock.gateways.mqtt.subscription import Subscription
from penstock.queues.names import queue_address, subscription_address

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection
    from penstock.gateways.mqtt.consuming import QueueConsumer

logger = logging.getLogger("penstock.mqtt")

_GRANTED = (ReasonCode.SUCCESS, ReasonCode.GRANTED_QOS_1, ReasonCode.GRANTED_QOS_2)
_REASONS = {
    ErrorCode.NO_SUCH_QUEUE: ReasonCode.TOPIC_FILTER_INVALID,
    ErrorCode.INVALID_ARGUMENT: ReasonCode.TOPIC_FILTER_INVALID,
    ErrorCode.INVALID_SETTING: ReasonCode.TOPIC_FILTER_INVALID,
    ErrorCode.NOT_AUTHORISED: ReasonCode.NOT_AUTHORIZED,
    ErrorCode.DISK_LOW: ReasonCode.QUOTA_EXCEEDED,
}


async def subscribe(connection: Connection, packet: Subscribe) -> None:
    """SUBACK, then what is retained."""
    identifiers = packet.properties.subscription_identifiers
    identifier = identifiers[0] if identifiers else None
    reasons: list[ReasonCode] = []
    retained: list[Subscription] = []
    stored: dict[str, StoredSubscription] = {}
    for wanted in packet.subscriptions:
        try:
            reasons.append(await _subscribe(connection, wanted, identifier, packet.properties, stored, retained))
        except PenstockError as error:
            connection.gateway.tell_refusal(connection, "subscription", error)
            reasons.append(_REASONS.get(error.code, ReasonCode.UNSPECIFIED_ERROR))
    session = connection.session
    if stored and session.stored is not None:
        await connection.gateway.sessions.subscribe(session.stored, stored)
    connection.send(SubAck(packet.packet_id, tuple(reasons)))
    for subscription in retained:
        await connection.gateway.retained_messages.send(connection, subscription)


async def _subscribe(
    connection: Connection,
    wanted: Wanted,
    identifier: int | None,
    properties: Properties,
    stored: dict[str, StoredSubscription],
    retained: list[Subscription],
) -> ReasonCode:
    if connection.is_ended:
        # While a filter before it was waited for; nobody would end this subscription.
        return ReasonCode.UNSPECIFIED_ERROR
    refusal = _refusal(connection, wanted)
    if refusal is not None:
        return refusal
    qos = min(wanted.qos, connection.gateway.options.maximum_qos)
    shared = parse_shared(wanted.filter)
    topic_filter = wanted.filter if shared is None else shared.filter
    record = StoredSubscription(_options_byte(wanted, qos), identifier or 0, b"")
    if (terms := _queue_terms(connection, topic_filter, shared is not None, properties)) is not None:
        if connection.session.is_stored:
            # A client that comes back may hold an identifier whose message went back to its group: used again, the next
            # message would pass for the same one.
            qos = min(qos, 1)
            record = record._replace(options=_options_byte(wanted, qos))
        await consume(connection, wanted.filter, qos, terms)
        _end_before(connection, connection.session.subscriptions.pop(wanted.filter, None), None)
        stored[wanted.filter] = record._replace(extra=terms.encoded())
        return _GRANTED[qos]
    session = connection.session
    before = session.subscriptions.get(wanted.filter)
    subscription = Subscription(
        session,
        wanted.filter,
        topic_filter,
        None if shared is None else shared.group,
        qos,
        wanted.no_local,
        wanted.retain_as_published,
        identifier,
    )
    router = connection.gateway.router(session.namespace)
    _end_before(connection, before, connection.deliveries.consumers.pop(wanted.filter, None))
    router.add(subscription)
    session.subscriptions[wanted.filter] = subscription
    stored[wanted.filter] = record
    handling = wanted.retain_handling
    is_asked = handling is RetainHandling.SEND or (handling is RetainHandling.SEND_IF_NEW and before is None)
    if shared is None and is_asked:
        retained.append(subscription)
    return _GRANTED[qos]


def _queue_terms(connection: Connection, topic_filter: str, is_shared: bool, properties: Properties) -> Terms | None:
    """None for a subscription to topics."""
    if queue_address(topic_filter) is not None:
        return Terms.of(properties, is_durable=False)
    durable_shares = connection.gateway.options.durable_shares
    if is_shared and is_durable_share(topic_filter, properties, durable_shares):
        return Terms.of(properties, is_durable=True)
    return None


def _end_before(connection: Connection, topics: Subscription | None, queue: QueueConsumer | None) -> None:
    """The same filter, subscribed to before on other terms."""
    if topics is not None:
        connection.gateway.router(connection.session.namespace).remove(topics)
    if queue is not None:
        queue.close()


def _refusal(connection: Connection, wanted: Wanted) -> ReasonCode | None:
    taken = connection.rates.subscriptions.take(1)
    if not taken.allowed:
        connection.gateway.counters.throttled["subscription-rate"] += 1
        return ReasonCode.QUOTA_EXCEEDED
    known = connection.session.subscriptions.keys() | connection.deliveries.consumers.keys()
    if len(known) >= connection.gateway.options.max_subscriptions and wanted.filter not in known:
        return ReasonCode.QUOTA_EXCEEDED
    shared = parse_shared(wanted.filter)
    if shared is not None and wanted.no_local:
        raise ProtocolError("a shared subscription is never without what is local", version=connection.version)
    return None if _is_allowed(connection, wanted.filter) else ReasonCode.NOT_AUTHORIZED


def _is_allowed(connection: Connection, filter: str) -> bool:
    """Whoever may consume a queue may do so through any filter; one that is not there yet has to be allowed by name."""
    shared = parse_shared(filter)
    address = subscription_address(filter if shared is None else shared.filter)
    if address is not None:
        queue = connection.gateway.broker.declaring.queue_of(address, connection.session.namespace)
        if queue is not None:
            return connection.permissions.may_consume(queue)
    return connection.permissions.may_subscribe(filter)


async def drop_forbidden(connection: Connection) -> bool:
    """Subscriptions that rules of now do not allow; whether there were any."""
    stored = connection.session.stored
    filters = dict.fromkeys([*connection.session.subscriptions, *connection.deliveries.consumers])
    filters |= dict.fromkeys(stored.subscriptions if stored is not None else ())
    gone = [filter for filter in filters if not _is_allowed(connection, filter)]
    if gone:
        logger.info("subscriptions ended by a rule client=%s count=%d", connection.name, len(gone))
        await _drop(connection, gone)
    return bool(gone)


def _options_byte(wanted: Wanted, qos: int) -> int:
    return qos | wanted.no_local << 2 | wanted.retain_as_published << 3 | wanted.retain_handling << 4


async def unsubscribe(connection: Connection, packet: Unsubscribe) -> None:
    reasons = await _drop(connection, packet.filters)
    version = connection.session.version
    connection.send(UnsubAck(packet.packet_id, tuple(reasons) if version is Version.V5 else ()))


async def _drop(connection: Connection, filters: Iterable[str]) -> list[ReasonCode]:
    session = connection.session
    router = connection.gateway.router(session.namespace)
    reasons: list[ReasonCode] = []
    gone: list[str] = []
    for filter in filters:
        subscription = session.subscriptions.pop(filter, None)
        consumer = connection.deliveries.consumers.pop(filter, None)
        if subscription is not None:
            router.remove(subscription)
        if consumer is not None:
            consumer.close()
        is_stored = session.stored is not None and filter in session.stored.subscriptions
        is_known = subscription is not None or consumer is not None or is_stored
        reasons.append(ReasonCode.SUCCESS if is_known else ReasonCode.NO_SUBSCRIPTION_EXISTED)
        if is_known:
            gone.append(filter)
    if gone and session.stored is not None:
        await connection.gateway.sessions.unsubscribe(session.stored, gone)
    return reasons


async def end_dismissed(connection: Connection, consumer: QueueConsumer) -> None:
    """Its queue or group was deleted, and its subscription goes with it. A server cannot end one subscription so that
    the client knows, and a client that is not told would wait for ever: so the connection ends."""
    filters = [filter for filter, each in connection.deliveries.consumers.items() if each is consumer]
    await _drop(connection, filters)
    queue = f"queue {consumer.queue.name!r}"
    gone = queue if consumer.queue.is_deleted else f"group {consumer.group.name!r} of {queue}"
    _tell_deleted(connection, f"{gone} was deleted")


def _tell_deleted(connection: Connection, detail: str) -> None:
    logger.info("consumer put out client=%s reason=%s", connection.name, detail)
    connection.disconnect(ReasonCode.ADMINISTRATIVE_ACTION, detail)


async def resubscribe(connection: Connection, subscriptions: Mapping[str, StoredSubscription]) -> None:
    """A session goes on: it consumes the queues that it consumed before."""
    for filter, stored in list(subscriptions.items()):
        shared = parse_shared(filter)
        topic_filter = filter if shared is None else shared.filter
        if not stored.extra and queue_address(topic_filter) is None:
            continue
        try:
            await consume(connection, filter, stored.options & 3, Terms.decoded(stored.extra))
        except NoSuchQueue as error:
            await _drop(connection, [filter])
            _tell_deleted(connection, str(error))
        except PenstockError as error:
            logger.warning("queue not consumed again client=%s filter=%s error=%s", connection.name, filter, error)
