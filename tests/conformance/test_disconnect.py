"""DISCONNECT, chapter 3.14: the end of a connection, and what of the session and the will stays."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v3_only, v5_only
from tests.support.mqtt_wire import packet

from penstock.codecs.mqtt.packets import Disconnect, Publish, Will
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

MALFORMED, PROTOCOL_ERROR = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR


def test_mqtt_3_14_4_2_the_server_closes_after_disconnect(scene: Scene) -> None:
    """[MQTT-3.14.4-2] [MQTT-3.14.4-1] in 5.0, [MQTT-3.14.4-1] [MQTT-3.14.4-2] in 3.1.1: if the client has
    not; and it says nothing more."""
    client = scene.client()
    client.send(Disconnect())
    assert client.ended() == []


def test_mqtt_3_14_4_1_what_follows_disconnect_is_not_processed(scene: Scene) -> None:
    """[MQTT-3.14.4-1] in 5.0, [MQTT-3.14.4-2] in 3.1.1."""
    topic = scene.topic("a")
    watcher, publisher, client = scene.subscriber(topic), scene.client("pub"), scene.client()
    client.send(Disconnect(), Publish(topic, b"too late"))
    client.expect_closed()
    watcher.expect_nothing_from(publisher)


def test_mqtt_3_14_4_3_disconnect_discards_the_will(scene: Scene) -> None:
    """[MQTT-3.14.4-3] [MQTT-3.1.2-10] in 5.0, [MQTT-3.14.4-3] [MQTT-3.1.2-10] in 3.1.1."""
    topic = scene.topic("w")
    watcher, publisher = scene.subscriber(topic), scene.client("pub")
    scene.client(will=Will(topic, b"gone")).disconnect()
    watcher.expect_nothing_from(publisher)


@v5_only
def test_mqtt_3_14_4_3_disconnect_with_0x04_publishes_the_will(scene: Scene) -> None:
    """[MQTT-3.14.4-3] [MQTT-3.1.2-8]: it is discarded with reason 0x00 only."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    scene.client(will=Will(topic, b"gone")).disconnect(ReasonCode.DISCONNECT_WITH_WILL)
    assert watcher.expect_message().payload == b"gone"


@v5_only
@pytest.mark.parametrize("reason", [ReasonCode.UNSPECIFIED_ERROR, PROTOCOL_ERROR, ReasonCode.QUOTA_EXCEEDED])
def test_mqtt_3_1_2_8_disconnect_with_an_error_publishes_the_will(scene: Scene, reason: ReasonCode) -> None:
    """[MQTT-3.1.2-8]."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    scene.client(will=Will(topic, b"gone")).disconnect(reason)
    assert watcher.expect_message().payload == b"gone"


@pytest.mark.parametrize("raw", [b"\xe1\x00", b"\xe8\x00"], ids=["flag0", "flag3"])
def test_mqtt_3_14_1_1_reserved_bits_make_it_malformed(scene: Scene, raw: bytes) -> None:
    """[MQTT-3.14.1-1] in both versions: it closes, and it is no normal end, so the will is published."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    client = scene.client(will=Will(topic, b"gone"))
    client.send_raw(raw)
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR)
    assert watcher.expect_message().payload == b"gone"


@v3_only
def test_mqtt311_3_14_1_a_disconnect_with_a_body_closes(scene: Scene) -> None:
    """Chapter 3.14 of 3.1.1: it has neither variable header nor payload."""
    client = scene.client()
    client.send_raw(b"\xe0\x01\x00")
    scene.expect_refused(client)


@v5_only
@pytest.mark.parametrize(
    "body",
    [b"\x00", b"\x00\x00", b"\x00\x05\x11\0\0\0\x00", b"\x00\x07\x26\0\x01a\0\x01b"],
    ids=["reason", "no_properties", "session_expiry", "user_property"],
)
def test_mqtt5_3_14_2_every_form_of_a_normal_disconnect_is_one(scene: Scene, body: bytes) -> None:
    """Chapter 3.14.2: reason and properties may be left out where they say nothing."""
    topic = scene.topic("w")
    watcher, publisher = scene.subscriber(topic), scene.client("pub")
    client = scene.client(will=Will(topic, b"gone"))
    client.send_raw(packet(0xE0, body))
    assert client.ended() == []
    watcher.expect_nothing_from(publisher)


