"""Against a second implementation: its tables, its properties, and its client talking to our codec."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paho.mqtt import client as paho
from paho.mqtt import properties as paho_properties
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode as PahoReason
from paho.mqtt.subscribeoptions import SubscribeOptions
from tests.support.mqtt_packets import properties

from penstock.codecs.mqtt.decode import Decoder, Need
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import MAX_REMAINING_BYTES, PacketType, Version
from penstock.codecs.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    RetainHandling,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
    Will,
)
from penstock.codecs.mqtt.properties import TABLE, WILL, Kind, Properties, properties_bytes, read_properties
from penstock.codecs.mqtt.reasons import REASONS, ReasonCode
from penstock.codecs.mqtt.wire import Reader

V4, V5 = Version.V3_1_1, Version.V5
# Their Properties has no types.
PahoProperties: Any = paho_properties.Properties
PAHO_WILL = PacketTypes.WILLMESSAGE
PLACES = sorted({place for row in TABLE for place in row.packets})


def paho_place(place: int) -> int:
    return PAHO_WILL if place == WILL else place


def paho_name(id: int) -> str:
    names: dict[int, str] = {number: name for name, number in PahoProperties(PacketTypes.CONNECT).names.items()}
    return names[id].replace(" ", "")


def test_the_tables_of_properties_agree() -> None:
    theirs = PahoProperties(PacketTypes.CONNECT)
    assert {row.id for row in TABLE} == set(theirs.properties)
    for row in TABLE:
        assert {paho_place(place) for place in row.packets} == set(theirs.properties[row.id][1]), row.name


def test_the_tables_of_reasons_agree() -> None:
    """Theirs leaves 0x99 out of CONNACK, where section 3.2.2.2 has it."""
    theirs = {
        (code, packet) for code, names in PahoReason.names.items() for packets in names.values() for packet in packets
    }
    ours = {(int(code), int(packet)) for packet, codes in REASONS.items() for code in codes}
    assert ours - theirs == {(0x99, PacketTypes.CONNACK)}
    assert theirs <= ours


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_bytes_of_properties_agree(place: int, data: st.DataObject) -> None:
    """Theirs has no maximum packet size above that of a packet's body, ours all that four bytes can say."""
    made = data.draw(properties(place).filter(lambda made: (made.maximum_packet_bytes or 1) <= MAX_REMAINING_BYTES))
    ours, theirs = properties_bytes(made, place), PahoProperties(paho_place(place))
    for row in TABLE:
        value = getattr(made, row.name)
        for item in value if row.is_tuple else [value] * (value is not None):
            theirs.__setattr__(paho_name(row.id), int(item) if row.kind is Kind.FLAG else item)
    packed = theirs.pack()
    assert sorted(packed) == sorted(ours)
    assert read_properties(Reader(packed, 0, len(packed)), place) == made


