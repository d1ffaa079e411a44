"""Wills, chapters 3.1.2.5 and 3.1.3.2: when they are published, and how. Ends by DISCONNECT are in test_disconnect."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v5_only
from tests.support.mqtt_client import messages_of

from penstock.codecs.mqtt.packets import Will
from penstock.codecs.mqtt.properties import Properties

DELAYED = Properties(will_delay_interval_s=2)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_1_2_8_a_cut_connection_publishes_the_will(scene: Scene, qos: int) -> None:
    """[MQTT-3.1.2-7] [MQTT-3.1.2-8] [MQTT-3.1.2-12] in 5.0, [MQTT-3.1.2-8] [MQTT-3.1.2-9] in 3.1.1: with its QoS."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic, qos=2)
    scene.client(will=Will(topic, b"gone", qos)).cut()
    message = watcher.expect_message()
    assert (message.payload, message.qos, message.retain) == (b"gone", qos, False)


def test_mqtt_3_1_2_8_closing_without_disconnect_publishes_the_will(scene: Scene) -> None:
    """[MQTT-3.1.2-8] in both versions: an orderly end of the transport is no DISCONNECT."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    scene.client(will=Will(topic, b"gone")).close()
    assert watcher.expect_message().payload == b"gone"


def test_mqtt_3_1_2_8_a_protocol_error_publishes_the_will(scene: Scene) -> None:
    """[MQTT-3.1.2-8] in both versions."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    scene.client(will=Will(topic, b"gone")).send_raw(b"\x36\x00")
    assert watcher.expect_message().payload == b"gone"


def test_mqtt_3_1_2_8_taking_over_publishes_the_will(scene: Scene) -> None:
    """[MQTT-3.1.2-8] in both versions: the first connection was closed without DISCONNECT of the client."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    scene.client("same", will=Will(topic, b"gone"))
    scene.client("same")
    assert watcher.expect_message().payload == b"gone"


def test_mqtt_3_1_2_10_a_will_is_published_once(scene: Scene) -> None:
    """[MQTT-3.1.2-10] in both versions: the next connection, without a will, has none."""
    topic = scene.topic("w")
    watcher, publisher = scene.subscriber(topic), scene.client("pub")
    scene.lasting(will=Will(topic, b"gone")).cut()
    assert watcher.expect_message().payload == b"gone"
    scene.lasting().cut()
    scene.lasting().ping()
    watcher.expect_nothing_from(publisher)


def test_mqtt311_3_1_2_12_without_a_will_nothing_is_published(scene: Scene) -> None:
    """[MQTT-3.1.2-12] in 3.1.1, [MQTT-3.1.2-7] in 5.0."""
    watcher, publisher = scene.subscriber(scene.topic("#")), scene.client("pub")
    scene.lasting().cut()
    scene.lasting().ping()
    watcher.expect_nothing_from(publisher)


def test_mqtt_3_1_2_14_a_will_without_retain_is_not_retained(scene: Scene) -> None:
    """[MQTT-3.1.2-14] in 5.0, [MQTT-3.1.2-16] in 3.1.1."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    scene.client(will=Will(topic, b"gone")).cut()
    watcher.expect_message()
    scene.subscriber(topic, name="late").expect_only(0, watcher)


