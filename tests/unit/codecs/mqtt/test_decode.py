"""What each clause refuses, byte for byte. A packet is written in hex: header, then parts."""

from __future__ import annotations

import pytest

from penstock.codecs.mqtt.decode import Decoder, Need, decode
from penstock.codecs.mqtt.encode import encode, encode_refusal
from penstock.codecs.mqtt.errors import MalformedPacket, PacketError, ProtocolError
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
)
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.kernels.mqtt_scan import Scanner

V4, V5 = Version.V3_1_1, Version.V5
BOTH = pytest.mark.parametrize("version", Version, ids=str)
ANSWERS = [PubAck(9), PubRec(9), PubRel(9), PubComp(9)]


def framed(first: int, body: str) -> bytes:
    raw = bytes.fromhex(body)
    return bytes([first, len(raw)]) + raw


def connect(level: str = "04", flags: str = "02", rest: str = "0000 0001 63", name: str = "0004 4d515454") -> bytes:
    return framed(0x10, f"{name} {level} {flags} {rest}")


def refused(packet: bytes, version: Version | None) -> PacketError:
    with pytest.raises(PacketError) as caught:
        decode(packet, version)
    return caught.value


def malformed(packet: bytes, version: Version | None) -> None:
    fault = refused(packet, version)
    assert isinstance(fault, MalformedPacket) and fault.reason is ReasonCode.MALFORMED_PACKET


def protocol_error(packet: bytes, version: Version | None, reason: ReasonCode = ReasonCode.PROTOCOL_ERROR) -> None:
    fault = refused(packet, version)
    assert isinstance(fault, ProtocolError) and fault.reason is reason


def test_a_connect_of_3_1_1_byte_for_byte() -> None:
    packet = decode(connect(flags="c2", rest="003c 0001 63 0001 75 0001 70"), None)
    assert packet == Connect(V4, "c", keep_alive_s=60, username="u", password=b"p")


def test_a_connect_of_5_with_a_will_byte_for_byte() -> None:
    rest = "0000 05 11 0000000a 0001 63 05 18 00000007 0001 74 0001 70"
    packet = decode(connect("05", "2e", rest), None)
    assert isinstance(packet, Connect) and packet.will is not None
    assert packet.properties == Properties(session_expiry_interval_s=10)
    assert (packet.will.topic, packet.will.payload, packet.will.qos, packet.will.retain) == ("t", b"p", 1, True)
    assert packet.will.properties == Properties(will_delay_interval_s=7)


def test_mqtt_3_1_0_1_the_first_packet_is_connect() -> None:
    protocol_error(b"\xc0\x00", None)


def test_the_first_packet_is_refused_by_its_first_byte() -> None:
    decoder = Decoder()
    decoder.receive(b"\x30")
    with pytest.raises(ProtocolError):
        decoder.next_packet()


def test_mqtt_3_1_2_1_another_protocol_name_is_refused_without_an_answer() -> None:
    fault = refused(connect(name="0004 4d515458"), None)
    assert fault.reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION and encode_refusal(fault, False) == b""


@pytest.mark.parametrize(
    ("packet", "answer"),
    [
        (connect("03", name="0006 4d5149736470"), "20020001"),
        (connect("83", name="0006 4d5149736470"), "20020001"),
        (connect("03"), "20020001"),
        (connect("84"), "20020001"),
        (connect("06"), None),
    ],
    ids=["3.1", "3.1 bridge", "MQTT of level 3", "3.1.1 bridge", "level 6"],
)
def test_mqtt_3_1_2_2_another_version_is_refused_in_a_form_its_client_can_read(packet: bytes, answer: str) -> None:
    fault = refused(packet, None)
    assert fault.reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION
    said = encode_refusal(fault, is_open=False)
    if answer is not None:
        assert said == bytes.fromhex(answer)
    else:
        told = decode(said, V5)
        assert isinstance(told, ConnAck) and told.reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION


