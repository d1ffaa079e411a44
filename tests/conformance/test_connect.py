"""CONNECT and CONNACK, chapter 3.1 and 3.2: what is accepted, what is answered, what closes the connection."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v3_only, v5_only
from tests.support.mqtt_wire import packet, short, string

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.packets import ConnAck, Connect, Disconnect, Packet, PingReq, Publish, Subscribe, Subscription
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

MALFORMED, PROTOCOL_ERROR = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR
UNSUPPORTED = ReasonCode.UNSUPPORTED_PROTOCOL_VERSION
NAME = string(b"MQTT")
WILL_FLAG, USERNAME_FLAG, PASSWORD_FLAG, CLEAN = 0x04, 0x80, 0x40, 0x02


def connect_bytes(
    scene: Scene, *, flags: int = CLEAN, fields: bytes | None = None, properties: bytes = b"", level: int | None = None
) -> bytes:
    """CONNECT with the payload and the flags as they are given, fitting or not."""
    carried = bytes([len(properties)]) + properties if scene.is_v5 else b""
    payload = string(scene.client_id("x").encode()) if fields is None else fields
    version = bytes([scene.version if level is None else level])
    return packet(0x10, NAME + version + bytes([flags]) + short(60) + carried + payload)


def will_fields(scene: Scene, topic: bytes = b"will/topic", payload: bytes = b"gone") -> bytes:
    properties = b"\0" if scene.is_v5 else b""
    return string(scene.client_id("x").encode()) + properties + string(topic) + string(payload)


@pytest.mark.parametrize(
    "first",
    [
        PingReq(),
        Publish("t", b"x"),
        Publish("t", b"x", 1, packet_id=1),
        Subscribe(1, (Subscription("t"),)),
        Disconnect(),
    ],
    ids=["pingreq", "publish0", "publish1", "subscribe", "disconnect"],
)
def test_mqtt_3_1_0_1_a_first_packet_that_is_not_connect_closes(scene: Scene, first: Packet) -> None:
    """[MQTT-3.1.0-1] [MQTT-3.14.0-1] in 5.0, [MQTT-3.1.0-1] in 3.1.1: and nothing is said, least of all DISCONNECT."""
    client = scene.opened()
    client.send(first)
    assert client.ended() == []


def test_mqtt_3_1_0_2_a_second_connect_closes(scene: Scene) -> None:
    """[MQTT-3.1.0-2] in both versions."""
    client = scene.client()
    client.send_raw(connect_bytes(scene))
    scene.expect_refused(client, PROTOCOL_ERROR)


def test_mqtt_3_1_2_1_another_protocol_name_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-1] in both versions: a 5.0 server may say 0x84 before."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene).replace(b"MQTT", b"MQTZ"))
    assert client.expect_closed() in (None, ConnAck(reason=UNSUPPORTED))


@v3_only
@pytest.mark.parametrize("level", [2, 3, 99])
def test_mqtt311_3_1_2_2_an_unknown_protocol_level_is_answered_with_1(scene: Scene, level: int) -> None:
    """[MQTT-3.1.2-2] in 3.1.1. A server of 5.0 too may say it in the words of 5.0 to a level above 4."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, level=level))
    head = client.receive_raw(4)
    assert head[0] == 0x20 and head[2] == 0
    assert head[3] == 1 or (head[3] == UNSUPPORTED and level > 4)


@v5_only
def test_mqtt_3_1_2_2_an_unknown_protocol_version_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-2] in 5.0: with 0x84 or the 0x01 of 3.1.1, or without a word."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, level=6))
    head = client.receive_raw(4)
    assert head[0] == 0x20 and head[3] in (1, UNSUPPORTED)