def test_mqtt_3_1_2_15_a_will_with_retain_is_retained(scene: Scene) -> None:
    """[MQTT-3.1.2-15] in 5.0, [MQTT-3.1.2-17] in 3.1.1."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    scene.client(will=Will(topic, b"gone", retain=True)).cut()
    assert not watcher.expect_message().retain
    late = scene.subscriber(topic, name="late").expect_message()
    assert (late.payload, late.retain) == (b"gone", True)


def test_mqtt_3_3_1_6_an_empty_retained_will_removes_the_retained_message(scene: Scene) -> None:
    """[MQTT-3.3.1-6] in 5.0, [MQTT-3.3.1-10] in 3.1.1: a will is a message like others."""
    topic = scene.topic("w")
    publisher = scene.client("pub")
    publisher.publish(topic, b"online", 1, retain=True)
    watcher = scene.subscriber(topic)
    assert watcher.expect_message().payload == b"online"
    scene.client(will=Will(topic, b"", retain=True)).cut()
    assert watcher.expect_message().payload == b""
    scene.subscriber(topic, name="late").expect_only(0, publisher)


def test_mqtt5_3_1_3_4_a_will_payload_is_any_bytes(scene: Scene) -> None:
    """Chapter 3.1.3.4 of 5.0, 3.1.3.3 of 3.1.1: up to 65,535 of them."""
    topic, payload = scene.topic("w"), bytes(range(256)) * 255 + bytes(255)
    watcher = scene.subscriber(topic)
    scene.client(will=Will(topic, payload)).cut()
    assert watcher.expect_message().payload == payload


def test_mqtt_4_5_0_1_a_will_is_kept_for_sessions_that_are_away(scene: Scene) -> None:
    """[MQTT-4.5.0-1] in both versions."""
    topic = scene.topic("w")
    session = scene.lasting("away")
    session.subscribe(topic, qos=1)
    session.disconnect()
    watcher = scene.subscriber(topic)
    scene.client(will=Will(topic, b"gone", 1)).cut()
    watcher.expect_message()
    assert scene.lasting("away").expect_message().payload == b"gone"


def test_mqtt_3_1_2_10_the_will_of_a_later_connection_replaces_the_earlier(scene: Scene) -> None:
    """[MQTT-3.1.2-10] in both versions."""
    topic = scene.topic("w")
    watcher, publisher = scene.subscriber(topic), scene.client("pub")
    scene.lasting(will=Will(topic, b"first")).disconnect()
    scene.lasting(will=Will(topic, b"second")).cut()
    assert watcher.expect_message().payload == b"second"
    watcher.expect_nothing_from(publisher)


@v5_only
def test_mqtt5_3_1_3_2_a_will_keeps_its_properties(scene: Scene) -> None:
    """Chapter 3.1.3.2, [MQTT-3.1.3-10]: those of a message are sent with it, user properties in their order."""
    topic = scene.topic("w")
    said = Properties(
        payload_format_indicator=1,
        content_type="text/plain",
        response_topic="answer/here",
        correlation_data=b"\x00\x01",
        user_properties=(("b", "1"), ("a", "2"), ("b", "3")),
    )
    watcher = scene.subscriber(topic)
    scene.client(will=Will(topic, b"gone", properties=said)).cut()
    assert watcher.expect_message().properties == said


@v5_only
def test_mqtt_3_1_2_8_a_will_waits_for_its_delay(scene: Scene) -> None:
    """[MQTT-3.1.2-8]: one with a delay comes after one without it, from clients that left in the other order."""
    topic = scene.topic("w")
    watcher, publisher = scene.subscriber(topic), scene.client("pub")
    scene.lasting("a", will=Will(topic, b"delayed", properties=DELAYED)).cut()
    scene.lasting("b", will=Will(topic, b"at once")).cut()
    assert watcher.expect_message().payload == b"at once"
    watcher.expect_nothing_from(publisher)
    assert watcher.expect_message().payload == b"delayed"


@v5_only
def test_mqtt_3_1_3_9_coming_back_before_the_delay_cancels_the_will(scene: Scene) -> None:
    """[MQTT-3.1.3-9]: a second client's will, with a longer delay, says when it would have come."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    scene.lasting("a", will=Will(topic, b"cancelled", properties=DELAYED)).cut()
    scene.lasting("a")
    later = Properties(will_delay_interval_s=3)
    scene.lasting("b", will=Will(topic, b"the other", properties=later)).cut()
    assert watcher.expect_message().payload == b"the other"


@v5_only
@pytest.mark.parametrize("expiry_s", [0, 1])
def test_mqtt_3_1_2_8_the_end_of_the_session_publishes_the_will(scene: Scene, expiry_s: int) -> None:
    """[MQTT-3.1.2-8]: at the latest, though its delay is longer."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    long_delay = Properties(will_delay_interval_s=3600)
    scene.lasting(expiry_s=expiry_s, will=Will(topic, b"gone", properties=long_delay)).cut()
    assert watcher.expect_message().payload == b"gone"


@v5_only
def test_mqtt_3_1_2_8_a_clean_start_ends_the_session_and_publishes_the_will(scene: Scene) -> None:
    """[MQTT-3.1.2-8]: the delay does not matter any more."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    long_delay = Properties(will_delay_interval_s=3600)
    scene.lasting(will=Will(topic, b"gone", properties=long_delay)).cut()
    scene.lasting(clean=True)
    assert watcher.expect_message().payload == b"gone"


@v5_only
def test_mqtt_3_1_2_8_taking_over_within_the_delay_sends_no_will(scene: Scene) -> None:
    """[MQTT-3.1.2-8] [MQTT-3.1.3-9]: the session goes on, on the new connection."""
    topic = scene.topic("w")
    watcher, publisher = scene.subscriber(topic), scene.client("pub")
    scene.lasting(will=Will(topic, b"gone", properties=Properties(will_delay_interval_s=3600)))
    scene.lasting().ping()
    assert messages_of(watcher.seen_after(publisher)) == []
