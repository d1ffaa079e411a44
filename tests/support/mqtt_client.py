"""An MQTT client for tests: it sends what it is told, right or wrong, and says what came back, with a deadline."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol, TypeVar

from penstock.codecs.mqtt.decode import Decoder, Need
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import MAX_PACKET_BYTES, Version
from penstock.codecs.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
    Will,
)
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode

P = TypeVar("P", bound=Packet)
Address = tuple[str, int]
DEADLINE_S = 8.0
"""long enough for a loaded machine; only a failing test waits for it"""
_PROBE_SHARE = 0.1
"""of the deadline: a server that has not closed by then is asked whether it means to go on"""
_fences = count(1)


class ConnectionEnded(AssertionError):
    """The server closed while a packet was expected."""


class NothingCame(AssertionError):
    """No packet before the deadline."""


class StillOpen(AssertionError):
    """The server should have closed, and answers instead."""


class Wire(Protocol):
    """Of a socket, what a client needs."""

    def sendall(self, data: bytes, /) -> None: ...

    def recv(self, size_bytes: int, /) -> bytes: ...

    def settimeout(self, timeout_s: float | None, /) -> None: ...

    def gettimeout(self) -> float | None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class MqttClient:
    """One network connection. Nothing is acknowledged unless a method says that it is."""

    address: Address
    version: Version
    client_id: str = ""
    deadline_s: float = DEADLINE_S
    connack: ConnAck = field(init=False, default_factory=ConnAck)
    _socket: Wire = field(init=False, repr=False)
    _decoder: Decoder = field(init=False, repr=False)
    _packet_ids: count[int] = field(init=False, repr=False, default_factory=lambda: count(1))
    _set_aside: deque[Packet] = field(init=False, repr=False, default_factory=deque)

    def __post_init__(self) -> None:
        opened = socket.create_connection(self.address, timeout=self.deadline_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = opened
        self._decoder = Decoder(self.version)

    def secure(self, context: ssl.SSLContext, hostname: str = "127.0.0.1") -> None:
        """TLS from here on. OSError if the handshake fails; with TLS 1.3 a server may refuse a client's certificate
        later, which looks like the end of the connection."""
        self._socket = context.wrap_socket(self.bare_socket, server_hostname=hostname)

    @property
    def bare_socket(self) -> socket.socket:
        assert isinstance(self._socket, socket.socket)
        return self._socket

    def go_on_over(self, wire: Wire) -> None:
        """What is sent and received goes through it from here on."""
        self._socket = wire

    def wait_at_most(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        self._socket.settimeout(deadline_s)

    # What is sent

    def send(self, *packets: Packet) -> None:
        self.send_raw(b"".join(encode(packet, self.version) for packet in packets))

    def send_raw(self, data: bytes) -> None:
        """A server that has closed already is told no more: the test sees that when it reads."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def next_id(self) -> int:
        return next(self._packet_ids)

    def connect(
        self,
        *,
        clean: bool = True,
        keep_alive_s: int = 0,
        will: Will | None = None,
        username: str | None = None,
        password: bytes | None = None,
        properties: Properties = NO_PROPERTIES,
    ) -> ConnAck:
        """CONNACK, whatever it says. From here on the decoder refuses packets above the client's maximum."""
        self._decoder.max_packet_bytes = properties.maximum_packet_bytes or MAX_PACKET_BYTES
        self.send(
            Connect(self.version, self.client_id, clean, keep_alive_s, will, username, password, properties),
        )
        self.connack = self.expect(ConnAck)
        return self.connack

    def subscribe(
        self, *filters: str | Subscription, qos: int = 0, properties: Properties = NO_PROPERTIES
    ) -> tuple[ReasonCode, ...]:
        """The reasons of the SUBACK, which must be the next packet but for messages on older subscriptions."""
        packet_id = self.next_id()
        wanted = tuple(Subscription(f, qos) if isinstance(f, str) else f for f in filters)
        self.send(Subscribe(packet_id, wanted, properties))
        answer = self.expect(SubAck)
        assert answer.packet_id == packet_id
        return answer.reasons

    def unsubscribe(self, *filters: str) -> tuple[ReasonCode, ...]:
        packet_id = self.next_id()
        self.send(Unsubscribe(packet_id, filters))
        answer = self.expect(UnsubAck)
        assert answer.packet_id == packet_id
        return answer.reasons

    def publish(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        *,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> None:
        """Sent, and with QoS 1 or 2 taken by the server: its whole handshake is done."""
        packet_id = self.next_id() if qos else 0
        self.send(Publish(topic, payload, qos, retain, packet_id=packet_id, properties=properties))
        if qos == 1:
            assert_accepted(self.expect(PubAck), packet_id)
        elif qos == 2:
            assert_accepted(self.expect(PubRec), packet_id)
            self.send(PubRel(packet_id))
            assert_accepted(self.expect(PubComp), packet_id)

    def ping(self) -> None:
        """Both ways are open, and nothing else was under way."""
        self.send(PingReq())
        self.expect(PingResp)

    def disconnect(self, reason: ReasonCode = ReasonCode.SUCCESS, properties: Properties = NO_PROPERTIES) -> None:
        """DISCONNECT, and the server's end of the connection."""
        self.send(Disconnect(reason, properties))
        self.expect_closed()

    def cut(self) -> None:
        """The network fails: reset, without a DISCONNECT."""
        self.bare_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self._socket.close()

    def close(self) -> None:
        self._socket.close()

    # What came

    def receive(self) -> Packet:
        return self._set_aside.popleft() if self._set_aside else self._receive_new()

    def _receive_new(self) -> Packet:
        while True:
            packet = self._decoder.next_packet()
            if packet is not Need.DATA:
                return packet
            self._decoder.receive(self._read())

    def receive_raw(self, size_bytes: int) -> bytes:
        """Exactly so many bytes, undecoded. Not after `receive`, which may hold some already."""
        got = b""
        while len(got) < size_bytes:
            got += self._read(size_bytes - len(got))
        return got

    def _read(self, size_bytes: int = 1 << 16) -> bytes:
        try:
            data = self._socket.recv(size_bytes)
        except TimeoutError:
            raise NothingCame(f"{self.client_id}: nothing came in {self._socket.gettimeout()} s") from None
        except ConnectionResetError:
            data = b""
        if not data:
            raise ConnectionEnded(f"{self.client_id}: the server closed the connection")
        return data

    def expect(self, kind: type[P]) -> P:
        packet = self.receive()
        assert isinstance(packet, kind), f"{self.client_id}: expected {kind.__name__}, and got {packet}"
        return packet

    def expect_message(self) -> Publish:
        """The next PUBLISH, acknowledged to the end of its handshake."""
        message = self.expect(Publish)
        self.acknowledge(message)
        return message

    def acknowledge(self, message: Publish) -> None:
        if message.qos == 1:
            self.send(PubAck(message.packet_id))
        elif message.qos == 2:
            self.send(PubRec(message.packet_id))
            self._await_pubrel(message.packet_id)
            self.send(PubComp(message.packet_id))

    def _await_pubrel(self, packet_id: int) -> None:
        """What comes between is kept for `receive`."""
        while not isinstance(packet := self._receive_new(), PubRel):
            self._set_aside.append(packet)
        assert packet.packet_id == packet_id

    def expect_payloads(self, expected: Sequence[bytes]) -> list[Publish]:
        """So many messages, acknowledged, with just these payloads in this order."""
        messages = [self.expect_message() for _ in expected]
        assert [message.payload for message in messages] == list(expected)
        return messages

    def came(self) -> list[Packet]:
        """Everything that comes before the answer to a ping: what the server had for this client already."""
        self.send(PingReq())
        found: list[Packet] = []
        while not isinstance(packet := self.receive(), PingResp):
            found.append(packet)
        return found

    def seen_after(self, publisher: MqttClient, qos: int = 0) -> list[Packet]:
        """Everything that comes before a message which the publisher sends now: what it published before is there, or
        never comes. Nothing else is acknowledged. With QoS 0 it passes a full receive maximum; with QoS 1 it is queued
        behind what a session holds."""
        topic, packet_id = f"fence/{next(_fences)}", self.next_id()
        self.send(Subscribe(packet_id, (Subscription(topic, qos),)))
        found: list[Packet] = []
        while not isinstance(packet := self.receive(), SubAck) or packet.packet_id != packet_id:
            found.append(packet)
        publisher.publish(topic, b"fence", qos)
        while not isinstance(packet := self.receive(), Publish) or packet.topic != topic:
            found.append(packet)
        self.acknowledge(packet)
        return found

    def seen_after_retained(self, publisher: MqttClient) -> list[Packet]:
        """The same with a retained message: what a server reads from its disk may come later than what it passes on."""
        topic = f"fence/{next(_fences)}"
        publisher.publish(topic, b"fence", 1, retain=True)
        self.send(Subscribe(self.next_id(), (Subscription(topic),)))
        found: list[Packet] = []
        while not isinstance(packet := self.receive(), Publish) or packet.topic != topic:
            found.append(packet)
        publisher.publish(topic, b"", 1, retain=True)
        self.expect_message()
        return [packet for packet in found if not isinstance(packet, SubAck)]

    def expect_only(self, count: int, publisher: MqttClient) -> list[Publish]:
        """So many messages, unacknowledged, and no more of those which the publisher sent, or the server kept."""
        found = [self.expect(Publish) for _ in range(count)]
        self.expect_nothing_from(publisher)
        assert self.seen_after_retained(publisher) == []
        return found

    def expect_nothing_from(self, publisher: MqttClient) -> None:
        assert self.seen_after(publisher) == []
        assert self.seen_after(publisher, qos=1) == []

    def ended(self) -> list[Packet]:
        """The packets up to the end of the connection, which must come."""
        found: list[Packet] = []
        try:
            self._socket.settimeout(self.deadline_s * _PROBE_SHARE)
            with suppress(NothingCame):
                while True:
                    found.append(self.receive())
            self._socket.settimeout(self.deadline_s)
            self.send(PingReq())
            while not isinstance(packet := self.receive(), PingResp):
                found.append(packet)
        except ConnectionEnded:
            return found
        raise StillOpen(f"{self.client_id}: the server did not close the connection; it sent {list(map(type, found))}")

    def expect_closed(self) -> Disconnect | ConnAck | None:
        """The server closes; the word it closes with is returned, and other packets before it do not matter."""
        words = [packet for packet in self.ended()[-1:] if isinstance(packet, Disconnect | ConnAck)]
        return words[0] if words else None


def assert_accepted(answer: PubAck | PubRec | PubComp, packet_id: int) -> None:
    assert answer.packet_id == packet_id
    assert not answer.reason.is_refusal, answer


def messages_of(packets: Sequence[Packet]) -> list[Publish]:
    return [packet for packet in packets if isinstance(packet, Publish)]
