"""A server that limits what it can, and asks who is there: what it says of that, and what it does beyond it."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v3_only, v5_only
from tests.support.mqtt_client import MqttClient
from tests.support.servers import LIMITED_KEEP_ALIVE_S, LIMITED_PACKET_BYTES, LIMITED_QOS, PASSWORD, USERNAME

from penstock.codecs.mqtt.packets import ConnAck, Connect, Publish, Will
from penstock.codecs.mqtt.reasons import ReasonCode

BAD_LOGIN = (ReasonCode.BAD_USER_NAME_OR_PASSWORD, ReasonCode.NOT_AUTHORIZED)


def test_mqtt_3_1_4_5_the_right_password_is_accepted(limited: Scene) -> None:
    """[MQTT-3.1.4-5] in 5.0, [MQTT-3.1.4-4] in 3.1.1."""
    assert limited.client().connack.reason is ReasonCode.SUCCESS


@pytest.mark.parametrize(
    ("username", "password"),
    [(USERNAME, b"wrong"), ("nobody", PASSWORD), (None, None)],
    ids=["password", "user", "nothing"],
)
def test_mqtt_3_1_4_2_a_wrong_login_is_refused_and_closes(
    limited: Scene, username: str | None, password: bytes | None
) -> None:
    """[MQTT-3.1.4-2] [MQTT-3.2.2-6] [MQTT-3.2.2-7] [MQTT-4.13.2-1] in 5.0, [MQTT-3.2.2-4] [MQTT-3.2.2-5] in 3.1.1:
    without a session in the answer."""
    client = limited.opened()
    connack = client.connect(username=username, password=password)
    assert connack.reason in BAD_LOGIN
    assert not connack.session_present
    assert client.ended() == []


def test_mqtt_3_2_2_6_a_refusal_does_not_tell_of_a_session(limited: Scene) -> None:
    """[MQTT-3.2.2-6] in 5.0, [MQTT-3.2.2-4] in 3.1.1: though there is one."""
    limited.lasting().disconnect()
    client = limited.opened("s")
    assert not client.connect(clean=False, username=USERNAME, password=b"wrong").session_present
    assert limited.lasting().connack.session_present


def test_mqtt_3_1_4_6_what_follows_a_refused_connect_is_not_processed(limited: Scene) -> None:
    """[MQTT-3.1.4-6] in 5.0, [MQTT-3.1.4-5] in 3.1.1."""
    topic = limited.topic("a")
    watcher = limited.subscriber(topic)
    client = limited.opened()
    client.send(Connect(limited.version, client.client_id, username=USERNAME, password=b"wrong"), Publish(topic, b"no"))
    client.expect_closed()
    watcher.expect_nothing_from(limited.client("pub"))


@v5_only
def test_mqtt_3_2_2_9_the_maximum_qos_is_told(limited: Scene) -> None:
    """[MQTT-3.2.2-9]."""
    assert limited.client().connack.properties.maximum_qos == LIMITED_QOS


def test_mqtt_3_2_2_10_a_subscription_above_the_maximum_qos_is_granted_less(limited: Scene) -> None:
    """[MQTT-3.2.2-10] in 5.0; 3.1.1 lets a server grant less."""
    topic = limited.topic("a")
    client = limited.client()
    assert client.subscribe(topic, qos=2)[0] in (ReasonCode.GRANTED_QOS_1, ReasonCode.GRANTED_QOS_2)
    limited.client("pub").publish(topic, b"1", 1)
    assert client.expect_message().qos == 1


@v5_only
def test_mqtt_3_2_2_11_a_publish_above_the_maximum_qos_closes(limited: Scene) -> None:
    """[MQTT-3.2.2-11]: with 0x9B."""
    client = limited.client()
    client.send(Publish(limited.topic("a"), b"", 2, packet_id=1))
    limited.expect_refused(client, ReasonCode.QOS_NOT_SUPPORTED)


@v5_only
def test_mqtt_3_2_2_12_a_will_above_the_maximum_qos_is_refused(limited: Scene) -> None:
    """[MQTT-3.2.2-12]: with 0x9B."""
    client = limited.opened()
    connack = client.connect(will=Will(limited.topic("w"), b"", 2), username=USERNAME, password=PASSWORD)
    assert connack.reason is ReasonCode.QOS_NOT_SUPPORTED
    assert client.ended() == []


@v5_only
def test_mqtt_3_2_2_13_a_retained_will_is_refused(limited: Scene) -> None:
    """[MQTT-3.2.2-13]: with 0x9A."""
    client = limited.opened()
    connack = client.connect(will=Will(limited.topic("w"), b"", retain=True), username=USERNAME, password=PASSWORD)
    assert connack.reason is ReasonCode.RETAIN_NOT_SUPPORTED
    assert client.ended() == []


@v5_only
def test_mqtt_3_2_2_14_a_retained_publish_closes(limited: Scene) -> None:
    """[MQTT-3.2.2-14]: CONNACK tells, and who does it all the same is disconnected with 0x9A."""
    client = limited.client()
    assert client.connack.properties.retain_available is False
    client.send(Publish(limited.topic("a"), b"kept?", retain=True))
    limited.expect_refused(client, ReasonCode.RETAIN_NOT_SUPPORTED)


def _publish_of(scene: Scene, client: MqttClient, packet_bytes: int) -> Publish:
    topic = scene.topic("a")
    # Type, a remaining length of two bytes, the length of the topic, and the length of no properties.
    overhead = 1 + 2 + 2 + len(topic) + (1 if scene.is_v5 else 0)
    client.subscribe(topic)
    return Publish(topic, b"x" * (packet_bytes - overhead))


def test_mqtt_3_2_2_15_a_packet_of_the_maximum_size_is_taken(limited: Scene) -> None:
    """[MQTT-3.2.2-15]: to the byte."""
    client = limited.client()
    message = _publish_of(limited, client, LIMITED_PACKET_BYTES)
    client.send(message)
    assert client.expect_message().payload == message.payload


@pytest.mark.parametrize("excess_bytes", [1, 100, 10_000])
def test_mqtt_3_2_2_15_a_packet_above_the_maximum_size_closes(limited: Scene, excess_bytes: int) -> None:
    """[MQTT-3.2.2-15]: with 0x95 in 5.0."""
    client = limited.client()
    if limited.is_v5:
        assert client.connack.properties.maximum_packet_bytes == LIMITED_PACKET_BYTES
    client.send(_publish_of(limited, client, LIMITED_PACKET_BYTES + excess_bytes))
    limited.expect_refused(client, ReasonCode.PACKET_TOO_LARGE)


@v5_only
def test_mqtt_3_2_2_21_a_keep_alive_above_the_limit_is_replaced(limited: Scene) -> None:
    """[MQTT-3.2.2-21] [MQTT-3.1.2-21]: the server says the one it uses."""
    client = limited.client(keep_alive_s=LIMITED_KEEP_ALIVE_S * 10)
    assert client.connack.properties.server_keep_alive_s == LIMITED_KEEP_ALIVE_S


@v3_only
def test_mqtt311_3_2_2_5_a_refusal_is_a_connack_of_four_bytes(limited: Scene) -> None:
    """[MQTT-3.2.2-5] [MQTT-3.2.2-4] in 3.1.1: return code 4 or 5, then the end."""
    client = limited.opened()
    client.send(Connect(limited.version, client.client_id, username=USERNAME, password=b"wrong"))
    assert client.receive_raw(4) in (b"\x20\x02\0\x04", b"\x20\x02\0\x05")
    assert client.ended() == []


def test_mqtt_3_2_2_7_a_refused_client_may_come_again(limited: Scene) -> None:
    """[MQTT-3.2.2-7]: with the right password on a new connection."""
    client = limited.opened()
    assert client.connect(username=USERNAME, password=b"wrong") != ConnAck()
    client.ended()
    assert limited.client().connack.reason is ReasonCode.SUCCESS