@v5_only
@pytest.mark.parametrize("reason", [0x01, 0x03, 0x7F, 0xFF])
def test_mqtt_3_14_2_1_an_unknown_reason_closes_with_an_error(scene: Scene, reason: int) -> None:
    """[MQTT-3.14.2-1]: one of the reason codes of DISCONNECT must be used; the will is published."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    client = scene.client(will=Will(topic, b"gone"))
    client.send_raw(bytes([0xE0, 1, reason]))
    scene.expect_refused(client, PROTOCOL_ERROR, MALFORMED)
    assert watcher.expect_message().payload == b"gone"


@v5_only
@pytest.mark.parametrize(
    "properties",
    [b"\x11\0\0\0\0" * 2, b"\x01\x00", b"\x7e\x00", b"\x1f\0\x09why"],
    ids=["expiry_twice", "of_another_packet", "unknown", "cut"],
)
def test_mqtt5_3_14_2_2_wrong_properties_make_it_malformed(scene: Scene, properties: bytes) -> None:
    """Chapter 3.14.2.2."""
    client = scene.client()
    client.send_raw(packet(0xE0, bytes([0, len(properties)]) + properties))
    scene.expect_refused(client, PROTOCOL_ERROR, MALFORMED)


@v5_only
def test_mqtt5_3_14_2_2_disconnect_may_shorten_the_session(scene: Scene) -> None:
    """Chapter 3.14.2.2.2: with 0 it ends with the connection."""
    session = scene.lasting()
    session.disconnect(properties=Properties(session_expiry_interval_s=0))
    assert not scene.lasting().connack.session_present


@v5_only
def test_mqtt5_3_14_2_2_disconnect_may_lengthen_the_session(scene: Scene) -> None:
    """Chapter 3.14.2.2.2: one that would have ended after a second is there after two."""
    session = scene.lasting(expiry_s=1)
    session.disconnect(properties=Properties(session_expiry_interval_s=3600))
    watcher = scene.subscriber(scene.topic("w"))
    # A will with a delay of two seconds says when they are over, on the server's own clock.
    delayed = Will(scene.topic("w"), b"later", properties=Properties(will_delay_interval_s=2))
    scene.lasting("clock", will=delayed).cut()
    assert watcher.expect_message().payload == b"later"
    assert scene.lasting().connack.session_present


@v5_only
def test_mqtt5_3_14_2_2_a_session_of_0_must_not_be_prolonged(scene: Scene) -> None:
    """Chapter 3.14.2.2.2: a Protocol Error, if CONNECT had 0."""
    client = scene.client("s")
    client.send(Disconnect(properties=Properties(session_expiry_interval_s=60)))
    scene.expect_refused(client, PROTOCOL_ERROR)
    assert not scene.lasting().connack.session_present


@v5_only
def test_mqtt_3_14_2_2_the_server_sends_no_session_expiry(scene: Scene) -> None:
    """[MQTT-3.14.2-2]: in a DISCONNECT of its own."""
    first = scene.lasting()
    scene.lasting()
    word = first.expect_closed()
    if word is None:
        assert not scene.server.tells_reasons
    else:
        assert word.properties.session_expiry_interval_s is None


@v5_only
def test_mqtt_3_14_2_3_a_small_maximum_packet_holds_for_disconnect_too(scene: Scene) -> None:
    """[MQTT-3.14.2-3] [MQTT-3.14.2-4] [MQTT-3.1.2-24]: nothing is added that makes it too long."""
    limit_bytes = 20
    client = scene.client(properties=Properties(maximum_packet_bytes=limit_bytes))
    client.send_raw(b"\x36\x05\x00\x01a\x00\x01")
    raw = b""
    try:
        while True:
            raw += client.receive_raw(1)
    except AssertionError:
        assert len(raw) <= limit_bytes