@pytest.mark.parametrize(("level", "rest"), [("04", "0000 0001 63"), ("05", "0000 00 0001 63")])
def test_mqtt_3_1_2_3_the_reserved_connect_flag_is_0(level: str, rest: str) -> None:
    malformed(connect(level, "03", rest), None)


@pytest.mark.parametrize("flags", ["0a", "12", "22"])
def test_mqtt_3_1_2_11_without_a_will_it_has_neither_qos_nor_retain(flags: str) -> None:
    malformed(connect(flags=flags), None)


def test_mqtt_3_1_2_12_a_will_has_no_qos_3() -> None:
    malformed(connect(flags="1e", rest="0000 0001 63 0001 74 0000"), None)


def test_mqtt_3_1_2_22_in_3_1_1_a_password_needs_a_user_name() -> None:
    malformed(connect(flags="42", rest="0000 0001 63 0001 70"), None)
    assert decode(connect("05", "42", "0000 00 0001 63 0001 70"), None) == Connect(V5, "c", password=b"p")


def test_mqtt_3_1_3_8_in_3_1_1_an_empty_client_id_needs_a_clean_session() -> None:
    fault = refused(connect(flags="00", rest="0000 0000"), None)
    assert encode_refusal(fault, is_open=False) == bytes.fromhex("20020002")
    assert decode(connect("05", "00", "0000 00 0000"), None) == Connect(V5, "", clean_start=False)


def test_authentication_data_needs_its_method() -> None:
    protocol_error(connect("05", "02", "0000 04 16 0001 61 0001 63"), None)


def test_a_refused_connect_of_5_is_answered_in_5() -> None:
    fault = refused(connect("05", "03", "0000 00 0001 63"), None)
    told = decode(encode_refusal(fault, is_open=False), V5)
    assert told == ConnAck(reason=ReasonCode.MALFORMED_PACKET, properties=Properties(reason_string=fault.detail))
    assert encode_refusal(fault, is_open=False, max_packet_bytes=10) == bytes.fromhex("2003008100")
    assert encode_refusal(fault, is_open=False, max_packet_bytes=4) == b""


def test_an_open_connection_is_told_by_disconnect_and_3_1_1_by_nothing() -> None:
    packet = framed(0x30, "0001 2b")
    assert encode_refusal(refused(packet, V4), is_open=True) == b""
    told = decode(encode_refusal(refused(packet, V5), is_open=True), V5)
    assert isinstance(told, Disconnect) and told.reason is ReasonCode.TOPIC_NAME_INVALID


def test_a_reason_that_disconnect_cannot_have_is_told_as_a_protocol_error() -> None:
    fault = ProtocolError("a second CONNECT", ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, V5)
    told = decode(encode_refusal(fault, is_open=True), V5)
    assert isinstance(told, Disconnect) and told.reason is ReasonCode.PROTOCOL_ERROR


@BOTH
@pytest.mark.parametrize("first", [0x11, 0x21, 0x41, 0x50 | 8, 0x60, 0x63, 0x80, 0x8A, 0x91, 0xA0, 0xB2, 0xC1, 0xE1])
def test_mqtt_2_1_3_1_reserved_flags_are_as_they_must_be(first: int, version: Version) -> None:
    malformed(bytes([first, 0]), version)


@BOTH
def test_packets_of_type_0_do_not_exist(version: Version) -> None:
    malformed(b"\x00\x00", version)


def test_auth_does_not_exist_in_3_1_1() -> None:
    malformed(b"\xf0\x00", V4)


@BOTH
@pytest.mark.parametrize("data", ["", "c0", "c001", "c00000", "c0ffffff7f"])
def test_decode_takes_exactly_one_packet(data: str, version: Version) -> None:
    malformed(bytes.fromhex(data), version)


@BOTH
def test_a_length_has_four_bytes_at_most(version: Version) -> None:
    decoder = Decoder(version)
    decoder.receive(bytes.fromhex("c080808080"))
    with pytest.raises(MalformedPacket):
        decoder.next_packet()


