"""Sessions by client id: who goes on, who is put out, who ends, and the wills of those who are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import groupby

from penstock.broker.auth.access import Access
from penstock.broker.auth.identity import Identity
from penstock.broker.broker import Broker
from penstock.broker.sessions.records import Subscription as StoredSubscription
from penstock.broker.sessions.records import Will as StoredWill
from penstock.broker.sessions.session import Session as StoredSession
from penstock.broker.topics.publication import OneSource, Publication, is_reserved
from penstock.broker.topics.subscriptions import Subscription
from penstock.broker.topics.topics import Topics
from penstock.codecs.mqtt.errors import ProtocolError
from penstock.codecs.mqtt.inflight import DEFAULT_RECEIVE_MAXIMUM, Incoming, Outgoing
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Connect
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.codecs.mqtt.text import parse_shared
from penstock.core.errors import PenstockError
from penstock.core.types import Purpose
from penstock.gateways.background import Background
from penstock.gateways.mqtt.admin.reports import Reports
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.options import CurrentOptions
from penstock.gateways.mqtt.outbound.fanout import publication_again
from penstock.gateways.mqtt.outbound.stored_feed import awaited
from penstock.gateways.mqtt.sessions.queue_subscriptions import Terms, group_before
from penstock.gateways.mqtt.sessions.session import Session
from penstock.gateways.mqtt.sessions.subscriptions import Subscriptions
from penstock.gateways.mqtt.sessions.wills import published_will, stored_will, will_bytes
from penstock.gateways.wire.budget import Budget
from penstock.queues.names import queue_address

_NEVER_S = 0xFFFFFFFF
_Key = tuple[str, str]


class Registry:
    """`names` is the budget for what clients have the server keep."""

    def __init__(
        self,
        broker: Broker,
        topics: Topics,
        access: Access,
        options: CurrentOptions,
        names: Budget,
        subscriptions: Subscriptions,
        reports: Reports,
        background: Background,
    ) -> None:
        self._broker, self._topics, self._access, self._options, self._names = broker, topics, access, options, names
        self._subscriptions, self._reports, self._background = subscriptions, reports, background
        self._stored, self._publisher = topics.sessions, broker.publisher()
        self._sessions: dict[_Key, Session] = {}
        self._connections: dict[Session, Connection] = {}
        """of those who are connected"""
        self._turns: dict[_Key, tuple[asyncio.Lock, int]] = {}
        """of clients that are being let in: how many connections wait for it, the one whose turn it is included"""
        self._wills: set[StoredSession] = set()
        """whose will is being published"""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """Those that there are now."""
        return iter(list(self._sessions.values()))

    def find(self, namespace: str, client_id: str) -> Session | None:
        return self._sessions.get((namespace, client_id))

    def connection(self, session: Session) -> Connection | None:
        """None while its client is away."""
        return self._connections.get(session)

    def restore(self) -> None:
        """Sessions of before: they go on collecting."""
        for stored in self._stored:
            session = Session(stored.client_id, stored.namespace, stored)
            session.expiry_s, session.will_bytes = stored.expiry_s, will_bytes(stored.will)
            session.claim(self._names)
            self._sessions[stored.namespace, stored.client_id] = session
            for filter, options in stored.subscriptions.items():
                self._restore_subscription(session, filter, options)

    def _restore_subscription(self, session: Session, filter: str, stored: StoredSubscription) -> None:
        subscription = subscription_of(session, filter, stored)
        if queue_address(subscription.topic_filter) is None and not stored.extra:
            session.add_filter(filter, subscription, self._names)
            self._topics.router(session.namespace).add(subscription)
            return
        session.add_filter(filter, None, self._names)
        try:
            group = group_before(self._broker.declaring, session, filter, Terms.decoded(stored.extra))
        except PenstockError:
            group = None  # the client is told when it comes back
        if group is not None:
            session.keep(filter, group)

    # Coming

    async def connect(
        self, connection: Connection, packet: Connect, client_id: str, identity: Identity
    ) -> tuple[Session, bool]:
        """The session that the client goes on with, and whether it was there before."""
        key = identity.namespace, client_id
        async with self._turn(key):
            existing = self._sessions.get(key)
            if existing is not None:
                self._refuse_stranger(existing, identity, packet.version)
                await self._put_out(existing, ReasonCode.SESSION_TAKEN_OVER, "another client came with this client id")
                existing = self._sessions.get(key)
            expiry_s = self.asked_expiry(packet)
            if existing is not None and self._is_over(existing):
                await self._end(existing)
                existing = None
            if existing is not None and not packet.clean_start and existing.stored is not None:
                await self._go_on(existing, existing.stored, packet, identity, expiry_s)
                return existing, True
            if existing is not None:
                await self._end(existing)
            return await self._begin(key, packet, identity, expiry_s), False

    def _is_over(self, session: Session) -> bool:
        """Though nobody has looked yet."""
        if session.stored is None or session.connection is not None:
            return False
        ends_ms = session.stored.ends_ms
        return session.expiry_s == 0 or (ends_ms is not None and ends_ms <= self._broker.now())

    @asynccontextmanager
    async def _turn(self, key: _Key) -> AsyncIterator[None]:
        """One at a time for each client; forgotten when nobody needs it."""
        lock, users = self._turns.get(key) or (asyncio.Lock(), 0)
        self._turns[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._turns.pop(key)
            if users > 1:
                self._turns[key] = lock, users - 1

    def _refuse_stranger(self, session: Session, identity: Identity, version: Version) -> None:
        """A session belongs to the user who began it."""
        connection = self.connection(session)
        owner = session.stored.owner if session.stored is not None else connection and connection.identity.name
        if owner is not None and owner != identity.name and not identity.is_admin:
            raise ProtocolError(
                "the client id belongs to another user", ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, version
            )

    async def put_out(self, namespace: str, client_id: str, reason: ReasonCode, detail: str) -> bool:
        """By an operator; False if the client is not connected. When it returns, its session knows that it is gone."""
        key = namespace, client_id
        async with self._turn(key):
            session = self._sessions.get(key)
            return session is not None and await self._put_out(session, reason, detail)

    async def _put_out(self, session: Session, reason: ReasonCode, detail: str) -> bool:
        old = self.connection(session)
        if old is None:
            return False
        old.disconnect(reason, detail)
        old.deliveries.close()
        await self._disconnect(session, old)
        return True

    async def _go_on(
        self, session: Session, stored: StoredSession, packet: Connect, identity: Identity, expiry_s: int
    ) -> None:
        will = stored_will(packet.will)
        await self._stored.connected(stored, expiry_s=expiry_s, owner=identity.name, will=will)
        session.expiry_s, session.will_bytes = expiry_s, will_bytes(will)
        session.claim(self._names)
        session.outgoing = awaited(stored)
        session.incoming = Incoming(self._receive_maximum(packet.version), stored.held)

    async def _begin(self, key: _Key, packet: Connect, identity: Identity, expiry_s: int) -> Session:
        session, will = Session(key[1], key[0]), stored_will(packet.will)
        session.will_bytes = will_bytes(will)
        if expiry_s:
            session.stored = await self._stored.begin(
                key[1],
                owner=identity.name,
                expiry_s=expiry_s,
                namespace=key[0],
                will=will,
            )
        else:
            session.will = packet.will
        session.expiry_s = expiry_s
        session.outgoing = Outgoing(packet.properties.receive_maximum or DEFAULT_RECEIVE_MAXIMUM)
        session.incoming = Incoming(self._receive_maximum(packet.version))
        session.claim(self._names)
        self._sessions[key] = session
        return session

    def _receive_maximum(self, version: Version) -> int:
        """What a client was told; MQTT 3.1.1 has no words for it."""
        return self._options.now.receive_maximum if version is Version.V5 else DEFAULT_RECEIVE_MAXIMUM

    def asked_expiry(self, packet: Connect) -> int:
        """How long the session of this CONNECT outlives its connection."""
        if packet.version is Version.V3_1_1:
            return 0 if packet.clean_start else self.bounded_expiry(_NEVER_S)
        return self.bounded_expiry(packet.properties.session_expiry_interval_s or 0)

    def bounded_expiry(self, wanted_s: int) -> int:
        limit = self._options.now.max_session_expiry_s
        return wanted_s if limit is None else min(wanted_s, limit)

    def attach(self, session: Session, connection: Connection) -> None:
        self._connections[session] = session.connection = connection
        session.identity = connection.identity
        if session.subscriptions:
            self._topics.router(session.namespace).changed()

    async def resume(self, connection: Connection, receive_maximum: int) -> None:
        """After CONNACK: what waits, and the queues that the client consumed."""
        stored = connection.session.stored
        if stored is None:
            return
        is_narrowed = await self._subscriptions.drop_forbidden(connection)
        if connection.is_ended:
            return
        if connection.deliveries.feed is not None:
            connection.deliveries.feed.start(receive_maximum, is_narrowed)
        await self._subscriptions.resubscribe(connection, stored.subscriptions)

    def abandoned(self, session: Session) -> None:
        """The connection was lost before the client was let in."""
        if session.stored is None and session.connection is None:
            session.give_up(self._names)
            self._sessions.pop((session.namespace, session.client_id), None)
        elif session.stored is not None:
            self._background.spawn(self._store_disconnect(session, session.stored, True, session.stored.in_flight))

    # Going

    def disconnected(self, connection: Connection) -> None:
        """The connection of a client that was let in was lost; nothing if the session has another one by now."""
        if connection.session.connection is connection:
            self._background.spawn(self._see_off(connection))
        else:
            connection.let_go()

    async def _see_off(self, connection: Connection) -> None:
        try:
            await self._disconnect(connection.session, connection)
        finally:
            connection.let_go()

    async def _disconnect(self, session: Session, connection: Connection) -> None:
        if session.connection is not connection:
            return
        session.connection = None
        del self._connections[session]
        if session.subscriptions:
            self._topics.router(session.namespace).changed()
        keep_will = not connection.said_goodbye
        if session.stored is not None:
            feed = connection.deliveries.feed
            in_flight = [] if feed is None else feed.in_flight
            await self._store_disconnect(session, session.stored, keep_will, in_flight)
            await self.look_at_due()
            return
        self._forget(session)
        await self._redistribute(connection)
        will = stored_will(session.will)
        if keep_will and will is not None and self._may_be_published(will, session.client_id, session):
            await self._publish(self._will(will, session.namespace, session))

    async def _redistribute(self, connection: Connection) -> None:
        namespace = connection.session.namespace
        try:
            for share, some in groupby(connection.sender.unfinished_shared(), lambda each: each.share):
                packets = [each.packet for each in some]
                again = publication_again(packets, self._broker.wall(), self._publisher, namespace)
                await self._topics.redistribute(share, again)
        except PenstockError as error:
            text = "messages of shared subscriptions lost client=%s error=%s"
            self._reports.telling.warn("shared", text, connection.name, error)

    async def _store_disconnect(
        self, session: Session, stored: StoredSession, keep_will: bool, in_flight: Sequence[tuple[int, int]]
    ) -> None:
        await self._stored.disconnected(
            stored,
            expiry_s=session.expiry_s,
            keeps_will=keep_will,
            in_flight=in_flight,
        )
        self._claim(session)

    def _claim(self, session: Session | None) -> None:
        """After what it keeps has become another; nothing of one that is over."""
        if session is not None and self._sessions.get((session.namespace, session.client_id)) is session:
            session.claim(self._names)

    async def _end(self, session: Session) -> None:
        """With a will that was still to come: its delay does not count any more."""
        self._forget(session)
        stored = session.stored
        if stored is not None:
            if stored.will is not None:
                await self._publish_will(stored)
            await self._stored.end(stored)

    def _forget(self, session: Session) -> None:
        router = self._topics.router(session.namespace)
        for subscription in session.subscriptions.values():
            router.remove(subscription)
        session.give_up(self._names)
        for filter in list(session.groups):
            session.let_go(filter)
        key = session.namespace, session.client_id
        if self._sessions.get(key) is session:
            del self._sessions[key]

    async def look_at_due(self) -> None:
        """Wills whose delay is over, sessions that ended."""
        due = self._stored.due(self._broker.now())
        for stored in due.wills:
            await self._publish_will(stored)
        for stored in due.ended:
            found = self._sessions.get((stored.namespace, stored.client_id))
            if found is not None and found.stored is stored and found.connection is None:
                await self._end(found)

    async def _publish_will(self, stored: StoredSession) -> None:
        if stored.will is None or stored in self._wills:
            return
        self._wills.add(stored)
        try:
            found = self._sessions.get((stored.namespace, stored.client_id))
            part = self._stored.will_part(stored)
            if not self._may_be_published(stored.will, stored.client_id, found):
                await self._broker.shard.commit([part], Purpose.SETTLE)
                return
            publication = self._will(stored.will, stored.namespace, found)
            publication.parts = [part]
            await self._publish(publication)
        finally:
            self._wills.discard(stored)
            self._claim(self._sessions.get((stored.namespace, stored.client_id)))

    def _may_be_published(self, will: StoredWill, client_id: str, session: Session | None) -> bool:
        """By the rules of now, which may have changed since the client connected."""
        access = self._access
        may = not is_reserved(will.topic)
        if may and session is not None and session.identity is not None:
            # The end of a login is no reason to keep quiet about the end of its client.
            identity = replace(session.identity, expires_ms=None)
            may = access.permissions(identity, client_id).may_publish(will.topic)
        elif may and session is not None and session.stored is not None:
            may = access.may_publish_still(session.stored.owner, session.namespace, client_id, will.topic)
        if not may:
            self._reports.lost_will(client_id, "its client may not publish to the topic any more")
        return may

    def _will(self, will: StoredWill, namespace: str, session: Session | None) -> Publication:
        return published_will(will, self._broker.wall(), self._publisher, namespace, session)

    async def _publish(self, publication: Publication) -> None:
        try:
            await self._topics.publish(publication)
        except Exception as error:
            source = publication.sources
            session = source.subscriber if isinstance(source, OneSource) else None
            self._reports.lost_will(session.client_id if isinstance(session, Session) else "", str(error))


def subscription_of(session: Session, filter: str, stored: StoredSubscription) -> Subscription:
    shared = parse_shared(filter)
    return Subscription(
        session,
        filter,
        filter if shared is None else shared.filter,
        None if shared is None else shared.group,
        stored.options & 3,
        bool(stored.options & 4),
        bool(stored.options & 8),
        stored.identifier or None,
    )
