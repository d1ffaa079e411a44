"""Methods that are neither publishes nor settlements, each to whom it is for."""

from __future__ import annotations

from collections.abc import Coroutine

import msgspec

from penstock.codecs.amqp091 import methods as m
from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.core.errors import PenstockError
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.confirms import Confirms
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.consuming import Consuming
from penstock.gateways.amqp091.exchange_requests import ExchangeRequests
from penstock.gateways.amqp091.faults import fault_of
from penstock.gateways.amqp091.login import Login
from penstock.gateways.amqp091.modes import Modes
from penstock.gateways.amqp091.queue_requests import QueueRequests

# Who published on the channel sees it in what these answer.
_LOOKING = (m.QueueDeclare, m.QueueDelete, m.QueuePurge, m.BasicGet, m.TxSelect)
_NAMING = frozenset({m.ExchangeDeclare.class_id, m.QueueDeclare.class_id})
_NAMES = ("exchange", "queue", "source", "destination")
_LINE_ENDS = str.maketrans("", "", "\r\n")
Work = Coroutine[object, None, None]


class Requests:
    """For all connections."""

    def __init__(
        self,
        login: Login,
        consuming: Consuming,
        queues: QueueRequests,
        exchanges: ExchangeRequests,
        modes: Modes,
    ) -> None:
        self._login, self._consuming, self._queues, self._exchanges = login, consuming, queues, exchanges
        self._modes = modes

    async def on_connection(self, connection: Connection, method: m.Method) -> None:
        match method:
            case m.ConnectionStartOk():
                await self._login.start_ok(connection, method)
            case m.ConnectionSecureOk():
                await self._login.secure_ok(connection, method)
            case m.ConnectionTuneOk():
                await self._login.tune_ok(connection, method)
            case m.ConnectionOpen():
                await self._login.open(connection, method)
            case m.ConnectionUpdateSecret():
                await self._login.update_secret(connection, method)
            case m.ConnectionClose():
                # Who is told that it is over finds none of what was its own.
                for number in list(connection.channels):
                    connection.drop_channel(number)
                self._queues.gone(connection)
                connection.send(0, m.ConnectionCloseOk())
                connection.close()
            case m.ConnectionCloseOk():
                connection.close()

    async def on_channel(self, connection: Connection, channel: Channel, method: m.Method) -> None:
        """AmqpError, which names the method, for what cannot be done."""
        try:
            await self._take(connection, channel, without_line_ends(method))
        except PenstockError as error:
            at = method.class_id, method.method_id
            raise fault_of(error, connection.vhost, channel.number, at) from error

    async def _take(self, connection: Connection, channel: Channel, method: m.Method) -> None:
        at = method.class_id, method.method_id
        if channel.under_way and isinstance(method, _LOOKING):
            await channel.is_committed()
        if isinstance(method, m.ChannelClose):
            self._consuming.close(connection, channel)
            connection.drop_channel(channel.number)
            connection.close_channel_ok(channel.number)
        elif method.class_id == m.ExchangeDeclare.class_id:
            await self._exchanges.take(connection, channel, method)
        elif method.class_id == m.QueueDeclare.class_id:
            await self._queues.take(connection, channel, method)
        elif method.class_id == m.BasicQos.class_id:
            await self._consuming.take(connection, channel, method)
        elif isinstance(method, m.ChannelFlow):
            if not method.active:
                raise AmqpError(Fault.FLOW, channel.number, at)
            connection.send(channel.number, m.ChannelFlowOk(True))
        elif isinstance(method, m.AccessRequest):
            connection.send(channel.number, m.AccessRequestOk(1))
        elif isinstance(method, m.ConfirmSelect):
            if channel.transaction is not None:
                raise AmqpError(Fault.TX_TO_CONFIRM, channel.number, at)
            channel.confirms = channel.confirms or Confirms(channel.number)
            if not method.nowait:
                connection.send(channel.number, m.ConfirmSelectOk())
        else:
            await self._modes.take(connection, channel, method)


def without_line_ends(method: m.Method) -> m.Method:
    """Names of exchanges and queues are taken without them, as RabbitMQ does."""
    if method.class_id not in _NAMING:
        return method
    names = {name: getattr(method, name, "") for name in _NAMES}
    found = {name: text.translate(_LINE_ENDS) for name, text in names.items() if "\n" in text or "\r" in text}
    return msgspec.structs.replace(method, **found) if found else method
