"""The properties of CONNECT in MQTT 5, chapter 3.1.2.11: which values, and how often."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v5_only
from tests.support.mqtt_wire import packet, short, string, user_property

from penstock.codecs.mqtt.packets import ConnAck
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

MALFORMED, PROTOCOL_ERROR = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR
CLEAN, WILL_FLAG = 0x02, 0x04

SESSION_EXPIRY = b"\x11\0\0\0\x05"
RECEIVE_MAXIMUM = b"\x21\0\x05"
MAXIMUM_PACKET = b"\x27\0\0\x10\0"
ALIAS_MAXIMUM = b"\x22\0\x05"
REQUEST_RESPONSE = b"\x19\x01"
REQUEST_PROBLEM = b"\x17\x01"
METHOD = b"\x15" + string(b"X")

pytestmark = v5_only


def connect_with(scene: Scene, properties: bytes, *, will_properties: bytes | None = None) -> bytes:
    flags = CLEAN if will_properties is None else CLEAN | WILL_FLAG
    payload = string(scene.client_id("x").encode())
    if will_properties is not None:
        payload += bytes([len(will_properties)]) + will_properties + string(b"w") + string(b"gone")
    head = string(b"MQTT") + b"\x05" + bytes([flags]) + short(60)
    return packet(0x10, head + bytes([len(properties)]) + properties + payload)


def test_mqtt_2_2_2_1_a_connect_without_properties_says_so_with_length_0(scene: Scene) -> None:
    """[MQTT-2.2.2-1]."""
    client = scene.opened()
    client.send_raw(connect_with(scene, b""))
    assert client.expect(ConnAck).reason is ReasonCode.SUCCESS


@pytest.mark.parametrize(
    "properties",
    [SESSION_EXPIRY, RECEIVE_MAXIMUM, MAXIMUM_PACKET, ALIAS_MAXIMUM, REQUEST_RESPONSE, REQUEST_PROBLEM],
    ids=["session_expiry", "receive_maximum", "maximum_packet", "alias_maximum", "request_response", "request_problem"],
)
def test_mqtt5_3_1_2_11_each_property_is_accepted_once_and_not_twice(scene: Scene, properties: bytes) -> None:
    """Chapter 3.1.2.11: including one of them twice is a Protocol Error."""
    once, twice = scene.opened("once"), scene.opened("twice")
    once.send_raw(connect_with(scene, properties))
    assert once.expect(ConnAck).reason is ReasonCode.SUCCESS
    twice.send_raw(connect_with(scene, properties * 2))
    scene.expect_rejected(twice, PROTOCOL_ERROR, MALFORMED)


@pytest.mark.parametrize(
    "properties",
    [b"\x21\0\0", b"\x27\0\0\0\0", b"\x19\x02", b"\x17\x02"],
    ids=["receive_maximum_0", "maximum_packet_0", "request_response_2", "request_problem_2"],
)
def test_mqtt5_3_1_2_11_a_value_out_of_range_closes(scene: Scene, properties: bytes) -> None:
    """Chapter 3.1.2.11.3, .4, .6 and .7: a Protocol Error."""
    client = scene.opened()
    client.send_raw(connect_with(scene, properties))
    scene.expect_rejected(client, PROTOCOL_ERROR, MALFORMED)


def test_mqtt5_3_1_2_11_authentication_data_without_a_method_closes(scene: Scene) -> None:
    """Chapter 3.1.2.11.10."""
    client = scene.opened()
    client.send_raw(connect_with(scene, b"\x16" + string(b"data")))
    scene.expect_rejected(client, PROTOCOL_ERROR, MALFORMED)


@pytest.mark.parametrize("properties", [b"\x00\x01", b"\x7f\x01", b"\x04\x01"], ids=["0x00", "0x7f", "0x04"])
def test_mqtt5_2_2_2_2_a_property_that_does_not_exist_closes(scene: Scene, properties: bytes) -> None:
    """Chapter 2.2.2.2: Malformed Packet."""
    client = scene.opened()
    client.send_raw(connect_with(scene, properties))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


@pytest.mark.parametrize(
    "properties",
    [b"\x01\x00", b"\x23\0\x01", b"\x12" + string(b"me"), b"\x1f" + string(b"why"), b"\x24\x01", b"\x18\0\0\0\x01"],
    ids=["payload_format", "topic_alias", "assigned_id", "reason_string", "maximum_qos", "will_delay"],
)
def test_mqtt5_2_2_2_2_a_property_of_another_packet_closes(scene: Scene, properties: bytes) -> None:
    """Chapter 2.2.2.2: Malformed Packet, or Protocol Error by chapter 4.13."""
    client = scene.opened()
    client.send_raw(connect_with(scene, properties))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


@pytest.mark.parametrize(
    "properties", [b"\x11\0\0", b"\x26\0\x01a\0\x05b", b"\x15\0\x09X"], ids=["number", "pair", "string"]
)
def test_mqtt5_2_2_2_1_a_property_that_ends_early_closes(scene: Scene, properties: bytes) -> None:
    """Chapter 2.2.2.1: the length of the properties holds all of them."""
    client = scene.opened()
    client.send_raw(connect_with(scene, properties))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt5_2_2_2_1_properties_longer_than_the_packet_close(scene: Scene) -> None:
    """Chapter 2.2.2.1."""
    client = scene.opened()
    body = string(b"MQTT") + b"\x05\x02" + short(60) + b"\x7f" + string(b"id")
    client.send_raw(packet(0x10, body))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt5_3_1_2_11_user_properties_may_repeat(scene: Scene) -> None:
    """Chapter 3.1.2.11.8: also with the same name."""
    client = scene.opened()
    client.send_raw(connect_with(scene, user_property(b"a", b"1") + user_property(b"a", b"2")))
    assert client.expect(ConnAck).reason is ReasonCode.SUCCESS


@pytest.mark.parametrize(
    "will_properties",
    [
        b"\x18\0\0\0\x05" * 2,
        b"\x01\x01" * 2,
        b"\x02\0\0\0\x05" * 2,
        (b"\x03" + string(b"text")) * 2,
        (b"\x08" + string(b"answer")) * 2,
        (b"\x09" + string(b"id")) * 2,
    ],
    ids=["delay", "format", "expiry", "content_type", "response_topic", "correlation"],
)
def test_mqtt5_3_1_3_2_a_will_property_twice_closes(scene: Scene, will_properties: bytes) -> None:
    """Chapter 3.1.3.2: a Protocol Error."""
    client = scene.opened()
    client.send_raw(connect_with(scene, b"", will_properties=will_properties))
    scene.expect_rejected(client, PROTOCOL_ERROR, MALFORMED)


def test_mqtt5_3_1_3_2_a_property_of_connect_in_the_will_closes(scene: Scene) -> None:
    """Chapter 3.1.3.2."""
    client = scene.opened()
    client.send_raw(connect_with(scene, b"", will_properties=SESSION_EXPIRY))
    scene.expect_rejected(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_1_2_29_without_problem_information_answers_explain_nothing(scene: Scene) -> None:
    """[MQTT-3.1.2-29]: neither reason string nor user properties, but in CONNACK, PUBLISH and DISCONNECT."""
    client = scene.client(properties=Properties(request_problem_information=False))
    topic = scene.topic("a")
    client.subscribe(topic, qos=2)
    client.unsubscribe(topic, scene.topic("never"))
    client.publish(scene.topic("nobody"), b"", 1)
    client.publish(scene.topic("nobody"), b"", 2)
    for answer in client.came():
        assert not hasattr(answer, "properties") or answer.properties.reason_string is None


def test_mqtt5_3_1_2_11_a_session_expiry_of_4294967295_is_accepted(scene: Scene) -> None:
    """Chapter 3.1.2.11.2: the session does not expire, unless the server says another time."""
    connack = scene.lasting(expiry_s=0xFFFFFFFF).connack
    assert connack.reason is ReasonCode.SUCCESS
