"""What becomes of a CONNECT that is accepted, chapters 3.1.4 and 3.2."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v5_only

from penstock.codecs.mqtt.packets import Connect, PingReq, Publish, Subscribe, Subscription
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode


def test_mqtt_3_1_4_3_second_connection_of_a_client_id_takes_over(scene: Scene) -> None:
    """[MQTT-3.1.4-3] in 5.0, [MQTT-3.1.4-2] in 3.1.1: the first one closes, in 5.0 with 0x8E."""
    first = scene.client("same")
    second = scene.client("same")
    scene.expect_refused(first, ReasonCode.SESSION_TAKEN_OVER)
    second.ping()


def test_mqtt_3_1_4_4_clean_start_is_processed_when_taking_over(scene: Scene) -> None:
    """[MQTT-3.1.4-4] in 5.0, [MQTT-3.1.4-3] in 3.1.1."""
    scene.lasting("same").subscribe(scene.topic("a"), qos=1)
    second = scene.client("same", clean=True)
    assert not second.connack.session_present
    publisher = scene.client("pub")
    publisher.publish(scene.topic("a"), b"1", 1)
    second.expect_nothing_from(publisher)


def test_mqtt_3_1_4_5_a_valid_connect_is_acknowledged(scene: Scene) -> None:
    """[MQTT-3.1.4-5] in 5.0, [MQTT-3.1.4-4] in 3.1.1."""
    assert scene.client().connack.reason is ReasonCode.SUCCESS


def test_mqtt_3_1_4_5_packets_sent_before_connack_are_taken(scene: Scene) -> None:
    """Chapter 3.1.4 of both versions: a client need not wait."""
    client, topic = scene.opened(), scene.topic("early")
    client.send(
        Connect(scene.version, client.client_id),
        Subscribe(1, (Subscription(topic),)),
        Publish(topic, b"early"),
        PingReq(),
    )
    kinds = [type(client.receive()).__name__ for _ in range(4)]
    assert kinds[0] == "ConnAck"
    assert sorted(kinds[1:]) == ["PingResp", "Publish", "SubAck"]


def test_mqtt_3_2_0_1_connack_comes_before_queued_messages(scene: Scene) -> None:
    """[MQTT-3.2.0-1] in both versions."""
    topic = scene.topic("q")
    away = scene.lasting()
    away.subscribe(topic, qos=1)
    away.disconnect()
    scene.client("pub").publish(topic, b"waits", 1)
    back = scene.lasting()
    assert back.connack.session_present
    assert back.expect_message().payload == b"waits"


def test_mqtt_3_2_0_2_there_is_one_connack(scene: Scene) -> None:
    """[MQTT-3.2.0-2]."""
    client = scene.client()
    assert client.came() == []


def test_mqtt_3_2_2_2_a_clean_start_has_no_session_present(scene: Scene) -> None:
    """[MQTT-3.2.2-2] in 5.0, [MQTT-3.2.2-1] in 3.1.1: even where there was a session."""
    scene.lasting().disconnect()
    assert not scene.lasting(clean=True).connack.session_present


def test_mqtt_3_2_2_3_a_session_that_is_there_is_present(scene: Scene) -> None:
    """[MQTT-3.2.2-3] in 5.0, [MQTT-3.2.2-2] in 3.1.1."""
    scene.lasting().disconnect()
    assert scene.lasting().connack.session_present


def test_mqtt_3_2_2_3_without_a_session_none_is_present(scene: Scene) -> None:
    """[MQTT-3.2.2-3] in 5.0, [MQTT-3.2.2-3] in 3.1.1."""
    assert not scene.lasting().connack.session_present


@v5_only
def test_mqtt_3_2_2_8_connack_says_what_the_server_can_do(scene: Scene) -> None:
    """[MQTT-3.2.2-8] [MQTT-4.9.0-1]: with values that the specification allows."""
    said = scene.client().connack.properties
    assert said.receive_maximum is None or said.receive_maximum > 0
    assert said.maximum_packet_bytes is None or said.maximum_packet_bytes > 0
    assert said.retain_available is not False
    assert said.wildcard_subscription_available is not False
    assert said.subscription_identifiers_available is not False
    assert said.shared_subscription_available is not False


@v5_only
@pytest.mark.parametrize("asked", [None, False], ids=["unasked", "declined"])
def test_mqtt_3_1_2_28_response_information_is_not_sent_unasked(scene: Scene, asked: bool | None) -> None:
    """[MQTT-3.1.2-28]."""
    client = scene.client(properties=Properties(request_response_information=asked))
    assert client.connack.properties.response_information is None


@v5_only
def test_mqtt_3_2_2_22_without_server_keep_alive_the_clients_one_holds(scene: Scene) -> None:
    """[MQTT-3.2.2-22]: a server that does not limit it says nothing of it."""
    assert scene.client(keep_alive_s=10).connack.properties.server_keep_alive_s in (None, 10)