class Peers:
    """A paho client at one end of a pair of sockets, our codec as the server at the other."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.ours, theirs = socket.socketpair()
        self.events: list[tuple[Any, ...]] = []
        self.decoder = Decoder()
        protocol = paho.MQTTv5 if version is V5 else paho.MQTTv311
        self.client = paho.Client(CallbackAPIVersion.VERSION2, "paho", protocol=protocol)
        self.client._create_socket_connection = lambda: theirs  # type: ignore[method-assign]  # no listener is needed
        self.client.on_connect = lambda _c, _u, flags, reason, _p: self.note("connect", flags.session_present, reason)
        self.client.on_message = lambda _c, _u, message: self.note("message", message)
        self.client.on_subscribe = lambda _c, _u, mid, reasons, _p: self.note("subscribe", mid, reasons)
        self.client.on_unsubscribe = lambda _c, _u, mid, reasons, _p: self.note("unsubscribe", mid, reasons)
        self.client.on_publish = lambda _c, _u, mid, reason, _p: self.note("publish", mid, reason)
        self.client.on_disconnect = lambda _c, _u, _f, reason, _p: self.note("disconnect", reason)

    def note(self, *event: Any) -> None:
        self.events.append(event)

    def heard(self) -> Packet:
        """What the client wrote next."""
        while isinstance(packet := self.decoder.next_packet(), Need):
            self.client.loop_write()
            self.decoder.receive(self.ours.recv(65_536))
        return packet

    def say(self, packet: Packet) -> tuple[Any, ...]:
        """The first event that the client makes of it, if any."""
        before = len(self.events)
        self.ours.sendall(encode(packet, self.version))
        self.client.loop_read()
        return next(iter(self.events[before:]), ())

    def connect(self, made: paho_properties.Properties | None = None) -> Packet:
        self.client.connect("penstock", keepalive=30, properties=made)
        return self.heard()

    def close(self) -> None:
        self.client.on_disconnect = None
        self.client.disconnect()
        if (left := self.client.socket()) is not None:
            left.close()
        self.client._sock_close()
        self.ours.close()


@pytest.fixture(params=list(Version), ids=str)
def peers(request: pytest.FixtureRequest) -> Iterator[Peers]:
    made = Peers(request.param)
    yield made
    made.close()


@pytest.fixture
def peers_5() -> Iterator[Peers]:
    made = Peers(V5)
    yield made
    made.close()


def test_its_connect_is_understood_and_our_connack_too(peers: Peers) -> None:
    peers.client.username_pw_set("user", "secret")
    peers.client.will_set("will/topic", b"gone", qos=2, retain=True)
    packet = peers.connect()
    will = Will("will/topic", b"gone", 2, True)
    assert packet == Connect(peers.version, "paho", True, 30, will, "user", b"secret")
    event = peers.say(ConnAck())
    assert (event[0], event[1], event[2].value) == ("connect", False, 0)


def test_its_connect_of_5_brings_its_properties(peers_5: Peers) -> None:
    made = PahoProperties(PacketTypes.CONNECT)
    made.SessionExpiryInterval, made.ReceiveMaximum, made.UserProperty = 100, 7, [("a", "1"), ("a", "2")]
    packet = peers_5.connect(made)
    assert isinstance(packet, Connect)
    users = (("a", "1"), ("a", "2"))
    assert packet.properties == Properties(session_expiry_interval_s=100, receive_maximum=7, user_properties=users)
    refusal = ConnAck(reason=ReasonCode.BANNED, properties=Properties(reason_string="no"))
    assert peers_5.say(refusal)[2].value == ReasonCode.BANNED


def test_a_refusal_of_3_1_1_is_understood() -> None:
    peers = Peers(V4)
    peers.connect()
    event = peers.say(ConnAck(reason=ReasonCode.BAD_USER_NAME_OR_PASSWORD))
    peers.close()
    assert str(event[2]) == "Bad user name or password"


def test_subscriptions_come_and_go(peers: Peers) -> None:
    peers.connect()
    peers.say(ConnAck())
    peers.client.subscribe([("a/+", 1), ("b/#", 2)] if peers.version is V4 else _options())
    packet = peers.heard()
    assert isinstance(packet, Subscribe)
    assert packet.subscriptions == _subscriptions(peers.version)
    event = peers.say(SubAck(packet.packet_id, (ReasonCode.GRANTED_QOS_1, ReasonCode.UNSPECIFIED_ERROR)))
    assert event[:2] == ("subscribe", packet.packet_id) and [reason.value for reason in event[2]] == [1, 0x80]
    peers.client.unsubscribe(["a/+", "b/#"])
    leaving = peers.heard()
    assert isinstance(leaving, Unsubscribe) and leaving.filters == ("a/+", "b/#")
    answer = UnsubAck(leaving.packet_id, (ReasonCode.SUCCESS, ReasonCode.NO_SUBSCRIPTION_EXISTED))
    assert peers.say(answer)[:2] == ("unsubscribe", leaving.packet_id)


def _options() -> list[tuple[str, SubscribeOptions]]:
    return [
        ("a/+", SubscribeOptions(qos=1, noLocal=True, retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)),
        ("b/#", SubscribeOptions(qos=2, retainAsPublished=True)),
    ]


def _subscriptions(version: Version) -> tuple[Subscription, ...]:
    if version is V4:
        return Subscription("a/+", 1), Subscription("b/#", 2)
    first = Subscription("a/+", 1, no_local=True, retain_handling=RetainHandling.NEVER)
    return first, Subscription("b/#", 2, retain_as_published=True)


def test_it_publishes_in_every_qos(peers: Peers) -> None:
    peers.connect()
    peers.say(ConnAck())
    for qos in (0, 1, 2):
        peers.client.publish("t", bytes(300), qos, retain=True)
        packet = peers.heard()
        assert packet == Publish("t", bytes(300), qos, True, packet_id=getattr(packet, "packet_id", 0))
        if qos == 1:
            assert peers.say(PubAck(packet.packet_id))[:2] == ("publish", packet.packet_id)
        elif qos == 2:
            assert peers.say(PubRec(packet.packet_id)) == ()
            assert peers.heard() == PubRel(packet.packet_id)
            assert peers.say(PubComp(packet.packet_id))[:2] == ("publish", packet.packet_id)


def test_it_takes_what_we_publish_in_every_qos(peers: Peers) -> None:
    peers.connect()
    peers.say(ConnAck())
    first = peers.say(Publish("t/é", b"zero", 0, True))[1]
    assert (first.topic, first.payload, first.retain) == ("t/é", b"zero", True)
    assert peers.say(Publish("t", b"one", 1, packet_id=7))[1].payload == b"one"
    assert peers.heard() == PubAck(7)
    peers.say(Publish("t", b"two", 2, packet_id=8))
    assert peers.heard() == PubRec(8)
    assert peers.say(PubRel(8))[1].payload == b"two"
    assert peers.heard() == PubComp(8)


def test_it_reads_the_properties_we_publish(peers_5: Peers) -> None:
    peers_5.connect()
    peers_5.say(ConnAck())
    users = (("k", "v"), ("k", "w"))
    made = Properties(
        content_type="text", correlation_data=b"\0", subscription_identifiers=(1, 300), user_properties=users
    )
    read = peers_5.say(Publish("t", properties=made))[1].properties
    assert (read.ContentType, read.CorrelationData, read.SubscriptionIdentifier) == ("text", b"\0", [1, 300])
    assert read.UserProperty == list(users)


def test_it_understands_why_we_leave(peers_5: Peers) -> None:
    peers_5.connect()
    peers_5.say(ConnAck())
    event = peers_5.say(Disconnect(ReasonCode.SERVER_SHUTTING_DOWN))
    assert event[0] == "disconnect" and event[1].value == ReasonCode.SERVER_SHUTTING_DOWN


def test_it_leaves_with_its_will(peers_5: Peers) -> None:
    peers_5.connect()
    peers_5.say(ConnAck())
    peers_5.client.disconnect(PahoReason(PacketType.DISCONNECT, identifier=4))
    assert peers_5.heard() == Disconnect(ReasonCode.DISCONNECT_WITH_WILL)