def test_mqtt_1_5_5_1_a_length_takes_no_more_bytes_than_it_needs() -> None:
    malformed(bytes.fromhex("c08000"), V5)
    malformed(bytes.fromhex("40 05 0001 00 8000"), V5)
    assert decode(bytes.fromhex("c08000"), V4) == PingReq()
    overlong = connect("05", "02", "0000 00 0001 63")
    malformed(overlong[:1] + bytes([overlong[1] | 0x80, 0]) + overlong[2:], None)


@BOTH
@pytest.mark.parametrize("packet", ["d00100", "c00100", "500100", "b00100", "e0020000 00"])
def test_a_packet_of_the_wrong_length_is_malformed(packet: str, version: Version) -> None:
    refused(bytes.fromhex(packet), version)


# The kernel decodes these in bulk, and tells their senders the same.
BAD_PUBLISHES = [
    ("3.3.1-4 QoS 3", 0x36, "0001 74 0001", "0001 74 0001 00", 0x81),
    ("3.3.1-2 a duplicate of QoS 0", 0x38, "0001 74", "0001 74 00", 0x81),
    ("2.2.1-3 identifier 0", 0x32, "0001 74 0000", "0001 74 0000 00", 0x82),
    ("3.3.2-2 a wildcard", 0x30, "0003 612f23", "0003 612f23 00", 0x90),
    ("1.5.4-2 NUL", 0x30, "0001 00", "0001 00 00", 0x81),
    ("1.5.4-1 a surrogate", 0x30, "0003 eda080", "0003 eda080 00", 0x81),
    ("a topic that is cut", 0x30, "0005 74", "0005 74 00", 0x81),
    ("no identifier", 0x32, "0001 74", "0001 74", 0x81),
    ("a subscription identifier 0", 0x30, None, "0001 74 02 0b00", 0x82),
    ("4.7.3-1 no topic in 3.1.1", 0x30, "0000", None, 0x81),
    ("no topic and no alias", 0x30, None, "0000 00", 0x82),
    ("3.3.2-8 alias 0", 0x30, None, "0000 03 230000", 0x94),
    ("an alias twice", 0x30, None, "0000 06 230001 230001", 0x82),
    ("payload format 2", 0x30, None, "0001 74 02 0102", 0x82),
    ("3.3.2-14 a wildcard to respond to", 0x30, None, "0001 74 04 08 0001 2b", 0x90),
    ("nowhere to respond to", 0x30, None, "0001 74 03 08 0000", 0x90),
    ("a property of CONNECT", 0x30, None, "0001 74 05 11 00000001", 0x81),
    ("a property of nothing", 0x30, None, "0001 74 02 7f01", 0x81),
    ("properties longer than the packet", 0x30, None, "0001 74 05 0100", 0x81),
    ("a property longer than the properties", 0x30, None, "0001 74 03 02 0000 0000", 0x81),
]


@pytest.mark.parametrize(("first", "old", "new", "reason"), [case[1:] for case in BAD_PUBLISHES], ids=[
    case[0] for case in BAD_PUBLISHES
])  # fmt: skip
def test_a_bad_publish_is_refused_by_codec_and_kernel(
    first: int, old: str | None, new: str | None, reason: int
) -> None:
    scanner = Scanner(4)
    for version, body in ((V4, old), (V5, new)):
        if body is None:
            continue
        packet = framed(first, body)
        scanner.scan(packet, 0, len(packet), version, 1 << 20, 65_535, 2, True)
        assert (refused(packet, version).reason, scanner.reason) == (reason, reason)


@pytest.mark.parametrize("packet", ANSWERS, ids=lambda packet: packet.type.name)
def test_answers_to_publish_have_a_short_form(packet: PubAck) -> None:
    first = packet.type << 4 | (2 if isinstance(packet, PubRel) else 0)
    for body in ("0009", "0009 00", "0009 00 00"):
        assert decode(framed(first, body), V5) == packet
    assert decode(framed(first, "0009"), V4) == packet
    malformed(framed(first, "0009 00"), V4)
    malformed(framed(first, "00"), V5)
    protocol_error(framed(first, "0000"), V5)
    protocol_error(framed(first, "0009 18"), V5)


