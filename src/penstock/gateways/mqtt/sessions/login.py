"""From CONNECT to CONNACK: who it is, which session goes on, what both sides agree on."""

from __future__ import annotations

import secrets

from penstock.broker.auth.access import Access
from penstock.broker.auth.identity import Credentials, Identity
from penstock.broker.auth.permissions import Permissions
from penstock.broker.broker import Broker
from penstock.broker.topics.publication import is_reserved
from penstock.broker.topics.topics import Topics
from penstock.codecs.mqtt.errors import PacketError, ProtocolError
from penstock.codecs.mqtt.inflight import DEFAULT_RECEIVE_MAXIMUM
from penstock.codecs.mqtt.kinds import MAX_PACKET_BYTES, Version
from penstock.codecs.mqtt.packets import Auth, ConnAck, Connect
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import ErrorCode, PenstockError
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.connections import Connections
from penstock.gateways.mqtt.inbound.topic_aliases import OutOfNames, TopicAliases
from penstock.gateways.mqtt.options import CurrentOptions
from penstock.gateways.mqtt.outbound.backlog import Backlog
from penstock.gateways.mqtt.outbound.fanout import FanOut
from penstock.gateways.mqtt.sessions.exchange import Exchange
from penstock.gateways.mqtt.sessions.registry import Registry
from penstock.gateways.mqtt.sessions.session import beyond_short
from penstock.gateways.mqtt.sessions.wills import stored_will, will_bytes

SCRAM = "SCRAM-SHA-256"
CREATE_QUEUES = "create-queues"
_MAX_CLIENT_ID_BYTES = 1024
KEEP_ALIVE_GRACE = 1.5
_REFUSALS = {
    ErrorCode.BAD_CREDENTIALS: ReasonCode.BAD_USER_NAME_OR_PASSWORD,
    ErrorCode.NOT_AUTHORISED: ReasonCode.NOT_AUTHORIZED,
    ErrorCode.TOO_MANY_ATTEMPTS: ReasonCode.CONNECTION_RATE_EXCEEDED,
}


def _makes_queues(packet: Connect) -> bool:
    said = dict(packet.properties.user_properties).get(CREATE_QUEUES, "true")
    if said not in ("true", "false"):
        detail = f"{CREATE_QUEUES} is {said[:40]!r}: give true or false"
        raise ProtocolError(detail, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, packet.version)
    return said == "true"


