"""`AsyncMqttClient`: publish and subscribe from asyncio, over connections that come and go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Self

from penstock.client.backoff import backoff_s
from penstock.client.errors import ConnectionLost
from penstock.client.mqtt.connection import Connection, open_connection
from penstock.client.mqtt.errors import MqttRefused
from penstock.client.mqtt.message import Message
from penstock.client.mqtt.options import MqttOptions
from penstock.client.mqtt.outbox import Parcel, parcel_of
from penstock.client.mqtt.session import Session
from penstock.client.mqtt.settling import Verdict, settlement
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.errors import PacketError
from penstock.codecs.mqtt.kinds import Sender, Version
from penstock.codecs.mqtt.packets import (
    ConnAck,
    Disconnect,
    Publish,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
)
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import DISCONNECT_OF, ReasonCode
from penstock.core.closing import AsyncClosing
from penstock.core.errors import Closed, InvalidArgument, PenstockError

logger = logging.getLogger("penstock.client")

Filter = str | Subscription
_CLOSED = "the client was closed: make another one to go on"
_NOT_CONNECTED = "the client is not connected: use `async with`, or await connect() first"


class AsyncMqttClient(AsyncClosing):
    """Use with `async with`, from one event loop. Messages come by `messages()`, in the order in which the server sent
    them; while as many are waiting as may, nothing is read, also no answers: take them in a task of their own if the
    same client publishes much. A lost connection is made anew (`MqttOptions.reconnect`): calls wait for it, filters
    are subscribed again, messages that were under way are sent again."""

    def __init__(self, options: MqttOptions = MqttOptions()) -> None:  # noqa: B008  # a frozen value
        self.options = options
        self._session = Session(options, self._lose_for_good)
        self._connection: Connection | None = None
        # Whoever sends has the turn; only whoever has the turn waits for a change.
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._ended: PenstockError | None = None
        self._attempts = 0
        self._since_s = 0.0

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    @property
    def client_id(self) -> str:
        """As asked for, or as the server gave it."""
        return self._session.client_id

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def unanswered(self) -> int:
        """Messages of QoS 1 and 2 that are sent, or about to be, and not acknowledged."""
        return len(self._session.outbox)

    async def connect(self) -> ConnAck:
        """The first connection: tried once. ConnectionLost, MqttRefused, PacketError if the server speaks no MQTT."""
        if self._life is not None or self._ended is not None:
            raise Closed("a client connects once: make another one")
        connection = await open_connection(self.options, self._session.connect_packet(is_again=False))
        self._begin(connection)
        self._life = asyncio.get_running_loop().create_task(self._live(connection))
        return connection.connack

    async def close(self, disconnect: Disconnect = Disconnect()) -> None:  # noqa: B008  # a frozen value
        """Says goodbye. What is not acknowledged fails with Closed; messages received before can still be taken."""
        connection, self._connection = self._connection, None
        self._end(Closed(_CLOSED))
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
        if connection is not None:
            await connection.close(disconnect)

    async def publish(
        self,
        topic: str,
        payload: bytes | str = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> ReasonCode:
        """Returns when the server has acknowledged it; of QoS 0 when it was written. MqttRefused if the server said no,
        ConnectionLost if the connection went and is not made anew: then it may have arrived or not."""
        return await (await self.begin_publish(topic, payload, qos=qos, retain=retain, properties=properties))

    async def begin_publish(
        self,
        topic: str,
        payload: bytes | str = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> asyncio.Future[ReasonCode]:
        """Returns as soon as it is on its way, which may take a while when the server takes no more; the future is
        what publish() returns. Many at a time without a task each."""
        data = payload.encode() if isinstance(payload, str) else payload
        packet = Publish(topic, data, qos, retain, properties=properties)
        async with self._turn:
            connection = await self._connected()
            _check_offer(packet, connection.connack)
            if qos:
                return await self._send_parcel(parcel_of(packet, self.options.version))
            connection.send(encode(packet, self.options.version))
            await connection.drain()
        done: asyncio.Future[ReasonCode] = asyncio.get_running_loop().create_future()
        done.set_result(ReasonCode.SUCCESS)
        return done

    async def subscribe(
        self, *filters: Filter, qos: int = 0, properties: Properties = NO_PROPERTIES
    ) -> tuple[ReasonCode, ...]:
        """The QoS granted to each filter. MqttRefused if one was; the others are subscribed all the same."""
        asked = tuple(each if isinstance(each, Subscription) else Subscription(each, qos) for each in filters)
        answer = await self._ask(Subscribe(1, asked, properties))
        self._session.subscribed(asked, properties, answer)
        return answer.reasons

    async def unsubscribe(self, *filters: str) -> tuple[ReasonCode, ...]:
        """What the server says to each filter; nothing in MQTT 3.1.1."""
        answer = await self._ask(Unsubscribe(1, filters))
        self._session.unsubscribed(filters)
        return answer.reasons

    async def receive(self) -> Message:
        """The next message. Closed after close(); if the connection is lost for good, the error that ended it."""
        message = await self._session.inbox.take()
        if not self.options.manual_ack:
            self.ack(message)
        return message

    async def messages(self) -> AsyncIterator[Message]:
        """Until close()."""
        while True:
            try:
                message = await self.receive()
            except Closed:
                return
            yield message

    def ack(self, message: Message) -> None:
        """The message is done with, for the server. Nothing happens if it is too late: then it comes again."""
        packet = self._session.arrivals.ack(message)
        if packet is not None and self._connection is not None:
            self._connection.send_packet(packet)

    async def settle(
        self, verdict: Verdict, *messages: Message, delay_s: float | None = None, reason: str = ""
    ) -> ReasonCode:
        """Messages of one queue, consumed with `ack-mode` explicit, the default of MQTT 5. Returns when that is on
        disk; MqttRefused if one of them is settled already or has gone to somebody else."""
        packet = settlement(verdict, messages, delay_s, reason)
        return await self.publish(packet.topic, qos=packet.qos, properties=packet.properties)

    async def _connected(self) -> Connection:
        while self._ended is None:
            if self._connection is not None:
                return self._connection
            if self._life is None:
                raise Closed(_NOT_CONNECTED)
            await self._change()
        raise self._ended

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _send_parcel(self, parcel: Parcel) -> asyncio.Future[ReasonCode]:
        while True:
            connection = await self._connected()
            connection.check_size(len(parcel.data))
            if (data := self._session.outbox.publish(parcel)) is not None:
                break
            await self._change()
        connection.send_all(data)
        try:
            # Lost meanwhile, it is sent again, or its future tells.
            with contextlib.suppress(ConnectionLost):
                await connection.drain()
        except asyncio.CancelledError:
            parcel.done.cancel()
            raise
        return parcel.done

    async def _ask(self, packet: Subscribe | Unsubscribe) -> SubAck | UnsubAck:
        # Before it gets its identifier: what cannot be sent must not hold one.
        size_bytes = len(encode(packet, self.options.version))
        async with self._turn:
            while True:
                connection = await self._connected()
                connection.check_size(size_bytes)
                if (request := self._session.outbox.request(packet.type)) is not None:
                    break
                await self._change()
            packet_id, answer = request
            connection.send_packet(replace(packet, packet_id=packet_id))
        return await answer

    def _begin(self, connection: Connection) -> None:
        self._session.begin(connection)
        self._connection = connection
        self._since_s = _now_s()
        self._changed.set()

    async def _live(self, connection: Connection) -> None:
        """Until the client is closed, or lost for good."""
        try:
            again: Connection | None = connection
            while again is not None:
                lost = await self._serve(again)
                self._connection = None
                again = await self._reconnect(lost)
        except Exception as error:
            self._end(ConnectionLost(f"the client failed ({error!r}): report it"))
            logger.exception("client failed server=%s", self.options)

    async def _serve(self, connection: Connection) -> PenstockError:
        """Take what comes until the connection ends; why it did."""
        try:
            while True:
                for packet in await connection.receive():
                    self._session.take(connection, packet)
                self._changed.set()
                await self._session.inbox.space()
        except PacketError as error:
            await connection.close(_goodbye(error, self.options.version))
            return error
        except (ConnectionLost, MqttRefused) as error:
            connection.abort()
            return error

    async def _reconnect(self, lost: PenstockError) -> Connection | None:
        """None if it is not to be, or not to be had: the client has ended then."""
        policy = self.options.reconnect
        if policy is not None and _now_s() - self._since_s > policy.longest_delay_s:
            self._attempts = 0
        while (
            self._ended is None and policy is not None and _is_passing(lost) and self._attempts != policy.max_attempts
        ):
            logger.warning("connection lost server=%s reason=%s attempt=%d", self.options, lost, self._attempts)
            await asyncio.sleep(backoff_s(policy.first_delay_s, policy.longest_delay_s, self._attempts))
            self._attempts += 1
            try:
                connection = await open_connection(self.options, self._session.connect_packet(is_again=True))
            except PenstockError as error:
                lost = error
                continue
            self._begin(connection)
            return connection
        self._end(lost)
        return None

    def _lose_for_good(self, error: MqttRefused) -> None:
        self._end(error)
        if self._connection is not None:
            self._connection.abort()

    def _end(self, error: PenstockError) -> None:
        self._ended = self._ended or error
        self._session.end(self._ended)
        self._changed.set()


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _is_passing(lost: PenstockError) -> bool:
    """Whether another connection may fare better."""
    return lost.is_passing if isinstance(lost, MqttRefused) else isinstance(lost, ConnectionLost)


def _check_offer(packet: Publish, connack: ConnAck) -> None:
    """What the server said it does not take would end the connection."""
    offered = connack.properties
    if offered.maximum_qos is not None and packet.qos > offered.maximum_qos:
        raise InvalidArgument(f"the server takes QoS up to {offered.maximum_qos}, not {packet.qos}: give less")
    if packet.retain and offered.retain_available is False:
        raise InvalidArgument("the server keeps no retained messages: publish without retain")


def _goodbye(error: PacketError, version: Version) -> Disconnect | None:
    if version is Version.V3_1_1:
        return None
    is_allowed = error.reason in DISCONNECT_OF[Sender.CLIENT]
    return Disconnect(error.reason if is_allowed else ReasonCode.PROTOCOL_ERROR)
