"""SUBSCRIBE and UNSUBSCRIBE: topics, queues, shared subscriptions, and what is retained."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from penstock.broker.broker import Broker
from penstock.broker.queues.queue import Queue
from penstock.broker.sessions.records import Subscription as StoredSubscription
from penstock.broker.topics.subscriptions import Subscription
from penstock.broker.topics.topics import Topics
from penstock.codecs.mqtt.errors import ProtocolError
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import RetainHandling, SubAck, Subscribe, UnsubAck, Unsubscribe
from penstock.codecs.mqtt.packets import Subscription as Wanted
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.codecs.mqtt.text import parse_shared
from penstock.core.errors import ErrorCode, NoSuchQueue, PenstockError
from penstock.gateways.background import Background
from penstock.gateways.mqtt.admin.reports import Reports
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.inbound.answers import Refused, Told, created
from penstock.gateways.mqtt.options import CurrentOptions
from penstock.gateways.mqtt.outbound.queue_consumer import QueueConsumer
from penstock.gateways.mqtt.outbound.retained import RetainedMessages
from penstock.gateways.mqtt.sessions.queue_subscriptions import (
    QueueSubscriptions,
    Terms,
    is_durable_share,
    refuse_misspelt,
)
from penstock.gateways.mqtt.sessions.session import filter_bytes
from penstock.gateways.wire.budget import Budget
from penstock.queues.names import queue_address, subscription_address

logger = logging.getLogger("penstock.mqtt")

# A filter takes about 50 us: others get their turn after some.
_FILTERS_AT_ONCE = 250
_SHOWN_CHARACTERS = 100
_GRANTED = (ReasonCode.SUCCESS, ReasonCode.GRANTED_QOS_1, ReasonCode.GRANTED_QOS_2)
_REASONS = {
    ErrorCode.NO_SUCH_QUEUE: ReasonCode.TOPIC_FILTER_INVALID,
    ErrorCode.INVALID_ARGUMENT: ReasonCode.TOPIC_FILTER_INVALID,
    ErrorCode.INVALID_SETTING: ReasonCode.TOPIC_FILTER_INVALID,
    ErrorCode.NOT_AUTHORISED: ReasonCode.NOT_AUTHORIZED,
    ErrorCode.GROUP_IN_USE: ReasonCode.NOT_AUTHORIZED,
    ErrorCode.DISK_LOW: ReasonCode.QUOTA_EXCEEDED,
}


class Subscriptions:
    """Of all connections; `names` is the budget of topic filters."""

    def __init__(
        self,
        broker: Broker,
        topics: Topics,
        options: CurrentOptions,
        names: Budget,
        reports: Reports,
        background: Background,
    ) -> None:
        self._broker, self._topics, self._options, self._names, self._reports = broker, topics, options, names, reports
        self._queues = QueueSubscriptions(broker, background, reports.telling, self._end_dismissed)
        self._retained = RetainedMessages(broker, topics, options, background)

    async def subscribe(self, connection: Connection, packet: Subscribe) -> None:
        """SUBACK, then what is retained."""
        connection.refuse_unless_fitting(SubAck(packet.packet_id, _GRANTED[:1] * len(packet.subscriptions)))
        identifiers = packet.properties.subscription_identifiers
        identifier = identifiers[0] if identifiers else None
        reasons: list[ReasonCode] = []
        retained: list[Subscription] = []
        stored: dict[str, StoredSubscription] = {}
        first: Refused | None = None
        made: list[Queue] = []
        for number, wanted in enumerate(packet.subscriptions, 1):
            if number % _FILTERS_AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                found = await self._subscribe(connection, wanted, identifier, packet.properties, stored, retained, made)
            except PenstockError as error:
                self._reports.refused(connection.name, "subscription", error)
                found = Refused(_REASONS.get(error.code, ReasonCode.UNSPECIFIED_ERROR), str(error))
            if isinstance(found, Refused):
                first = first or found._replace(detail=f"{_shortened(wanted.filter)}: {found.detail}")
                found = found.reason
            reasons.append(found)
        session = connection.session
        if stored and session.stored is not None:
            await self._topics.sessions.subscribe(session.stored, stored)
        told = _told(first, made) if session.version is Version.V5 else None
        connection.send(SubAck(packet.packet_id, tuple(reasons), told.explained if told is not None else NO_PROPERTIES))
        for subscription in retained:
            await self._retained.send(connection, subscription)

    async def _subscribe(
        self,
        connection: Connection,
        wanted: Wanted,
        identifier: int | None,
        properties: Properties,
        stored: dict[str, StoredSubscription],
        retained: list[Subscription],
        made: list[Queue],
    ) -> ReasonCode | Refused:
        if connection.is_ended:
            # While a filter before it was waited for; nobody would end this subscription.
            return Refused(ReasonCode.UNSPECIFIED_ERROR, "the connection has ended")
        refusal = self._refusal(connection, wanted)
        if refusal is not None:
            return refusal
        qos = min(wanted.qos, self._options.now.maximum_qos)
        shared = parse_shared(wanted.filter)
        topic_filter = wanted.filter if shared is None else shared.filter
        record = StoredSubscription(_options_byte(wanted, qos), identifier or 0, b"")
        if (terms := self._queue_terms(connection, topic_filter, shared is not None, properties)) is not None:
            if connection.session.is_stored:
                # A client that comes back may hold an identifier whose message went back to its group: used again, the
                # next message would pass for the same one.
                qos = min(qos, 1)
                record = record._replace(options=_options_byte(wanted, qos))
            await self._consume(connection, wanted.filter, qos, terms, made)
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
        router = self._topics.router(session.namespace)
        session.let_go(wanted.filter)
        self._end_before(connection, before, connection.deliveries.consumers.pop(wanted.filter, None))
        router.add(subscription)
        session.add_filter(wanted.filter, subscription, self._names)
        stored[wanted.filter] = record
        handling = wanted.retain_handling
        is_asked = handling is RetainHandling.SEND or (handling is RetainHandling.SEND_IF_NEW and before is None)
        if shared is None and is_asked:
            retained.append(subscription)
        return _GRANTED[qos]

    async def _consume(self, connection: Connection, filter: str, qos: int, terms: Terms, made: list[Queue]) -> None:
        """The filter counts from the beginning, so that nothing of it is left over if the session ends meanwhile."""
        session, names = connection.session, self._names
        before = session.subscriptions.get(filter)
        if is_new := not session.has_filter(filter):
            session.add_filter(filter, None, names)
        try:
            await self._queues.consume(connection, filter, qos, terms, made)
        except BaseException:
            if is_new:
                session.remove_filter(filter, names)
            raise
        if before is not None and session.has_filter(filter):
            session.add_filter(filter, None, names)
            self._end_before(connection, before, None)

    def _queue_terms(
        self, connection: Connection, topic_filter: str, is_shared: bool, properties: Properties
    ) -> Terms | None:
        """None for a subscription to topics."""
        if queue_address(topic_filter) is not None:
            return Terms.of(properties, is_durable=False)
        durable_shares = self._options.now.durable_shares
        if is_shared:
            refuse_misspelt(properties)
        if is_shared and is_durable_share(topic_filter, properties, durable_shares):
            return Terms.of(properties, is_durable=True)
        return None

    def _end_before(self, connection: Connection, topics: Subscription | None, queue: QueueConsumer | None) -> None:
        """The same filter, subscribed to before on other terms."""
        if topics is not None:
            self._topics.router(connection.session.namespace).remove(topics)
        if queue is not None:
            queue.close()

    def _refusal(self, connection: Connection, wanted: Wanted) -> Refused | None:
        taken = connection.rates.subscriptions.take(1)
        if not taken.allowed:
            self._reports.throttled["subscription-rate"] += 1
            return Refused(ReasonCode.QUOTA_EXCEEDED, "too many subscriptions at a time: try again in a moment")
        if not connection.session.has_filter(wanted.filter) and (detail := self._too_many(connection, wanted.filter)):
            return Refused(ReasonCode.QUOTA_EXCEEDED, detail)
        shared = parse_shared(wanted.filter)
        if shared is not None and wanted.no_local:
            raise ProtocolError(
                "a shared subscription cannot be no-local: leave that option out", version=connection.version
            )
        if self._is_allowed(connection, wanted.filter):
            return None
        return Refused(ReasonCode.NOT_AUTHORIZED, f"{connection.identity.name} may not subscribe to this")

    def _too_many(self, connection: Connection, filter: str) -> str | None:
        """Why there is no room for another filter. Of the memory of all, a session gets as much as it would leave
        free."""
        session, options = connection.session, self._options.now
        size = session.filter_bytes + filter_bytes(filter)
        if session.filter_count >= options.max_subscriptions:
            return f"a client has at most {options.max_subscriptions} subscriptions (mqtt.max_subscriptions)"
        if size > options.max_subscription_bytes:
            limit = options.max_subscription_bytes
            return f"topic filters of a client take at most {limit} bytes in all (mqtt.max_subscription_size)"
        if session.with_filter(filter) > self._names.room_bytes:
            self._reports.names_spent(connection.name)
            return "the server has no memory left for topic filters of this size or number (mqtt.memory_size)"
        return None

    def _is_allowed(self, connection: Connection, filter: str) -> bool:
        """Whoever may consume a queue may do so through any filter; one that is not there yet has to be allowed by
        name."""
        shared = parse_shared(filter)
        address = subscription_address(filter if shared is None else shared.filter)
        if address is not None:
            queue = self._broker.declaring.queue_of(address, connection.session.namespace)
            if queue is not None:
                return connection.permissions.may_consume(queue)
        return connection.permissions.may_subscribe(filter)

    async def drop_forbidden(self, connection: Connection) -> bool:
        """Subscriptions that rules of now do not allow; whether there were any."""
        stored = connection.session.stored
        filters = dict.fromkeys([*connection.session.subscriptions, *connection.deliveries.consumers])
        filters |= dict.fromkeys(stored.subscriptions if stored is not None else ())
        gone = [filter for filter in filters if not self._is_allowed(connection, filter)]
        if gone:
            logger.info("subscriptions ended by a rule client=%s count=%d", connection.name, len(gone))
            await self._drop(connection, gone)
        return bool(gone)

    async def unsubscribe(self, connection: Connection, packet: Unsubscribe) -> None:
        is_told = connection.session.version is Version.V5
        connection.refuse_unless_fitting(
            UnsubAck(packet.packet_id, _GRANTED[:1] * len(packet.filters) if is_told else ())
        )
        reasons = await self._drop(connection, packet.filters)
        connection.send(UnsubAck(packet.packet_id, tuple(reasons) if is_told else ()))

    async def _drop(self, connection: Connection, filters: Iterable[str]) -> list[ReasonCode]:
        session = connection.session
        router = self._topics.router(session.namespace)
        reasons: list[ReasonCode] = []
        gone: list[str] = []
        for filter in filters:
            subscription = session.subscriptions.get(filter)
            consumer = connection.deliveries.consumers.pop(filter, None)
            if subscription is not None:
                router.remove(subscription)
            session.let_go(filter)
            session.remove_filter(filter, self._names)
            if consumer is not None:
                consumer.close()
            is_stored = session.stored is not None and filter in session.stored.subscriptions
            is_known = subscription is not None or consumer is not None or is_stored
            reasons.append(ReasonCode.SUCCESS if is_known else ReasonCode.NO_SUBSCRIPTION_EXISTED)
            if is_known:
                gone.append(filter)
        if gone and session.stored is not None:
            await self._topics.sessions.unsubscribe(session.stored, gone)
        return reasons

    async def _end_dismissed(self, connection: Connection, consumer: QueueConsumer) -> None:
        """Its queue or group was deleted, and its subscription goes with it. A server cannot end one subscription so
        that the client knows, and a client that is not told would wait for ever: so the connection ends."""
        filters = [filter for filter, each in connection.deliveries.consumers.items() if each is consumer]
        await self._drop(connection, filters)
        queue = f"queue {consumer.queue.name!r}"
        gone = queue if consumer.queue.is_deleted else f"group {consumer.group.name!r} of {queue}"
        _tell_deleted(connection, f"{gone} was deleted")

    async def resubscribe(self, connection: Connection, subscriptions: Mapping[str, StoredSubscription]) -> None:
        """A session goes on: it consumes the queues that it consumed before."""
        for filter, stored in list(subscriptions.items()):
            shared = parse_shared(filter)
            topic_filter = filter if shared is None else shared.filter
            if not stored.extra and queue_address(topic_filter) is None:
                continue
            try:
                await self._queues.consume(connection, filter, stored.options & 3, Terms.decoded(stored.extra))
            except NoSuchQueue as error:
                await self._drop(connection, [filter])
                _tell_deleted(connection, str(error))
            except PenstockError as error:
                text = "queue not consumed again client=%s filter=%s error=%s"
                self._reports.telling.warn("consumed again", text, connection.name, filter, error)


def _shortened(filter: str) -> str:
    """A reason string is cut at its end, where it says why."""
    return filter if len(filter) <= _SHOWN_CHARACTERS else f"{filter[:_SHOWN_CHARACTERS]}…"


def _told(refused: Refused | None, made: list[Queue]) -> Told | None:
    if not made:
        return refused
    noted = created(*[queue.name for queue in made])
    return noted if refused is None else refused._replace(detail=f"{refused.detail}; {noted.detail}")


def _options_byte(wanted: Wanted, qos: int) -> int:
    return qos | wanted.no_local << 2 | wanted.retain_as_published << 3 | wanted.retain_handling << 4


def _tell_deleted(connection: Connection, detail: str) -> None:
    logger.info("consumer put out client=%s reason=%s", connection.name, detail)
    connection.disconnect(ReasonCode.ADMINISTRATIVE_ACTION, detail)
