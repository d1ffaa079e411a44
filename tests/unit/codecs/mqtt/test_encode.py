from __future__ import annotations

import pytest

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PubAck,
    Publish,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
    Will,
)
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import InvalidArgument, PenstockError, TooLarge

V4, V5 = Version.V3_1_1, Version.V5
USER = Properties(user_properties=(("k", "v"),))
LONG = "x" * 65_536


@pytest.mark.parametrize(
    ("packet", "version", "expected"),
    [
        (Connect(V4, "c", keep_alive_s=60), V4, "100d 0004 4d515454 04 02 003c 0001 63"),
        (Connect(V5, "c"), V5, "100e 0004 4d515454 05 02 0000 00 0001 63"),
        (ConnAck(True), V4, "2002 01 00"),
        (ConnAck(reason=ReasonCode.NOT_AUTHORIZED), V5, "2003 00 87 00"),
        (Publish("t", b"p", 1, True, True, 10), V4, "3b06 0001 74 000a 70"),
        (Publish("t", b"p"), V5, "3005 0001 74 00 70"),
        (Publish("", b"", properties=Properties(topic_alias=5)), V5, "3006 0000 03 23 0005"),
        (PubAck(1), V4, "4002 0001"),
        (PubAck(1), V5, "4002 0001"),
        (PubAck(1, ReasonCode.QUOTA_EXCEEDED), V5, "4003 0001 97"),
        (PubRel(1, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND), V5, "6203 0001 92"),
        (PubAck(1, properties=USER), V5, "400b 0001 00 07 26 0001 6b 0001 76"),
        (Subscribe(1, (Subscription("t", 2),)), V4, "8206 0001 0001 74 02"),
        (Unsubscribe(1, ("t",)), V4, "a205 0001 0001 74"),
        (SubAck(1, (ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED)), V4, "9004 0001 00 80"),
        (UnsubAck(1, (ReasonCode.NO_SUBSCRIPTION_EXISTED,)), V4, "b002 0001"),
        (Disconnect(), V5, "e000"),
        (Disconnect(ReasonCode.SERVER_SHUTTING_DOWN), V5, "e001 8b"),
        (PingReq(), V4, "c000"),
        (Auth(), V5, "f000"),
    ],
    ids=lambda value: value.type.name if hasattr(value, "type") else "",
)
def test_packets_byte_for_byte(packet: Packet, version: Version, expected: str) -> None:
    assert encode(packet, version) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    "packet",
    [
        Publish("t", qos=3, packet_id=1),
        Publish("t", qos=1),
        Publish("t", qos=1, packet_id=65_536),
        Publish("t", packet_id=1),
        Publish("t", dup=True),
        Publish(""),
        Publish("a/+"),
        Publish("a\0"),
        Publish("\ud800"),
        Publish(LONG),
        Publish("t", properties=Properties(user_properties=((LONG, ""),))),
        Publish("t", properties=Properties(user_properties=(("nul", "\0"),))),
        Publish("t", properties=Properties(correlation_data=bytes(65_536))),
        Publish("t", properties=Properties(message_expiry_interval_s=1 << 32)),
        Publish("t", properties=Properties(message_expiry_interval_s=-1)),
        Publish("t", properties=Properties(topic_alias=0)),
        Publish("t", properties=Properties(topic_alias=65_536)),
        Publish("t", properties=Properties(payload_format_indicator=2)),
        Publish("t", properties=Properties(response_topic="a/#")),
        Publish("t", properties=Properties(subscription_identifiers=(0,))),
        Publish("t", properties=Properties(subscription_identifiers=(1 << 28,))),
        Publish("t", properties=Properties(session_expiry_interval_s=1)),
        Connect(V5, LONG),
        Connect(V4, "c"),
        Connect(V5, "c", keep_alive_s=65_536),
        Connect(V5, "c", will=Will("t", qos=3)),
        Connect(V5, "c", will=Will("a/+")),
        Connect(V5, "c", will=Will("t", bytes(65_536))),
        Connect(V5, "c", will=Will("t", properties=Properties(topic_alias=1))),
        Connect(V5, "c", password=bytes(65_536)),
        Connect(V5, "c", properties=Properties(authentication_data=b"x")),
        ConnAck(True, ReasonCode.NOT_AUTHORIZED),
        ConnAck(reason=ReasonCode.KEEP_ALIVE_TIMEOUT),
        PubAck(0),
        PubAck(1, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND),
        Subscribe(1, ()),
        Subscribe(1, (Subscription("a/#/b"),)),
        Subscribe(1, (Subscription("t", qos=3),)),
        Subscribe(1, (Subscription("$share/g"),)),
        Subscribe(1, (Subscription("$share/g/t", no_local=True),)),
        Subscribe(1, (Subscription("t"),), Properties(subscription_identifiers=(1, 2))),
        Unsubscribe(1, ()),
        Unsubscribe(1, ("",)),
        SubAck(1, ()),
        UnsubAck(1, ()),
        SubAck(1, (ReasonCode.NO_SUBSCRIPTION_EXISTED,)),
        Disconnect(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION),
        Auth(ReasonCode.CONTINUE_AUTHENTICATION),
    ],
    ids=lambda packet: repr(packet)[:70],
)
def test_what_5_cannot_send_is_refused(packet: Packet) -> None:
    with pytest.raises((InvalidArgument, TooLarge)):
        encode(packet, V5)


@pytest.mark.parametrize(
    "packet",
    [
        Auth(),
        Publish("t", properties=USER),
        Publish("", properties=Properties(topic_alias=1)),
        Connect(V4, "c", properties=USER),
        Connect(V4, "c", will=Will("t", properties=USER)),
        Connect(V4, "c", password=b"p"),
        Connect(V4, "", clean_start=False),
        ConnAck(reason=ReasonCode.MALFORMED_PACKET),
        PubAck(1, ReasonCode.QUOTA_EXCEEDED),
        Disconnect(ReasonCode.DISCONNECT_WITH_WILL),
        Subscribe(1, (Subscription("t", no_local=True),)),
    ],
    ids=lambda packet: repr(packet)[:70],
)
def test_what_only_5_can_say_is_refused_in_3_1_1(packet: Packet) -> None:
    with pytest.raises(InvalidArgument):
        encode(packet, V4)


class _Claimed(bytes):
    """As long as it says, and nothing of it in memory."""

    def __len__(self) -> int:
        return 268_435_455


def test_a_packet_longer_than_its_length_can_say_is_refused() -> None:
    with pytest.raises(TooLarge) as caught:
        encode(Publish("t", _Claimed()), V4)
    assert isinstance(caught.value, PenstockError) and caught.value.size == 268_435_458


@pytest.mark.parametrize("body_bytes", [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152])
def test_lengths_take_one_to_four_bytes(body_bytes: int) -> None:
    if body_bytes < 3:
        assert encode(PingReq(), V4)[1:] == b"\0"
        return
    encoded = encode(Publish("t", bytes(body_bytes - 3)), V4)
    length_bytes = 1 + (body_bytes > 127) + (body_bytes > 16_383) + (body_bytes > 2_097_151)
    assert len(encoded) == 1 + length_bytes + body_bytes