class Login:
    """For all connections, the exchange of AUTH packets included."""

    def __init__(
        self,
        broker: Broker,
        topics: Topics,
        access: Access,
        options: CurrentOptions,
        connections: Connections,
        registry: Registry,
    ) -> None:
        self._broker, self._topics, self._access, self._options = broker, topics, access, options
        self._connections, self._registry = connections, registry
        self._fanout = FanOut(broker.timeline)

    async def take_connect(self, connection: Connection, packet: Connect) -> None:
        exchange = connection.exchange = Exchange(packet)
        connection.max_packet_bytes = packet.properties.maximum_packet_bytes or MAX_PACKET_BYTES
        connection.tells_problems = packet.properties.request_problem_information is not False
        if self._connections.is_closing:
            raise ProtocolError("the server is shutting down", ReasonCode.SERVER_UNAVAILABLE, packet.version)
        connection.makes_queues = _makes_queues(packet)
        method = packet.properties.authentication_method
        if method is None:
            await self._let_in(connection, packet, await self._identify(connection, packet))
        elif method != SCRAM:
            raise ProtocolError(
                f"there is no authentication method {method!r} here: use {SCRAM}",
                ReasonCode.BAD_AUTHENTICATION_METHOD,
                packet.version,
            )
        else:
            await self._challenge(connection, exchange, packet.properties.authentication_data)

    async def _identify(self, connection: Connection, packet: Connect) -> Identity:
        facts = connection.facts
        credentials = Credentials(
            packet.username,
            packet.password,
            packet.client_id,
            connection.peer,
            connection.certificate,
            facts.certificate_identity,
            facts.is_loopback,
        )
        try:
            return await self._access.login(credentials)
        except PenstockError as error:
            raise _refusal(connection, error) from error

    # AUTH

    async def _challenge(self, connection: Connection, exchange: Exchange, data: bytes | None) -> None:
        """The client's first message, or the beginning of an exchange that it did not begin with data."""
        exchange.scram = self._access.scram(connection.peer, is_loopback=connection.facts.is_loopback)
        await self._answer(connection, exchange, data or b"")

    async def take_auth(self, connection: Connection, packet: Auth) -> None:
        if packet.reason is ReasonCode.RE_AUTHENTICATE:
            connection.exchange = Exchange()
            await self._challenge(connection, connection.exchange, packet.properties.authentication_data)
        else:
            assert connection.exchange is not None
            await self._answer(connection, connection.exchange, packet.properties.authentication_data or b"")

    async def _answer(self, connection: Connection, exchange: Exchange, data: bytes) -> None:
        assert exchange.scram is not None
        try:
            if not exchange.is_challenged:
                said = exchange.scram.first(data)
                exchange.is_challenged = True
                connection.send(
                    Auth(
                        ReasonCode.CONTINUE_AUTHENTICATION,
                        Properties(authentication_method=SCRAM, authentication_data=said),
                    )
                )
                return
            said, identity = exchange.scram.final(data)
        except PenstockError as error:
            raise _refusal(connection, error) from error
        if exchange.connect is not None:
            await self._let_in(connection, exchange.connect, identity, said)
            return
        if identity.name != connection.identity.name:
            raise ProtocolError("another user cannot go on with this connection", ReasonCode.NOT_AUTHORIZED)
        connection.exchange = None
        connection.send(Auth(ReasonCode.SUCCESS, Properties(authentication_method=SCRAM, authentication_data=said)))

    # The session

    async def _let_in(
        self, connection: Connection, packet: Connect, identity: Identity, said: bytes | None = None
    ) -> None:
        """`said`: the server's last word, where both sides proved who they are."""
        if len(packet.client_id.encode()) > _MAX_CLIENT_ID_BYTES:
            raise ProtocolError(
                f"a client id has at most {_MAX_CLIENT_ID_BYTES} bytes",
                ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
                packet.version,
            )
        connection.is_assigned = not packet.client_id
        client_id = packet.client_id or f"auto{secrets.token_hex(8)}"
        permissions = self._access.permissions(identity, client_id)
        self._check_will(packet, permissions)
        properties = packet.properties
        registry, options = self._registry, self._options.now
        self._keep_alive(connection, packet)
        agreed = self._agreed(connection, packet, client_id, said)
        connection.refuse_unless_fitting(ConnAck(False, ReasonCode.SUCCESS, agreed))
        session, is_present = await registry.connect(connection, packet, client_id, identity)
        if connection.is_ended:
            registry.abandoned(session)
            return
        session.version = packet.version
        session.max_packet_bytes = connection.max_packet_bytes
        session.audience = self._fanout.audience(packet.version, connection.max_packet_bytes)
        connection.alias_maximum = options.topic_alias_maximum if packet.version == 5 else 0
        if properties.topic_alias_maximum:
            connection.topic_aliases = TopicAliases(
                min(properties.topic_alias_maximum, options.topic_alias_maximum), self._connections.names
            )
        backlog = Backlog(
            options.max_queued_messages, options.max_queued_bytes, options.queued_policy, self._connections.budget
        )
        connection.begin(session, identity, permissions, backlog, self._broker, self._topics)
        self._connections.let_in(connection)
        registry.attach(session, connection)
        connection.send(ConnAck(is_present, ReasonCode.SUCCESS, agreed))
        self._connections.logged_in(connection)
        connection.exchange = None  # an idle client is half a kilobyte less
        await registry.resume(connection, properties.receive_maximum or DEFAULT_RECEIVE_MAXIMUM)

    def _check_will(self, packet: Connect, permissions: Permissions) -> None:
        will = packet.will
        if will is None:
            return
        options = self._options.now
        if will.qos > options.maximum_qos:
            detail = f"the will has QoS {will.qos}, and this server takes up to {options.maximum_qos}"
            raise ProtocolError(detail, ReasonCode.QOS_NOT_SUPPORTED, packet.version)
        if will.retain and not options.retain_available:
            raise ProtocolError("this server retains no messages", ReasonCode.RETAIN_NOT_SUPPORTED, packet.version)
        if is_reserved(will.topic.encode()):
            raise ProtocolError(
                "a will is a message for others: it can neither settle one, nor ask $admin, nor be the broker's own",
                ReasonCode.TOPIC_NAME_INVALID,
                packet.version,
            )
        if not permissions.may_publish(will.topic.encode()):
            raise ProtocolError("the will's topic is not allowed", ReasonCode.NOT_AUTHORIZED, packet.version)
        if beyond_short(will_bytes(stored_will(will))) > self._connections.names.room_bytes:
            detail = "the server has no memory left for a will of this size"
            raise OutOfNames(detail, ReasonCode.QUOTA_EXCEEDED, packet.version)

    def _keep_alive(self, connection: Connection, packet: Connect) -> None:
        wanted, limit = packet.keep_alive_s, self._options.now.max_keep_alive_s
        if limit is not None and (not wanted or wanted > limit) and packet.version is Version.V5:
            wanted = limit
        connection.keep_alive_s = wanted * KEEP_ALIVE_GRACE

    def _agreed(self, connection: Connection, packet: Connect, client_id: str, said: bytes | None) -> Properties:
        if packet.version is Version.V3_1_1:
            return Properties()
        options, expiry_s = self._options.now, self._registry.asked_expiry(packet)
        asked_expiry = packet.properties.session_expiry_interval_s or 0
        keep_alive_s = int(connection.keep_alive_s / KEEP_ALIVE_GRACE)
        return Properties(
            session_expiry_interval_s=expiry_s if expiry_s != asked_expiry else None,
            assigned_client_identifier=client_id if not packet.client_id else None,
            server_keep_alive_s=keep_alive_s if keep_alive_s != packet.keep_alive_s else None,
            receive_maximum=options.receive_maximum if options.receive_maximum < DEFAULT_RECEIVE_MAXIMUM else None,
            maximum_qos=options.maximum_qos if options.maximum_qos < 2 else None,
            retain_available=None if options.retain_available else False,
            maximum_packet_bytes=options.max_packet_bytes,
            topic_alias_maximum=options.topic_alias_maximum or None,
            authentication_method=SCRAM if said is not None else None,
            authentication_data=said,
        )

    def change_expiry(self, connection: Connection, expiry_s: int) -> None:
        """DISCONNECT said how long the session is kept."""
        connection.session.expiry_s = self._registry.bounded_expiry(expiry_s)


def _refusal(connection: Connection, error: PenstockError) -> PacketError:
    reason = _REFUSALS.get(error.code, ReasonCode.NOT_AUTHORIZED)
    if connection.is_open:
        reason = ReasonCode.NOT_AUTHORIZED
    if connection.version is Version.V3_1_1 and reason is ReasonCode.CONNECTION_RATE_EXCEEDED:
        reason = ReasonCode.SERVER_UNAVAILABLE
    return ProtocolError(str(error), reason, connection.version)