def test_mqtt_3_1_2_3_the_reserved_connect_flag_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-3] in both versions."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | 1))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_3_1_2_11_will_qos_without_a_will_closes(scene: Scene, qos: int) -> None:
    """[MQTT-3.1.2-11] in 5.0, [MQTT-3.1.2-13] [MQTT-3.1.2-11] in 3.1.1."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | qos << 3))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_1_2_12_will_qos_3_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-12] in 5.0, [MQTT-3.1.2-14] in 3.1.1."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | WILL_FLAG | 0x18, fields=will_fields(scene)))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_1_2_13_will_retain_without_a_will_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-13] in 5.0, [MQTT-3.1.2-15] [MQTT-3.1.2-11] in 3.1.1."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | 0x20))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_1_2_9_a_will_that_is_missing_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-9] in both versions."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | WILL_FLAG))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_1_2_9_a_will_without_payload_field_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-9] [MQTT-3.1.3-1] in both versions: topic and payload are both there, in this order."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | WILL_FLAG, fields=will_fields(scene)[:-6]))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_1_2_16_a_user_name_without_its_flag_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-16] in 5.0, [MQTT-3.1.2-18] in 3.1.1: the packet is longer than its flags say."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, fields=string(scene.client_id("x").encode()) + string(b"user")))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_1_2_17_a_user_name_that_is_missing_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-17] in 5.0, [MQTT-3.1.2-19] in 3.1.1."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | USERNAME_FLAG))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_1_2_18_a_password_without_its_flag_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-18] in 5.0, [MQTT-3.1.2-20] in 3.1.1."""
    fields = string(scene.client_id("x").encode()) + string(b"user") + string(b"secret")
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | USERNAME_FLAG, fields=fields))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_1_2_19_a_password_that_is_missing_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-19] in 5.0, [MQTT-3.1.2-21] in 3.1.1."""
    fields = string(scene.client_id("x").encode()) + string(b"user")
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | USERNAME_FLAG | PASSWORD_FLAG, fields=fields))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


@v3_only
def test_mqtt311_3_1_2_22_a_password_without_a_user_name_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-22] in 3.1.1."""
    fields = string(scene.client_id("x").encode()) + string(b"secret")
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | PASSWORD_FLAG, fields=fields))
    scene.expect_rejected(client, ReasonCode.BAD_USER_NAME_OR_PASSWORD)


@v5_only
def test_mqtt5_3_1_2_9_a_password_without_a_user_name_is_allowed(scene: Scene) -> None:
    """Chapter 3.1.2.9 of 5.0 took the restriction of 3.1.1 away."""
    fields = string(scene.client_id("x").encode()) + string(b"secret")
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | PASSWORD_FLAG, fields=fields))
    assert client.expect(ConnAck).reason is ReasonCode.SUCCESS


def test_mqtt_3_1_3_1_the_fields_of_connect_are_read_in_their_order(scene: Scene) -> None:
    """[MQTT-3.1.3-1] in both versions: identifier, will, user name, password."""
    fields = will_fields(scene, scene.topic("w").encode()) + string(b"user") + string(b"secret")
    watcher = scene.subscriber(scene.topic("w"))
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | WILL_FLAG | USERNAME_FLAG | PASSWORD_FLAG, fields=fields))
    assert client.expect(ConnAck).reason is ReasonCode.SUCCESS
    client.cut()
    assert watcher.expect_message().payload == b"gone"


def test_mqtt_3_1_3_3_a_connect_without_client_identifier_closes(scene: Scene) -> None:
    """[MQTT-3.1.3-3] in both versions: the field may be empty, but not missing."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, fields=b""))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_1_3_4_a_client_identifier_that_is_not_utf8_closes(scene: Scene) -> None:
    """[MQTT-3.1.3-4] in both versions."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, fields=string(b"a\xff")))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)


@pytest.mark.parametrize("client_id", ["a", "Z", "0123456789", "abcdefghijklmnopqrstuvw", "ABCDEFGHIJKLMNOPQRSTUVW"])
def test_mqtt_3_1_3_5_identifiers_of_1_to_23_letters_and_digits_are_accepted(scene: Scene, client_id: str) -> None:
    """[MQTT-3.1.3-5] in both versions."""
    client = scene.opened()
    client.client_id = client_id
    assert client.connect().reason is ReasonCode.SUCCESS


def test_mqtt_3_1_3_6_an_empty_identifier_gets_a_session_of_its_own(scene: Scene) -> None:
    """[MQTT-3.1.3-6] in both versions: two of them live side by side."""
    first, second = scene.opened(), scene.opened()
    for client in (first, second):
        client.client_id = ""
        assert client.connect().reason is ReasonCode.SUCCESS
    first.ping()
    second.ping()


@v5_only
def test_mqtt_3_1_3_7_the_assigned_identifier_is_told_and_is_unique(scene: Scene) -> None:
    """[MQTT-3.1.3-7] [MQTT-3.2.2-16]."""
    assigned = set()
    for _ in range(3):
        client = scene.opened()
        client.client_id = ""
        assigned.add(client.connect().properties.assigned_client_identifier)
    assert len(assigned) == 3
    assert None not in assigned and "" not in assigned


