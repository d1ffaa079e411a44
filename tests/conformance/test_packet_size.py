"""The client's Maximum Packet Size, chapters 3.1.2.11.4 and 3.2.2.3.6. The server's own is in test_limits."""

from __future__ import annotations

import pytest
from tests.conformance.scene import LONG_S, Scene, v5_only
from tests.support.mqtt_client import MqttClient, messages_of

from penstock.codecs.mqtt.properties import Properties

pytestmark = v5_only
LIMIT_BYTES = 120


def small_client(scene: Scene, qos: int, *, receive_maximum: int | None = None) -> MqttClient:
    said = Properties(maximum_packet_bytes=LIMIT_BYTES, receive_maximum=receive_maximum)
    client = scene.client("sub", properties=said)
    client.subscribe(scene.topic("a"), qos=qos)
    return client


def payload_of(scene: Scene, qos: int, packet_bytes: int) -> bytes:
    """With which the PUBLISH to the client is of just this size."""
    overhead = 2 + 2 + len(scene.topic("a")) + (2 if qos else 0) + 1
    return b"x" * (packet_bytes - overhead)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_1_2_24_a_packet_of_the_maximum_size_is_sent(scene: Scene, qos: int) -> None:
    """[MQTT-3.1.2-24]: to the byte, fixed header included."""
    client = small_client(scene, qos)
    payload = payload_of(scene, qos, LIMIT_BYTES)
    scene.client("pub").publish(scene.topic("a"), payload, qos)
    assert client.expect_message().payload == payload


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("excess_bytes", [1, 5_000])
def test_mqtt_3_1_2_25_a_larger_packet_is_not_sent(scene: Scene, qos: int, excess_bytes: int) -> None:
    """[MQTT-3.1.2-24] [MQTT-3.1.2-25]: and what follows it is."""
    client, publisher = small_client(scene, qos), scene.client("pub")
    publisher.publish(scene.topic("a"), payload_of(scene, qos, LIMIT_BYTES + excess_bytes), qos)
    publisher.publish(scene.topic("a"), b"small", qos)
    assert [message.payload for message in messages_of(client.seen_after(publisher))] == [b"small"]


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_3_1_2_25_a_packet_that_is_not_sent_counts_as_completed(scene: Scene, qos: int) -> None:
    """[MQTT-3.1.2-25]: it takes no place in the receive maximum."""
    client, publisher = small_client(scene, qos, receive_maximum=1), scene.client("pub")
    for _ in range(3):
        publisher.publish(scene.topic("a"), bytes(LIMIT_BYTES), qos)
    publisher.publish(scene.topic("a"), b"small", qos)
    assert client.expect_message().payload == b"small"


def test_mqtt_3_1_2_25_a_large_message_that_waited_is_not_sent(scene: Scene) -> None:
    """[MQTT-3.1.2-25]: in a session that is resumed with a smaller maximum."""
    session, publisher = scene.lasting(), scene.client("pub")
    session.subscribe(scene.topic("a"), qos=1)
    session.disconnect()
    publisher.publish(scene.topic("a"), bytes(LIMIT_BYTES), 1)
    publisher.publish(scene.topic("a"), b"small", 1)
    said = Properties(maximum_packet_bytes=LIMIT_BYTES, session_expiry_interval_s=LONG_S)
    back = scene.client("s", clean=False, properties=said)
    assert back.expect_only(1, publisher)[0].payload == b"small"


def test_mqtt_3_1_2_25_others_get_the_message(scene: Scene) -> None:
    """[MQTT-3.1.2-25]: it is discarded for the client that cannot take it."""
    small_client(scene, 1)
    other = scene.subscriber(scene.topic("a"), qos=1, name="other")
    scene.client("pub").publish(scene.topic("a"), bytes(LIMIT_BYTES), 1)
    assert len(other.expect_message().payload) == LIMIT_BYTES


def test_mqtt_3_2_2_19_connack_stays_within_the_maximum(scene: Scene) -> None:
    """[MQTT-3.2.2-19] [MQTT-3.2.2-20] [MQTT-3.4.2-2] [MQTT-3.4.2-3] [MQTT-3.5.2-2] [MQTT-3.5.2-3] [MQTT-3.6.2-2]
    [MQTT-3.6.2-3] [MQTT-3.7.2-2] [MQTT-3.7.2-3]: and every answer; what explains more is left out."""
    limit_bytes = 60
    client = scene.client(properties=Properties(maximum_packet_bytes=limit_bytes))
    client.publish(scene.topic("nobody"), b"", 1)
    client.publish(scene.topic("nobody"), b"", 2)
    client.subscribe(scene.topic("a"))
    client.ping()
