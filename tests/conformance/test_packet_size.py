"""The client's Maximum Packet Size, chapters 3.1.2.11.4 and 3.2.2.3.6. The server's own is in test_limits."""

from __future__ import annotations

import pytest
from tests.conformance.scene import LONG_S, Scene, v5_only
from tests.support.mqtt_client import ConnectionEnded, MqttClient, messages_of

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.packets import Connect, Subscribe, Subscription, Unsubscribe
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

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


@pytest.mark.parametrize("limit_bytes", [1, 4, 5, 6, 13, 14, 30, 36, 37, 38, 39, 40])
def test_mqtt_3_1_2_24_no_connack_is_larger_than_the_maximum(scene: Scene, limit_bytes: int) -> None:
    """[MQTT-3.1.2-24]: one that has no room to say what it must refuses, or is not sent, and the connection closes."""
    client = scene.opened("")
    client.client_id = ""
    limit = Properties(maximum_packet_bytes=limit_bytes)
    try:
        connack = client.connect(properties=limit)
    except ConnectionEnded:
        return
    if connack.reason is ReasonCode.SUCCESS:
        client.ping()
    else:
        assert connack.reason is ReasonCode.PACKET_TOO_LARGE
        client.expect_closed()


@pytest.mark.parametrize("limit_bytes", [1, 5, 20])
def test_mqtt_3_2_2_19_a_refusal_leaves_its_explanation_out(scene: Scene, limit_bytes: int) -> None:
    """[MQTT-3.2.2-19]: of a CONNECT that asks for a method of authentication that the server does not have."""
    client = scene.opened()
    client.send(
        Connect(
            scene.version,
            "x",
            properties=Properties(maximum_packet_bytes=limit_bytes, authentication_method="none-of-these"),
        )
    )
    word = client.expect_closed()
    assert word is None or len(encode(word, scene.version)) <= limit_bytes


def test_mqtt_3_1_2_24_a_suback_that_does_not_fit_closes_and_nothing_is_subscribed(scene: Scene) -> None:
    """[MQTT-3.1.2-24]: its reasons cannot be left out."""
    limit_bytes, filters = 30, [scene.topic(str(number)) for number in range(40)]
    said = Properties(maximum_packet_bytes=limit_bytes, session_expiry_interval_s=LONG_S)
    client, publisher = scene.client("small", properties=said), scene.client("pub")
    client.subscribe(*filters[:20])
    client.send(Subscribe(client.next_id(), tuple(Subscription(filter, 1) for filter in filters)))
    scene.expect_refused(client, ReasonCode.PACKET_TOO_LARGE)
    publisher.publish(filters[30], b"x", 1)
    back = scene.client("small", clean=False, properties=Properties(session_expiry_interval_s=LONG_S))
    assert messages_of(back.seen_after(publisher, 1)) == []


def test_mqtt_3_1_2_24_an_unsuback_that_does_not_fit_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-24]."""
    client = scene.client("small", properties=Properties(maximum_packet_bytes=30))
    client.send(Unsubscribe(client.next_id(), tuple(scene.topic(str(number)) for number in range(40))))
    scene.expect_refused(client, ReasonCode.PACKET_TOO_LARGE)


def test_mqtt_3_14_2_3_disconnect_stays_within_the_maximum(scene: Scene) -> None:
    """[MQTT-3.14.2-3]: what explains it is left out."""
    client = scene.client("small", properties=Properties(maximum_packet_bytes=30))
    client.send_raw(b"\xc5\x00")
    scene.expect_refused(client, ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR)
