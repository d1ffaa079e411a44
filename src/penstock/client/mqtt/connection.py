"""One connection to a server, from CONNECT to its end: packets both ways in their order, and the keep alive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from penstock.client.errors import ConnectionLost
from penstock.client.mqtt.errors import MqttRefused
from penstock.client.mqtt.link import Link, open_link
from penstock.client.mqtt.options import MqttOptions
from penstock.codecs.mqtt.decode import Decoder, Need
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import MAX_PACKET_BYTES, Sender
from penstock.codecs.mqtt.packets import Auth, ConnAck, Connect, Disconnect, Packet, PingReq
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.codecs.mqtt.state import Connection as Order
from penstock.core.errors import TooLarge

T = TypeVar("T")
# A server waits one and a half times the keep alive; a ping may take a while to get there.
_PING_AFTER = 0.75


async def open_connection(options: MqttOptions, connect: Connect) -> Connection:
    """Accepted by the server. ConnectionLost or MqttRefused if not, and PacketError if it speaks no MQTT."""
    link: Link | None = None
    try:
        async with asyncio.timeout(options.connect_timeout_s):
            link = await open_link(options)
            connection = Connection(link, options)
            await connection.greet(connect)
    except TimeoutError as error:
        _abort(link)
        raise ConnectionLost(
            f"no answer from {options!s} in {options.connect_timeout_s:g} s: does a server of MQTT listen there?"
        ) from error
    except BaseException:
        _abort(link)
        raise
    connection.keep_alive(connect.keep_alive_s)
    return connection


def _abort(link: Link | None) -> None:
    if link is not None:
        link.abort()


class Connection:
    """Errors of the network are ConnectionLost. `connack` is what the server answered."""

    def __init__(self, link: Link, options: MqttOptions) -> None:
        self._link, self._options = link, options
        self._decoder = Decoder(options.version, options.max_packet_bytes)
        self._order = Order()
        self._received: list[Packet] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sent_s = self._received_s = 0.0
        self._is_receiving = False
        self._lost: ConnectionLost | None = None
        self.connack = ConnAck()

    async def greet(self, connect: Connect) -> None:
        self._send_in_order(connect)
        authentication = self._options.authentication
        while True:
            packet = await self._next()
            if isinstance(packet, Auth) and authentication is not None:
                data = authentication.answer(packet.properties.authentication_data or b"")
                properties = Properties(authentication_method=authentication.method, authentication_data=data)
                self._send_in_order(Auth(ReasonCode.CONTINUE_AUTHENTICATION, properties))
            elif isinstance(packet, ConnAck):
                self._accept(packet)
                return

    def _accept(self, packet: ConnAck) -> None:
        if packet.reason.is_refusal:
            raise MqttRefused("the connection", packet.reason, packet.properties.reason_string)
        if self._options.authentication is not None:
            self._options.authentication.finish(packet.properties.authentication_data or b"")
        self.connack = packet

    @property
    def max_packet_bytes(self) -> int:
        """The longest packet that the server takes."""
        return self.connack.properties.maximum_packet_bytes or MAX_PACKET_BYTES

    def check_size(self, size_bytes: int) -> None:
        """TooLarge if the server takes no packet of that size."""
        if size_bytes > self.max_packet_bytes:
            raise TooLarge("a packet for this server", size_bytes, self.max_packet_bytes)

    def send(self, data: bytes) -> None:
        """One packet; TooLarge if the server does not take it."""
        self.check_size(len(data))
        self.send_all(data)

    def send_all(self, data: bytes) -> None:
        if data and self._lost is None:
            self._link.send(data)
            self._sent_s = _now()

    def send_packet(self, packet: Packet) -> None:
        self.send_all(encode(packet, self._options.version))

    async def drain(self) -> None:
        await self._guarded(self._link.drain())

    async def receive(self) -> list[Packet]:
        """One at least. PacketError, told to the server, for what it must not send; ConnectionLost at the end."""
        while not self._received:
            self._is_receiving = True
            try:
                data = await self._guarded(self._link.receive())
            finally:
                self._is_receiving = False
            if not data:
                raise self._lost or ConnectionLost(f"{self._options!s} closed the connection")
            self._received_s = _now()
            self._decode(data)
        received, self._received = self._received, []
        return received

    def _decode(self, data: bytes) -> None:
        self._decoder.receive(data)
        while (packet := self._decoder.next_packet()) is not Need.DATA:
            self._order.take(Sender.SERVER, packet)
            self._received.append(packet)

    async def _next(self) -> Packet:
        if not self._received:
            self._received = await self.receive()
        return self._received.pop(0)

    def _send_in_order(self, packet: Packet) -> None:
        self._order.take(Sender.CLIENT, packet)
        self.send_packet(packet)

    async def _guarded(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except OSError as error:
            raise self._lost or ConnectionLost(
                f"the connection to {self._options!s} broke ({error.strerror or error})"
            ) from error

    async def close(self, packet: Disconnect | None = None) -> None:
        """With a word to the server, if there is one."""
        self.stop()
        if packet is not None and self._order.is_open and self._lost is None:
            self._send_in_order(packet)
        await self._link.close()

    def abort(self) -> None:
        self.stop()
        self._link.abort()

    def stop(self) -> None:
        """No more pings."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def keep_alive(self, asked_s: int) -> None:
        told_s = self.connack.properties.server_keep_alive_s
        keep_alive_s = asked_s if told_s is None else told_s
        if keep_alive_s:
            self._sent_s = self._received_s = _now()
            self._beat(keep_alive_s * _PING_AFTER)

    def _beat(self, interval_s: float) -> None:
        """A ping for each interval in which nothing was sent; nothing received in two is a dead connection, unless
        nobody reads because the messages are not taken."""
        now_s = _now()
        if self._is_receiving and now_s - self._received_s >= 2 * interval_s:
            self._lost = ConnectionLost(f"{self._options!s} has not answered for {2 * interval_s:g} s")
            self._link.abort()
            return
        if now_s - self._sent_s >= interval_s or now_s - self._received_s >= interval_s:
            self.send_packet(PingReq())
        self._timer = asyncio.get_running_loop().call_later(interval_s, self._beat, interval_s)


def _now() -> float:
    return asyncio.get_running_loop().time()
