"""From the protocol header to connection.open-ok: who it is, what both sides agree on, which namespace it works in."""

from __future__ import annotations

from penstock.broker.auth.access import Access, ScramLogin
from penstock.broker.auth.identity import Credentials, Identity
from penstock.broker.broker import Broker
from penstock.codecs import sasl
from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.codecs.amqp091.kinds import Field, Table
from penstock.codecs.amqp091.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from penstock.core.errors import (
    BadCredentials,
    InvalidArgument,
    NamespaceRefused,
    NoSuchNamespace,
    PenstockError,
)
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.connections import Connections
from penstock.gateways.amqp091.options import LEAST_FRAME_BYTES, CurrentOptions
from penstock.queues.vhosts import namespace_of_vhost
from penstock.version import VERSION

_CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
_OPEN = (10, 40)
_REFUSAL_IS_READ = "authentication_failure_close"


class Closed(Exception):
    """The client is not told why it cannot go on: as RabbitMQ does before it is let in."""


class Login:
    """For all connections."""

    def __init__(self, broker: Broker, access: Access, options: CurrentOptions, connections: Connections) -> None:
        self._broker, self._access, self._options, self._connections = broker, access, options, connections

    def greet(self, connection: Connection) -> None:
        """Its protocol header came."""
        connection.is_greeted = True
        start = ConnectionStart(0, 9, self._properties(), self._mechanisms(connection), b"en_US")
        connection.send(0, start)

    def _properties(self) -> Table:
        now = self._options.now
        capabilities = {name: Field("t", True) for name in _CAPABILITIES}
        return {
            "capabilities": Field("F", capabilities),
            "product": Field("S", now.product),
            "version": Field("S", now.version),
            "platform": Field("S", f"Penstock {VERSION}"),
        }

    def _mechanisms(self, connection: Connection) -> bytes:
        mechanisms = ["PLAIN", "AMQPLAIN"]
        if self._has_certificate(connection):
            mechanisms.append("EXTERNAL")
        if self._access.has_users:
            mechanisms.append("SCRAM-SHA-256")
        if self._access.without_login() is not None:
            mechanisms.append("ANONYMOUS")
        return " ".join(mechanisms).encode()

    def _has_certificate(self, connection: Connection) -> bool:
        return connection.facts.certificate_identity and connection.certificate is not None

    async def start_ok(self, connection: Connection, method: ConnectionStartOk) -> None:
        connection.client_properties, connection.mechanism = method.client_properties, method.mechanism
        said = method.client_properties.get("capabilities")
        if said is not None and isinstance(said.value, dict):
            connection.capabilities = frozenset(name for name, field in said.value.items() if field.value is True)
        if method.mechanism not in self._mechanisms(connection).decode().split():
            raise Closed(f"no mechanism {method.mechanism!r} is offered")
        scram = None
        if method.mechanism == "SCRAM-SHA-256":
            found = self._access.scram(connection.peer, is_loopback=connection.facts.is_loopback)
            scram = _Scram(found, connection)
        connection.sasl = sasl.Exchange(method.mechanism, scram, outcome_has_data=False)
        await self._answer(connection, method.response)

    async def secure_ok(self, connection: Connection, method: ConnectionSecureOk) -> None:
        await self._answer(connection, method.response)

    async def _answer(self, connection: Connection, response: bytes) -> None:
        assert connection.sasl is not None
        try:
            said = connection.sasl.respond(response)
            if isinstance(said, sasl.Challenge):
                connection.send(0, ConnectionSecure(said.data))
                return
            identity = await self._identify(connection, said)
        except PenstockError as error:
            self._refuse(connection, error)
            return
        connection.sasl = None
        self._let_in(connection, identity)
        now = self._options.now
        connection.send(0, ConnectionTune(now.channel_max, now.frame_max, now.heartbeat_s))

    def _let_in(self, connection: Connection, identity: Identity) -> None:
        connection.identity, connection.user = identity, identity.name
        connection.permissions = self._access.permissions(identity, connection.name)
        connection.publisher = self._broker.publisher()

    def _refuse(self, connection: Connection, error: PenstockError) -> None:
        if not isinstance(error, AmqpError) and _REFUSAL_IS_READ in connection.capabilities:
            raise AmqpError(Fault.LOGIN_REFUSED, 0, mechanism=connection.mechanism) from error
        raise Closed(str(error)) from error

    async def _identify(self, connection: Connection, said: sasl.Login) -> Identity:
        match said:
            case sasl.PasswordLogin(user, password):
                return await self._access.login(self._credentials(connection, user, password))
            case sasl.CertificateLogin():
                return await self._access.login(self._credentials(connection, None, None))
            case sasl.ProvenLogin():
                assert connection.scram_identity is not None
                return connection.scram_identity
        found = self._access.without_login()
        if found is None:
            raise BadCredentials("nobody comes in without a login")
        return found

    def _credentials(self, connection: Connection, user: str | None, password: bytes | None) -> Credentials:
        facts = connection.facts
        is_external = user is None
        return Credentials(
            user,
            password,
            "",
            connection.peer,
            connection.certificate,
            facts.certificate_identity and is_external,
            facts.is_loopback,
        )

    async def tune_ok(self, connection: Connection, method: ConnectionTuneOk) -> None:
        now = self._options.now
        if method.frame_max and not LEAST_FRAME_BYTES <= method.frame_max <= now.frame_max:
            raise Closed(f"a frame_max of {method.frame_max} is not between {LEAST_FRAME_BYTES} and {now.frame_max}")
        if method.frame_max == 0 or (now.channel_max and not 0 < method.channel_max <= now.channel_max):
            raise Closed(
                f"frame_max {method.frame_max} and channel_max {method.channel_max} are beyond what was offered"
            )
        connection.frame_max = method.frame_max
        connection.order.channel_max = method.channel_max
        connection.heartbeat_s = float(method.heartbeat)

    async def open(self, connection: Connection, method: ConnectionOpen) -> None:
        vhost = method.virtual_host
        try:
            identity = self._access.enter(connection.identity, namespace_of_vhost(vhost))
        except NamespaceRefused:
            raise AmqpError(Fault.VHOST_REFUSED, 0, _OPEN, vhost=vhost, user=connection.user) from None
        except (NoSuchNamespace, InvalidArgument):
            raise AmqpError(Fault.NO_VHOST, 0, _OPEN, vhost=vhost) from None
        connection.identity = identity
        connection.permissions = self._access.permissions(identity, connection.name)
        connection.vhost, connection.namespace = vhost, identity.namespace
        connection.send(0, ConnectionOpenOk())
        connection.scanned(True)
        self._connections.opened(connection)

    async def update_secret(self, connection: Connection, method: ConnectionUpdateSecret) -> None:
        """Logged in again, with another password or token."""
        try:
            credentials = self._credentials(connection, connection.user, method.new_secret)
            identity = await self._access.login(credentials, connection.namespace)
        except PenstockError as error:
            raise AmqpError(Fault.SECRET_REFUSED, 0, (10, 70)) from error
        if identity.name != connection.user:
            raise AmqpError(Fault.SECRET_REFUSED, 0, (10, 70))
        connection.identity = identity
        connection.permissions = self._access.permissions(identity, connection.name)
        connection.granted = {}
        connection.send(0, ConnectionUpdateSecretOk())


class _Scram:
    """`sasl.ScramPort`."""

    def __init__(self, login: ScramLogin, connection: Connection) -> None:
        self._login, self._connection = login, connection
        self.user = ""

    def first(self, data: bytes) -> bytes:
        return self._login.first(data)

    def final(self, data: bytes) -> bytes:
        proof, identity = self._login.final(data)
        self.user, self._connection.scram_identity = identity.name, identity
        return proof
