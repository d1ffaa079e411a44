"""exchange.declare, delete, bind and unbind."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from penstock.broker.broker import Broker
from penstock.codecs.amqp091 import methods as m
from penstock.codecs.amqp091.errors import AmqpError, Fault, inequivalent, named, type_name
from penstock.codecs.amqp091.kinds import Field, Table
from penstock.core.errors import ExchangeDiffers, ExchangeInUse, NoSuchBinding, NoSuchExchange
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.exchange_checks import check_arguments, check_binding
from penstock.gateways.amqp091.messages import plain_value
from penstock.gateways.amqp091.rights import CONFIGURE, READ, WRITE, require_exchange
from penstock.queues.exchange_headers import Value
from penstock.queues.exchange_topics import DEFAULT_EXCHANGE
from penstock.queues.exchange_types import TYPES, Destination
from penstock.queues.exchanges import PREDECLARED, Exchange
from penstock.queues.names import RESERVED_PREFIX

DECLARE, DELETE, BIND, UNBIND = (40, 10), (40, 20), (40, 30), (40, 40)
_ALTERNATE = "alternate-exchange"
_WORDS = {"is_durable": "durable", "auto_delete": "auto_delete", "internal": "internal"}


class ExchangeRequests:
    """For all connections."""

    def __init__(self, broker: Broker) -> None:
        self._exchanges = broker.exchanges

    async def take(self, connection: Connection, channel: Channel, method: m.Method) -> None:
        match method:
            case m.ExchangeDeclare():
                await self._declare(connection, channel, method)
            case m.ExchangeDelete():
                await self._delete(connection, channel, method)
            case m.ExchangeBind():
                await self._bind(connection, channel, method)
            case m.ExchangeUnbind():
                await self._unbind(connection, channel, method)

    async def _declare(self, connection: Connection, channel: Channel, method: m.ExchangeDeclare) -> None:
        name, space = method.exchange, self._exchanges.of(connection.namespace)
        what = named("exchange", name, connection.vhost)
        if name == DEFAULT_EXCHANGE:
            raise AmqpError(Fault.DEFAULT_EXCHANGE, channel.number, DECLARE)
        if method.passive:
            if name not in space:
                raise AmqpError(Fault.MISSING, channel.number, DECLARE, what=what)
        else:
            require_exchange(connection, channel, CONFIGURE, name, DECLARE)
            alternate = self._alternate(connection, channel, method, what)
            if method.kind not in TYPES:
                raise AmqpError(Fault.EXCHANGE_TYPE, channel.number, DECLARE, type=method.kind)
            if name not in space and name.startswith(RESERVED_PREFIX):
                raise AmqpError(Fault.RESERVED_NAME, channel.number, DECLARE, kind="exchange", name=name)
            check_arguments(method.kind, method.arguments, channel.number, DECLARE)
            arguments = {key: plain_value(field) for key, field in method.arguments.items() if key != _ALTERNATE}
            if name in space:
                # RabbitMQ compares nothing but the alternate exchange of them.
                arguments = dict(space.find(name).arguments)
            wanted = Exchange(
                name, method.kind, method.durable, method.auto_delete, method.internal, alternate, arguments
            )
            try:
                await self._exchanges.declare(connection.namespace, wanted)
            except ExchangeDiffers as error:
                raise _differs(error, what, channel) from None
        if not method.nowait:
            connection.send(channel.number, m.ExchangeDeclareOk())

    def _alternate(self, connection: Connection, channel: Channel, method: m.ExchangeDeclare, what: str) -> str | None:
        field = method.arguments.get(_ALTERNATE)
        if field is None:
            return None
        if not isinstance(field.value, str):
            reason = f"invalid type '{type_name(field)}' for arg '{_ALTERNATE}' in {what}"
            raise AmqpError(Fault.PRECONDITION, channel.number, DECLARE, detail=reason)
        require_exchange(connection, channel, READ, method.exchange, DECLARE)
        require_exchange(connection, channel, WRITE, field.value, DECLARE)
        return field.value

    async def _delete(self, connection: Connection, channel: Channel, method: m.ExchangeDelete) -> None:
        name = method.exchange
        if name == DEFAULT_EXCHANGE:
            raise AmqpError(Fault.DEFAULT_EXCHANGE, channel.number, DELETE)
        require_exchange(connection, channel, CONFIGURE, name, DELETE)
        if name in PREDECLARED:
            raise AmqpError(Fault.SYSTEM_DELETE, channel.number, DELETE, what=named("exchange", name, connection.vhost))
        try:
            with suppress(NoSuchExchange):  # it is gone, which is what was asked for
                await self._exchanges.delete(connection.namespace, name, if_unused=method.if_unused)
        except ExchangeInUse:
            what = named("exchange", name, connection.vhost)
            raise AmqpError(Fault.IN_USE, channel.number, DELETE, what=what) from None
        if not method.nowait:
            connection.send(channel.number, m.ExchangeDeleteOk())

    async def _bind(self, connection: Connection, channel: Channel, method: m.ExchangeBind) -> None:
        self._refuse(connection, channel, method, BIND)
        space = self._exchanges.of(connection.namespace)
        if method.source in space and method.destination in space:
            kind = space.find(method.source).type
            check_binding(kind, method.routing_key, method.arguments, channel.number, BIND)
        destination = Destination("exchange", method.destination)
        arguments = values_of(method.arguments)
        await self._exchanges.bind(connection.namespace, method.source, destination, method.routing_key, arguments)
        if not method.nowait:
            connection.send(channel.number, m.ExchangeBindOk())

    async def _unbind(self, connection: Connection, channel: Channel, method: m.ExchangeUnbind) -> None:
        self._refuse(connection, channel, method, UNBIND)
        destination = Destination("exchange", method.destination)
        arguments = values_of(method.arguments)
        with suppress(NoSuchBinding, NoSuchExchange):  # it is gone, which is what was asked for
            await self._exchanges.unbind(
                connection.namespace, method.source, destination, method.routing_key, arguments
            )
        if not method.nowait:
            connection.send(channel.number, m.ExchangeUnbindOk())

    def _refuse(
        self, connection: Connection, channel: Channel, method: m.ExchangeBind | m.ExchangeUnbind, at: tuple[int, int]
    ) -> None:
        if DEFAULT_EXCHANGE in (method.source, method.destination):
            raise AmqpError(Fault.DEFAULT_EXCHANGE, channel.number, at)
        require_exchange(connection, channel, WRITE, method.destination, at)
        require_exchange(connection, channel, READ, method.source, at)


def values_of(arguments: Table) -> Mapping[str, Value]:
    return {name: plain_value(field) for name, field in arguments.items()}


def _differs(error: ExchangeDiffers, what: str, channel: Channel) -> AmqpError:
    if error.what == "alternate":
        return inequivalent(_ALTERNATE, what, _said(error.wanted), _said(error.current), channel.number, DECLARE)
    received, current = _field(error.wanted), _field(error.current)
    return inequivalent(error.what, what, received, current, channel.number, DECLARE)


def _said(alternate: object) -> Field | None:
    return None if alternate is None else Field("S", str(alternate))


def _field(value: object) -> Field:
    return Field("t", value) if isinstance(value, bool) else Field("S", str(value))