@BOTH
def test_mqtt_3_8_3_2_a_subscribe_names_a_filter(version: Version) -> None:
    protocol_error(framed(0x82, "0001" if version is V4 else "0001 00"), version)


@BOTH
def test_mqtt_3_10_3_2_an_unsubscribe_names_a_filter(version: Version) -> None:
    protocol_error(framed(0xA2, "0001" if version is V4 else "0001 00"), version)


@pytest.mark.parametrize("options", ["03", "40", "80"])
def test_mqtt_3_8_3_5_reserved_bits_of_options_are_0(options: str) -> None:
    malformed(framed(0x82, f"0001 00 0001 74 {options}"), V5)


@pytest.mark.parametrize("options", ["03", "04", "08", "10", "80"])
def test_mqtt_3_8_3_4_in_3_1_1_options_are_a_qos(options: str) -> None:
    malformed(framed(0x82, f"0001 0001 74 {options}"), V4)


def test_retain_handling_3_does_not_exist() -> None:
    protocol_error(framed(0x82, "0001 00 0001 74 30"), V5)


def test_mqtt_3_8_3_4_a_shared_subscription_is_not_no_local() -> None:
    protocol_error(framed(0x82, "0001 00 000a 24736861 72652f672f74 04"), V5)


@BOTH
@pytest.mark.parametrize("filter", ["", "a/#/b", "a#", "a+", "$share/g", "$share//t", "$share/g/", "$share/+/t"])
def test_mqtt_4_7_1_an_ill_formed_filter_is_refused(filter: str, version: Version) -> None:
    length = f"{len(filter):04x}"
    body = f"0001 {'00' if version is V5 else ''} {length} {filter.encode().hex()} 00"
    assert refused(framed(0x82, body), version).reason is ReasonCode.TOPIC_FILTER_INVALID


def test_a_filter_of_more_levels_than_a_tree_takes_is_refused() -> None:
    packet = b"\x82" + bytes([0xAF, 0x02]) + bytes.fromhex("0001 00 0129") + b"/" * 297 + b"\0"
    assert refused(packet, V5).reason is ReasonCode.TOPIC_FILTER_INVALID


def test_a_subscription_identifier_comes_once_in_subscribe_and_often_in_publish() -> None:
    protocol_error(framed(0x82, "0001 04 0b01 0b02 0001 74 00"), V5)
    packet = decode(framed(0x30, "0001 74 04 0b01 0b02"), V5)
    assert isinstance(packet, Publish) and packet.properties.subscription_identifiers == (1, 2)


@pytest.mark.parametrize(
    "properties", ["21 0000", "27 00000000", "17 02", "19 02", "11 00000001 11 00000001"], ids=lambda text: text[:2]
)
def test_values_that_a_property_must_not_have(properties: str) -> None:
    size = f"{len(bytes.fromhex(properties)):02x}"
    protocol_error(connect("05", "02", f"0000 {size} {properties} 0001 63"), None)


def test_user_properties_keep_their_order_and_repeat() -> None:
    pairs = (("b", "1"), ("a", "2"), ("b", "3"))
    packet = decode(encode(Publish("t", properties=Properties(user_properties=pairs)), V5), V5)
    assert isinstance(packet, Publish) and packet.properties.user_properties == pairs
    assert packet.properties.user_values("b") == ["1", "3"]


def test_mqtt_1_5_4_3_a_byte_order_mark_stays() -> None:
    packet = decode(framed(0x30, "0004 efbbbf 74"), V4)
    assert isinstance(packet, Publish) and packet.topic == "\ufefft"


@BOTH
def test_mqtt_3_2_2_1_acknowledge_flags_above_the_first_are_0(version: Version) -> None:
    malformed(framed(0x20, "02 00" + ("00" if version is V5 else "")), version)


def test_mqtt_3_2_2_6_a_refusal_has_no_session() -> None:
    protocol_error(framed(0x20, "01 87 00"), V5)
    protocol_error(framed(0x20, "01 05"), V4)