@v5_only
def test_mqtt_3_1_3_7_a_given_identifier_is_not_assigned_another(scene: Scene) -> None:
    """[MQTT-3.1.3-7] [MQTT-3.1.3-2]: the identifier given is the one that is used."""
    assert scene.client().connack.properties.assigned_client_identifier is None


@v5_only
def test_mqtt_3_1_3_7_an_assigned_identifier_finds_its_session_again(scene: Scene) -> None:
    """[MQTT-3.1.3-7] [MQTT-3.1.3-2]: as if the client had given it."""
    client = scene.opened()
    client.client_id = ""
    connack = client.connect(properties=Properties(session_expiry_interval_s=60))
    client.disconnect()
    again = scene.opened()
    again.client_id = connack.properties.assigned_client_identifier or ""
    assert again.connect(clean=False).session_present


@v3_only
def test_mqtt311_3_1_3_8_an_empty_identifier_needs_a_clean_session(scene: Scene) -> None:
    """[MQTT-3.1.3-8] [MQTT-3.1.3-7] [MQTT-3.1.3-9] in 3.1.1: return code 2, and the connection closes."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=0, fields=string(b"")))
    assert client.ended() == [ConnAck(reason=ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)]


def test_mqtt_3_1_3_8_a_server_that_takes_no_long_identifier_says_so(scene: Scene) -> None:
    """[MQTT-3.1.3-8] in 5.0, [MQTT-3.1.3-9] in 3.1.1: with 0x85 or return code 2, and closes. More than 23 bytes
    are the server's choice."""
    client = scene.opened()
    client.client_id = "x" * 65_535
    connack = client.connect()
    if connack.reason is not ReasonCode.SUCCESS:
        assert connack.reason is ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
        assert client.ended() == []


def test_mqtt_3_1_3_11_a_will_topic_that_is_not_utf8_closes(scene: Scene) -> None:
    """[MQTT-3.1.3-11] in 5.0, [MQTT-3.1.3-10] in 3.1.1."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | WILL_FLAG, fields=will_fields(scene, b"w\xff")))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR, ReasonCode.TOPIC_NAME_INVALID)


@pytest.mark.parametrize("topic", [b"will/#", b"+/will"])
def test_mqtt_4_7_0_1_a_will_topic_with_wildcards_closes(scene: Scene, topic: bytes) -> None:
    """[MQTT-4.7.0-1] in 5.0, [MQTT-4.7.1-1] in 3.1.1: a will topic is a topic name."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | WILL_FLAG, fields=will_fields(scene, topic)))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR, ReasonCode.TOPIC_NAME_INVALID, ReasonCode.NOT_AUTHORIZED)


def test_mqtt_3_1_3_12_a_user_name_that_is_not_utf8_closes(scene: Scene) -> None:
    """[MQTT-3.1.3-12] in 5.0, [MQTT-3.1.3-11] in 3.1.1."""
    fields = string(scene.client_id("x").encode()) + string(b"u\xc0\x80")
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | USERNAME_FLAG, fields=fields))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR, ReasonCode.BAD_USER_NAME_OR_PASSWORD)


@v3_only
def test_mqtt311_3_1_4_1_a_malformed_connect_closes_without_connack(scene: Scene) -> None:
    """[MQTT-3.1.4-1] [MQTT-3.2.2-6] in 3.1.1: no return code fits."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, flags=CLEAN | 1))
    assert client.ended() == []


def test_mqtt_3_1_4_1_a_connect_that_is_longer_than_its_fields_closes(scene: Scene) -> None:
    """[MQTT-3.1.4-1] in both versions."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene, fields=string(scene.client_id("x").encode()) + b"\0"))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_2_2_1_reserved_bits_of_connack_are_0(scene: Scene) -> None:
    """[MQTT-3.2.2-1] in 5.0, table 2.2 [MQTT-2.2.2-1] in 3.1.1: also the flags in its first byte."""
    client = scene.opened()
    client.send_raw(connect_bytes(scene))
    head = client.receive_raw(4)
    assert head[0] == 0x20
    assert (head[2], head[3]) == (0, 0)


def test_mqtt_4_2_0_1_a_connect_in_single_bytes_is_accepted(scene: Scene) -> None:
    """[MQTT-4.2-1] in 5.0, [MQTT-7.1.1-1] in 3.1.1: the transport is a stream, however it is cut."""
    client = scene.opened()
    for byte in encode(Connect(scene.version, client.client_id), scene.version):
        client.send_raw(bytes([byte]))
    assert client.expect(ConnAck).reason is ReasonCode.SUCCESS
