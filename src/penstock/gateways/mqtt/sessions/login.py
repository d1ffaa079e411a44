"""From CONNECT to CONNACK: who it is, which session goes on, what both sides agree on."""

from __future__ import annotations

import secrets
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from penstock.broker.auth.access import ScramLogin
from penstock.broker.auth.identity import Credentials, Identity
from penstock.broker.auth.permissions import Permissions
from penstock.broker.topics.publication import is_reserved
from penstock.codecs.mqtt.errors import PacketError, ProtocolError
from penstock.codecs.mqtt.inflight import DEFAULT_RECEIVE_MAXIMUM
from penstock.codecs.mqtt.kinds import MAX_PACKET_BYTES, Version
from penstock.codecs.mqtt.packets import Auth, ConnAck, Connect
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import ErrorCode, PenstockError
from penstock.gateways.mqtt.inbound.topic_aliases import TopicAliases

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection

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
    """Of one connection, the exchange of AUTH packets included."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._connect: Connect | None = None
        self._scram: ScramLogin | None = None
        self._is_challenged = False
        self.receive_maximum = DEFAULT_RECEIVE_MAXIMUM
        self.is_assigned = False
        """the broker made up the client id"""

    def take(self, packet: Connect | Auth) -> Coroutine[None, None, None]:
        return self._take_connect(packet) if isinstance(packet, Connect) else self._take_auth(packet)

    async def _take_connect(self, packet: Connect) -> None:
        self._connect = packet
        self._connection.max_packet_bytes = packet.properties.maximum_packet_bytes or MAX_PACKET_BYTES
        self._connection.tells_problems = packet.properties.request_problem_information is not False
        gateway = self._connection.gateway
        gateway.refuse_if_closing(packet.version)
        self._connection.makes_queues = _makes_queues(packet)
        method = packet.properties.authentication_method
        if method is None:
            await self._let_in(await self._identify(packet))
        elif method != SCRAM:
            raise ProtocolError(
                f"no authentication method {method!r} here, but {SCRAM}",
                ReasonCode.BAD_AUTHENTICATION_METHOD,
                packet.version,
            )
        else:
            await self._challenge(packet.properties.authentication_data)

    async def _identify(self, packet: Connect) -> Identity:
        connection = self._connection
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
            return await connection.gateway.access.login(credentials)
        except PenstockError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: PenstockError) -> PacketError:
        version = self._connection.version
        reason = _REFUSALS.get(error.code, ReasonCode.NOT_AUTHORIZED)
        if self._connection.is_open:
            reason = ReasonCode.NOT_AUTHORIZED
        if version is Version.V3_1_1 and reason is ReasonCode.CONNECTION_RATE_EXCEEDED:
            reason = ReasonCode.SERVER_UNAVAILABLE
        return ProtocolError(str(error), reason, version)

    # AUTH

    async def _challenge(self, data: bytes | None) -> None:
        """The client's first message, or the beginning of an exchange that it did not begin with data."""
        connection = self._connection
        self._scram = connection.gateway.access.scram(connection.peer, is_loopback=connection.facts.is_loopback)
        self._is_challenged = False
        await self._answer(data or b"")

    async def _take_auth(self, packet: Auth) -> None:
        if packet.reason is ReasonCode.RE_AUTHENTICATE:
            await self._challenge(packet.properties.authentication_data)
        else:
            await self._answer(packet.properties.authentication_data or b"")

    async def _answer(self, data: bytes) -> None:
        assert self._scram is not None
        try:
            if not self._is_challenged:
                said = self._scram.first(data)
                self._is_challenged = True
                self._connection.send(
                    Auth(
                        ReasonCode.CONTINUE_AUTHENTICATION,
                        Properties(authentication_method=SCRAM, authentication_data=said),
                    )
                )
                return
            said, identity = self._scram.final(data)
        except PenstockError as error:
            raise self._refusal(error) from error
        await self._identified(identity, said)

    async def _identified(self, identity: Identity, said: bytes) -> None:
        if not self._connection.is_open:
            await self._let_in(identity, said)
            return
        if identity.name != self._connection.identity.name:
            raise ProtocolError("another user cannot go on with this connection", ReasonCode.NOT_AUTHORIZED)
        self._connection.send(
            Auth(ReasonCode.SUCCESS, Properties(authentication_method=SCRAM, authentication_data=said))
        )

    # The session

    async def _let_in(self, identity: Identity, said: bytes | None = None) -> None:
        connection, packet = self._connection, self._connect
        assert packet is not None
        if len(packet.client_id.encode()) > _MAX_CLIENT_ID_BYTES:
            raise ProtocolError(
                f"a client id has at most {_MAX_CLIENT_ID_BYTES} bytes",
                ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
                packet.version,
            )
        self.is_assigned = not packet.client_id
        client_id = packet.client_id or f"auto{secrets.token_hex(8)}"
        permissions = connection.gateway.access.permissions(identity, client_id)
        self._check_will(packet, permissions)
        properties = packet.properties
        self.receive_maximum = properties.receive_maximum or DEFAULT_RECEIVE_MAXIMUM
        registry = connection.gateway.registry
        self._keep_alive(packet)
        agreed = self._agreed(packet, client_id, registry.asked_expiry(packet), said)
        connection.refuse_unless_fitting(ConnAck(False, ReasonCode.SUCCESS, agreed))
        session, is_present = await registry.connect(connection, packet, client_id, identity)
        if connection.is_ended:
            registry.abandoned(session)
            return
        session.version = packet.version
        session.max_packet_bytes = connection.max_packet_bytes
        session.audience = connection.gateway.fanout.audience(packet.version, connection.max_packet_bytes)
        connection.alias_maximum = connection.gateway.options.topic_alias_maximum if packet.version == 5 else 0
        if properties.topic_alias_maximum:
            connection.topic_aliases = TopicAliases(
                min(properties.topic_alias_maximum, connection.gateway.options.topic_alias_maximum),
                connection.gateway.names,
            )
        connection.begin(session, identity, permissions)
        connection.gateway.turns.let_in(connection)
        registry.attach(session, connection)
        connection.send(ConnAck(is_present, ReasonCode.SUCCESS, agreed))
        connection.gateway.logged_in(connection)
        self._connect = None  # an idle client is half a kilobyte less
        await registry.resume(session, connection)

    def _check_will(self, packet: Connect, permissions: Permissions) -> None:
        will = packet.will
        if will is None:
            return
        options = self._connection.gateway.options
        if will.qos > options.maximum_qos:
            raise ProtocolError("the will has a QoS that is not served", ReasonCode.QOS_NOT_SUPPORTED, packet.version)
        if will.retain and not options.retain_available:
            raise ProtocolError("nothing is retained here", ReasonCode.RETAIN_NOT_SUPPORTED, packet.version)
        if is_reserved(will.topic.encode()):
            raise ProtocolError(
                "a will is a message for others: it can neither settle one, nor ask $admin, nor be the broker's own",
                ReasonCode.TOPIC_NAME_INVALID,
                packet.version,
            )
        if not permissions.may_publish(will.topic.encode()):
            raise ProtocolError("the will's topic is not allowed", ReasonCode.NOT_AUTHORIZED, packet.version)

    def _keep_alive(self, packet: Connect) -> None:
        wanted, limit = packet.keep_alive_s, self._connection.gateway.options.max_keep_alive_s
        if limit is not None and (not wanted or wanted > limit) and packet.version is Version.V5:
            wanted = limit
        self._connection.keep_alive_s = wanted * KEEP_ALIVE_GRACE

    def _agreed(self, packet: Connect, client_id: str, expiry_s: int, said: bytes | None) -> Properties:
        if packet.version is Version.V3_1_1:
            return Properties()
        options = self._connection.gateway.options
        asked_expiry = packet.properties.session_expiry_interval_s or 0
        keep_alive_s = int(self._connection.keep_alive_s / KEEP_ALIVE_GRACE)
        return Properties(
            session_expiry_interval_s=expiry_s if expiry_s != asked_expiry else None,
            assigned_client_identifier=client_id if not packet.client_id else None,
            server_keep_alive_s=keep_alive_s if keep_alive_s != packet.keep_alive_s else None,
            receive_maximum=options.receive_maximum if options.receive_maximum < DEFAULT_RECEIVE_MAXIMUM else None,
            maximum_qos=options.maximum_qos if options.maximum_qos < 2 else None,
            retain_available=None if options.retain_available else False,
            maximum_packet_bytes=options.max_packet_bytes,
            topic_alias_maximum=options.topic_alias_maximum or None,
            authentication_method=SCRAM if self._scram is not None else None,
            authentication_data=said,
        )

    def change_expiry(self, expiry_s: int) -> None:
        """DISCONNECT said how long the session is kept."""
        session = self._connection.session
        session.expiry_s = self._connection.gateway.registry.bounded_expiry(expiry_s)