@pytest.mark.parametrize("code", range(6))
def test_return_codes_of_3_1_1_are_read_and_written(code: int) -> None:
    packet = framed(0x20, f"00 {code:02x}")
    assert encode(decode(packet, V4), V4) == packet


def test_return_codes_that_3_1_1_does_not_have_are_refused() -> None:
    malformed(framed(0x20, "00 06"), V4)
    malformed(framed(0x90, "0001 87"), V4)


def test_subacks_and_unsubacks_byte_for_byte() -> None:
    assert decode(framed(0x90, "0001 0280"), V4) == SubAck(1, (ReasonCode.GRANTED_QOS_2, ReasonCode.UNSPECIFIED_ERROR))
    assert decode(framed(0xB0, "0001"), V4) == UnsubAck(1)
    assert decode(framed(0xB0, "0001 00 11"), V5) == UnsubAck(1, (ReasonCode.NO_SUBSCRIPTION_EXISTED,))
    protocol_error(framed(0xB0, "0001 00"), V5)


def test_disconnect_has_short_forms() -> None:
    assert decode(b"\xe0\x00", V4) == decode(b"\xe0\x00", V5) == Disconnect()
    assert decode(framed(0xE0, "04"), V5) == Disconnect(ReasonCode.DISCONNECT_WITH_WILL)
    malformed(framed(0xE0, "00"), V4)


def test_auth_names_its_method() -> None:
    protocol_error(framed(0xF0, "18 00"), V5)
    protocol_error(framed(0xF0, "18"), V5)
    assert decode(b"\xf0\x00", V5) == Auth()
    packet = Auth(ReasonCode.CONTINUE_AUTHENTICATION, Properties(authentication_method="m", authentication_data=b"d"))
    assert decode(framed(0xF0, "18 08 15 0001 6d 16 0001 64"), V5) == packet


def test_a_decoder_reads_on_behind_connect_in_its_version() -> None:
    decoder = Decoder()
    subscribe = Subscribe(1, (Subscription("t", 1),), Properties(subscription_identifiers=(7,)))
    decoder.receive(encode(Connect(V5, "c"), V5) + encode(subscribe, V5))
    assert decoder.next_packet() == Connect(V5, "c") and decoder.version is V5
    assert decoder.next_packet() == subscribe
    assert decoder.next_packet() is Need.DATA


def test_a_packet_too_large_is_refused_by_its_header() -> None:
    with pytest.raises(ProtocolError) as caught:
        _ask(V5, bytes.fromhex("30 ffffff7f"), max_packet_bytes=100)
    assert caught.value.reason is ReasonCode.PACKET_TOO_LARGE
    assert caught.value.version is V5


def _ask(version: Version, data: bytes, max_packet_bytes: int) -> object:
    decoder = Decoder(version, max_packet_bytes)
    decoder.receive(data)
    return decoder.next_packet()


@pytest.mark.parametrize("payload_bytes", [94, 95])
def test_the_largest_packet_counts_its_header(payload_bytes: int) -> None:
    packet = Publish("t", bytes(payload_bytes))
    encoded = encode(packet, V5)
    assert len(encoded) == payload_bytes + 6
    if len(encoded) <= 100:
        assert _ask(V5, encoded, 100) == packet
    else:
        with pytest.raises(ProtocolError):
            _ask(V5, encoded, 100)


def test_after_an_error_a_decoder_gives_nothing_but_the_error() -> None:
    decoder = Decoder(V5)
    decoder.receive(b"\x00\x00")
    for _ in range(2):
        with pytest.raises(MalformedPacket):
            decoder.next_packet()
        decoder.receive(encode(PingReq(), V5))


def test_a_long_quote_in_an_error_is_cut() -> None:
    topic = b"x" * 200 + b"+"
    fault = refused(b"\x30" + bytes([0xCB, 0x01, 0x00, len(topic)]) + topic, V4)
    assert fault.reason is ReasonCode.TOPIC_NAME_INVALID and len(fault.detail) == 200
