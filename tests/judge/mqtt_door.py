"""MQTT 3.1.1 and 5, over TCP and WebSocket, packet by packet."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tests.judge import reference as said
from tests.judge.doors import PASSWORD, Held
from tests.judge.reference import Sent
from tests.judge.requests import Door, Malformed, Message, Publish, Request, Settle, Subscribe, Unsubscribe
from tests.judge.words import MQTT, Wire, named, unnamed
from tests.support.http_server import RunningServer
from tests.support.mqtt_client import ConnectionEnded, MqttClient
from tests.support.mqtt_wire import publish as publish_bytes
from tests.support.websocket_client import upgrade
from websockets.exceptions import ConnectionClosed

from penstock.codecs.mqtt import packets
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode


@dataclass
class MqttConnection:
    server: RunningServer
    door: Door
    name: str
    prefix: str
    answers: dict[int, Wire] = field(default_factory=dict)
    got: dict[int, list[Held]] = field(default_factory=dict)
    is_ended: bool = False
    delivered: list[Sent] = field(default_factory=list)
    settles_deliveries: bool = False

    def __post_init__(self) -> None:
        self._version = Version.V3_1_1 if self.door.kind == "mqtt3" else Version.V5
        listener = "mqtt_ws" if self.door.kind == "ws5" else "mqtt"
        self._client = MqttClient(self.server.server.addresses[listener], self._version, self.name)
        if self.door.kind == "ws5":
            upgrade(self._client)
        answer = self._client.connect(username=self.door.principal, password=PASSWORD.encode())
        assert answer.reason is ReasonCode.SUCCESS, answer
        self._awaited: dict[tuple[str, int], int] = {}
        """requests by kind of answer and packet id; of QoS 2 by the last request with it"""
        self._again: dict[int, list[int]] = {}
        self._unreleased: list[int] = []
        self._last_id = 0

    @property
    def ends_on_refusal(self) -> bool:
        return self._version is Version.V3_1_1

    @property
    def has_headers(self) -> bool:
        return self._version is Version.V5

    # Bytes

    def fitting(self, request: Request) -> Request | None:
        if self._version is Version.V5 and isinstance(request, Settle):
            return request
        if isinstance(request, Publish) and self._version is Version.V3_1_1:
            bare = Message(request.message.value)
            return request._replace(message=bare, partition=None, producer=None)
        return request if isinstance(request, Publish | Subscribe | Unsubscribe | Malformed) else None

    def as_stored(self, request: Request) -> Request:
        if isinstance(request, Publish):
            return request._replace(message=request.message._replace(headers=tuple(_pairs(request))))
        return request

    def encode(self, number: int, request: Request, held: Held | None) -> bytes:
        match request:
            case Publish():
                return self._publish(number, request)
            case Settle():
                assert held is not None
                topic = named(f"$queue/{held.queue}/${request.verb}", self.prefix)
                pairs = (("message-id", held.id), ("consumer-group", held.group), ("delay", "0"))
                packet_id = self._expect("PUBACK", number)
                return self._bytes(packets.Publish(topic, b"", 1, packet_id=packet_id, properties=_user(pairs)))
            case Subscribe(topic_filter, qos):
                wanted = packets.Subscription(named(topic_filter, self.prefix), qos)
                return self._bytes(packets.Subscribe(self._expect("SUBACK", number), (wanted,)))
            case Unsubscribe(topic_filter):
                filters = (named(topic_filter, self.prefix),)
                return self._bytes(packets.Unsubscribe(self._expect("UNSUBACK", number), filters))
            case Malformed():
                return publish_bytes(self._version, b"a/+/wildcard", b"")
        raise AssertionError(f"no such request over MQTT: {request}")

    def _publish(self, number: int, request: Publish) -> bytes:
        message, packet_id = request.message, 0
        if request.is_again:
            packet_id = self._last_id
            self._again.setdefault(packet_id, []).append(number)
        elif request.qos:
            packet_id = self._last_id = self._expect("PUBACK" if request.qos == 1 else "PUBREC", number)
        properties = NO_PROPERTIES if self._version is Version.V3_1_1 else _user(_pairs(request))
        topic = named(request.topic, self.prefix)
        return self._bytes(
            packets.Publish(topic, message.value, request.qos, request.retain, request.is_again, packet_id, properties)
        )

    def _bytes(self, packet: packets.Packet) -> bytes:
        return encode(packet, self._version)

    def _expect(self, kind: str, number: int) -> int:
        packet_id = self._client.next_id()
        self._awaited[kind, packet_id] = number
        return packet_id

    def releases(self) -> bytes:
        """For what was taken in the turn before."""
        ids, self._unreleased = self._unreleased, []
        for packet_id in ids:
            self._awaited["PUBCOMP", packet_id] = -1
        return b"".join([self._bytes(packets.PubRel(packet_id)) for packet_id in ids])

    def fence(self) -> bytes:
        self._awaited["PINGRESP", 0] = -1
        return self._bytes(packets.PingReq())

    def write(self, data: bytes) -> None:
        """What a connection that is over does not take is not sent."""
        with suppress(ConnectionClosed):
            self._client.send_raw(data)

    # Answers

    def finish(self) -> None:
        while not self.is_ended and (self._awaited or self._again):
            self._take_next()

    def drain(self) -> None:
        if not self.is_ended:
            self.write(self.fence())
            self.finish()

    def _take_next(self) -> None:
        try:
            packet = self._client.receive()
        except ConnectionEnded:
            self._end()
            return
        match packet:
            case packets.Publish():
                self._deliver(packet)
            case packets.PubRel():
                self.write(self._bytes(packets.PubComp(packet.packet_id)))
            case packets.PubAck() | packets.PubRec() | packets.PubComp():
                self._answered(packet.type.name, packet.packet_id, (packet.reason,))
            case packets.SubAck() | packets.UnsubAck():
                self._answered(packet.type.name, packet.packet_id, packet.reasons)
            case packets.PingResp():
                self._answered("PINGRESP", 0, ())
            case packets.Disconnect():
                self._end()

    def _answered(self, kind: str, packet_id: int, wire: Wire) -> None:
        number = self._awaited.pop((kind, packet_id), None)
        if number is None:
            later = self._again.get(packet_id)
            assert kind == "PUBREC" and later, f"{self.name}: {kind} {packet_id} answers nothing"
            number = later.pop(0)
            if not later:
                del self._again[packet_id]
        if kind == "PUBREC" and wire == (ReasonCode.SUCCESS,) and packet_id not in self._unreleased:
            self._unreleased.append(packet_id)
        if number >= 0:
            self.answers[number] = wire

    def _deliver(self, packet: packets.Publish) -> None:
        headers = packet.properties.user_properties
        topic = unnamed(packet.topic, self.prefix)
        self.delivered.append(Sent(topic, packet.payload, packet.qos, packet.retain, headers))
        if packet.qos == 1:
            self.write(self._bytes(packets.PubAck(packet.packet_id)))
        elif packet.qos == 2:
            self.write(self._bytes(packets.PubRec(packet.packet_id)))

    def _end(self) -> None:
        self.is_ended = True
        self._awaited.clear()
        self._again.clear()

    def told(self, code: str, request: Request) -> Wire | None:
        if isinstance(request, Publish) and not request.qos:
            return None
        if isinstance(request, Subscribe) and code == said.OK:
            return (ReasonCode(request.qos),)
        if isinstance(request, Unsubscribe) and self._version is Version.V3_1_1:
            return ()
        if isinstance(request, Subscribe) and self._version is Version.V3_1_1:
            return (ReasonCode.UNSPECIFIED_ERROR,)
        return (MQTT[code],)

    def close(self) -> None:
        self._client.close()


def _user(pairs: Sequence[tuple[str, str]]) -> Properties:
    return Properties(user_properties=tuple(pairs))


def _pairs(request: Publish) -> list[tuple[str, str]]:
    found = list(request.message.headers)
    if request.message.key is not None:
        found.append(("partition-key", request.message.key))
    if request.partition is not None:
        found.append(("partition", str(request.partition)))
    if (producer := request.producer) is not None:
        found += [
            ("producer-id", producer.id),
            ("producer-epoch", str(producer.epoch)),
            ("sequence", str(producer.sequence)),
        ]
    return found
