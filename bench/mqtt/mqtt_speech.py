"""MQTT 5 in bulk: Penstock's own codec for the handshake, its kernels for everything that is counted."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TypeVar

from bench.mqtt.link import Link, PeerFailed
from bench.mqtt.ring import Ring, payload
from bench.mqtt.speech import TOPICS, Acknowledged, ConsumerParts, Delivered, PublisherParts, first_place, slots
from penstock.codecs.mqtt.decode import decode
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import (
    ConnAck,
    Connect,
    PingReq,
    PingResp,
    Publish,
    SubAck,
    Subscribe,
    Subscription,
)
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.kernels import mqtt_columns
from penstock.kernels.mqtt_encode import encode_acks
from penstock.kernels.mqtt_scan import Scanner

_VERSION = Version.V5
_ROWS = 1 << 16
_MAX_PACKET_BYTES = 1 << 20
_REFUSED = 0x80
_AT_A_TIME = 100
QUEUE, GROUP = "bench", "bench"
# One for all connections: what a scan found is used up before the next.
_SCANNER = Scanner(_ROWS)
P = TypeVar("P", ConnAck, SubAck, PingResp)


def topic(number: int, prefix: str = "bench") -> str:
    return f"{prefix}/t{number % TOPICS}"


def connect_packet(client_id: str, in_flight: int = 65535) -> bytes:
    return encode(Connect(_VERSION, client_id, properties=Properties(receive_maximum=in_flight)), _VERSION)


def connected(address: tuple[str, int], client_id: str, in_flight: int = 65535, window: int = 0) -> Link:
    """Logged in with a clean start; without keep alive, so that nothing but the load is sent. The server must allow the
    window, and is told how many the client takes in flight."""
    [link] = _logged_in([Link(address, client_id)], in_flight, window)
    return link


def connected_many(address: tuple[str, int], client_ids: Sequence[str], source: str = "") -> list[Link]:
    """The same, a hundred at a time: as many as a listening socket has room for everywhere."""
    found: list[Link] = []
    for first in range(0, len(client_ids), _AT_A_TIME):
        found += _logged_in([Link(address, name, source) for name in client_ids[first : first + _AT_A_TIME]])
    return found


def _logged_in(links: list[Link], in_flight: int = 65535, window: int = 0) -> list[Link]:
    for link in links:
        link.send(connect_packet(link.name, in_flight))
    for link in links:
        answer = _answer(link, ConnAck)
        if answer.reason is not ReasonCode.SUCCESS:
            raise PeerFailed(f"{link.name} was refused: {answer.reason.name}")
        if (allowed := answer.properties.receive_maximum or 65535) < window:
            raise PeerFailed(f"the server allows {allowed} messages in flight, and the load needs {window}")
    return links


def subscribe(links: Sequence[Link], filter: str, qos: int, properties: Properties = NO_PROPERTIES) -> None:
    for link in links:
        link.send(encode(Subscribe(1, (Subscription(filter, qos),), properties), _VERSION))
    for link in links:
        answer = _answer(link, SubAck)
        if answer.reasons[0] != qos:
            raise PeerFailed(f"the subscription to {filter!r} was answered with {answer.reasons[0].name}")


def _answer(link: Link, kind: type[P]) -> P:
    """The next packet, read byte by byte where need be: what follows it stays in the socket."""
    head = link.exactly(2)
    while head[-1] & 0x80:
        head += link.exactly(1)
    left = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(head[1:]))
    packet = decode(head + link.exactly(left), _VERSION)
    if not isinstance(packet, kind):
        raise PeerFailed(f"{link.name} got {packet!r} instead of {kind.__name__}")
    return packet


class MqttAcks:
    """PUBACKs, which must come in the order of the messages and refuse none."""

    def __init__(self, packet_ids: int) -> None:
        """Ids are 1 to so many, then 1 again."""
        self._last, self._next = packet_ids, 0
        self._ids = array("i", range(1, packet_ids + 1)) * 2

    def read(self, data: bytearray, stop: int) -> Acknowledged:
        count, position = 0, 0
        while True:
            rows = _scan(data, position, stop)
            if rows:
                self._check(rows)
            count, position = count + rows, _SCANNER.position
            if _SCANNER.why != mqtt_columns.ROWS_FULL:
                return Acknowledged(count, position)

    def _check(self, rows: int) -> None:
        if _SCANNER.column(mqtt_columns.PACKET_ID) != self._ids[self._next : self._next + rows]:
            raise PeerFailed("acknowledgements came out of order, or for what was not sent")
        if (worst := max(_SCANNER.column(mqtt_columns.REASON))) >= _REFUSED:
            raise PeerFailed(f"a message was refused: {ReasonCode(worst).name}")
        self._next = (self._next + rows) % self._last


class MqttDeliveries:
    """PUBLISHes; those with QoS 1 are answered with PUBACK, which settles what came from a queue."""

    def __init__(self, qos: int) -> None:
        self._qos = qos

    def read(self, data: bytearray, stop: int) -> Delivered:
        rows = _scan(data, 0, stop)
        ids = _SCANNER.column(mqtt_columns.PACKET_ID)
        answer = encode_acks(mqtt_columns.PUBACK, ids, None, _VERSION) if rows and self._qos else b""
        return Delivered(_SCANNER.column(mqtt_columns.PAYLOAD_START), _SCANNER.position, answer)

    def fence(self, link: Link) -> None:
        link.send(encode(PingReq(), _VERSION))
        _answer(link, PingResp)


def _scan(data: bytearray, start: int, stop: int) -> int:
    rows = _SCANNER.scan(data, start, stop, _VERSION, _MAX_PACKET_BYTES, 0, 1, True)
    if _SCANNER.why == mqtt_columns.OTHER_PACKET:
        at = _SCANNER.position
        raise PeerFailed(f"the server sent {decode(bytes(data[at : at + _SCANNER.size]), _VERSION)!r}")
    if _SCANNER.why == mqtt_columns.BAD_PACKET:
        raise PeerFailed(f"the server sent a bad packet, reason {_SCANNER.reason:#04x}")
    return rows


class MqttSpeech:
    """QoS 1 to a queue that the topics are bound to, deliveries settled by PUBACK; and publish and subscribe."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def publisher(self, number: int, window: int, is_mixed: bool = False) -> PublisherParts:
        topics = [topic(place) for place in range(TOPICS)] if is_mixed else [topic(number)]
        return self.to_topics(number, topics, 1, window)

    def to_topics(self, number: int, topics: list[str], qos: int, window: int) -> PublisherParts:
        """To the topics in turn; they have one length."""
        first, names = first_place(number), (topics * slots(window))[: slots(window)]
        frames = [
            encode(Publish(name, payload(first + place), qos, packet_id=place + 1 if qos else 0), _VERSION)
            for place, name in enumerate(names)
        ]
        link = connected(self._address, f"publisher-{number}", window=window)
        return PublisherParts(link, Ring(frames, first), MqttAcks(len(frames)))

    def consumer(self, number: int, in_flight: int) -> ConsumerParts:
        link = connected(self._address, f"consumer-{number}", in_flight)
        asked = (("consumer-group", GROUP), ("ack-mode", "puback"), ("prefetch", str(in_flight)))
        subscribe([link], f"$queue/{QUEUE}", 1, Properties(user_properties=asked))
        return ConsumerParts(link, MqttDeliveries(qos=1))

    def subscriber(self, number: int, filter: str, qos: int) -> ConsumerParts:
        link = connected(self._address, f"subscriber-{number}")
        subscribe([link], filter, qos)
        return ConsumerParts(link, MqttDeliveries(qos))

    def subscribers(self, count: int, filter: str, qos: int) -> list[ConsumerParts]:
        """All with the same filter."""
        links = connected_many(self._address, [f"subscriber-{number}" for number in range(count)])
        subscribe(links, filter, qos)
        return [ConsumerParts(link, MqttDeliveries(qos)) for link in links]
