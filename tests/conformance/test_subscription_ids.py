"""Subscription identifiers, chapters 3.8.2.1.2 and 3.3.2.3.8."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v5_only
from tests.support.mqtt_client import MqttClient, messages_of

from penstock.codecs.mqtt.packets import Publish
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties

pytestmark = v5_only
LARGEST = 268_435_455


def identified(number: int) -> Properties:
    return Properties(subscription_identifiers=(number,))


def identifiers(messages: list[Publish]) -> list[int]:
    return sorted(number for message in messages for number in message.properties.subscription_identifiers)


def came(client: MqttClient, publisher: MqttClient) -> list[Publish]:
    return messages_of(client.seen_after(publisher))


@pytest.mark.parametrize("number", [1, 127, 128, 16_384, LARGEST])
def test_mqtt_3_3_4_3_a_message_names_the_subscription_it_comes_by(scene: Scene, number: int) -> None:
    """[MQTT-3.3.4-3]: with any number from 1 to 268,435,455."""
    topic = scene.topic("a")
    client = scene.client()
    client.subscribe(topic, properties=identified(number))
    scene.client("pub").publish(topic, b"x")
    assert client.expect_message().properties.subscription_identifiers == (number,)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_3_4_3_identifiers_come_with_every_qos(scene: Scene, qos: int) -> None:
    """[MQTT-3.3.4-3]."""
    topic = scene.topic("a")
    client = scene.client()
    client.subscribe(topic, qos=qos, properties=identified(9))
    scene.client("pub").publish(topic, b"x", qos)
    assert client.expect_message().properties.subscription_identifiers == (9,)


def test_mqtt_3_3_4_4_overlapping_subscriptions_are_all_named(scene: Scene) -> None:
    """[MQTT-3.3.4-4] [MQTT-3.3.4-5] [MQTT-3.3.4-3]: in one copy, or one in each copy."""
    client, publisher = scene.client(), scene.client("pub")
    client.subscribe(scene.topic("a"), properties=identified(1))
    client.subscribe(scene.topic("+"), properties=identified(2))
    client.subscribe(scene.topic("#"))
    publisher.publish(scene.topic("a"), b"x")
    assert identifiers(came(client, publisher)) == [1, 2]


def test_mqtt_3_3_4_3_one_identifier_for_several_filters(scene: Scene) -> None:
    """[MQTT-3.3.4-3]: that of the SUBSCRIBE is that of each of its filters."""
    client, publisher = scene.client(), scene.client("pub")
    client.subscribe(scene.topic("a"), scene.topic("b"), properties=identified(5))
    for name in "ab":
        publisher.publish(scene.topic(name), b"x")
    assert identifiers(came(client, publisher)) == [5, 5]


def test_mqtt_3_3_4_3_a_subscription_without_identifier_names_none(scene: Scene) -> None:
    """[MQTT-3.3.4-3]."""
    topic = scene.topic("a")
    client = scene.subscriber(topic)
    scene.client("pub").publish(topic, b"x")
    assert client.expect_message().properties == NO_PROPERTIES


@pytest.mark.parametrize(("second", "expected"), [(identified(2), [2]), (NO_PROPERTIES, [])])
def test_mqtt_3_8_4_3_replacing_a_subscription_replaces_its_identifier(
    scene: Scene, second: Properties, expected: list[int]
) -> None:
    """[MQTT-3.8.4-3]: also by none."""
    topic = scene.topic("a")
    client, publisher = scene.client(), scene.client("pub")
    client.subscribe(topic, properties=identified(1))
    client.subscribe(topic, properties=second)
    publisher.publish(topic, b"x")
    assert identifiers(came(client, publisher)) == expected


def test_mqtt5_3_8_2_1_the_identifier_is_part_of_the_session(scene: Scene) -> None:
    """Chapters 3.8.2.1.2 and 4.1: it is there when the session is resumed, and for what waited."""
    topic = scene.topic("a")
    session, publisher = scene.lasting(), scene.client("pub")
    session.subscribe(topic, qos=1, properties=identified(7))
    session.disconnect()
    publisher.publish(topic, b"waited", 1)
    back = scene.lasting()
    publisher.publish(topic, b"live", 1)
    for message in back.expect_payloads([b"waited", b"live"]):
        assert message.properties.subscription_identifiers == (7,)


def test_mqtt_3_3_4_3_a_retained_message_names_its_subscription(scene: Scene) -> None:
    """[MQTT-3.3.4-3]."""
    topic = scene.topic("a")
    scene.client("pub").publish(topic, b"kept", 1, retain=True)
    client = scene.client()
    client.subscribe(topic, properties=identified(3))
    assert client.expect_message().properties.subscription_identifiers == (3,)


def test_mqtt_3_3_4_3_identifiers_are_those_of_the_receiver(scene: Scene) -> None:
    """[MQTT-3.3.4-3]: others have their own."""
    topic = scene.topic("a")
    clients = [scene.client(name) for name in "abc"]
    for number, client in enumerate(clients, 1):
        client.subscribe(topic, properties=identified(number))
    scene.client("pub").publish(topic, b"x")
    assert [client.expect_message().properties.subscription_identifiers for client in clients] == [(1,), (2,), (3,)]


def test_mqtt5_3_8_2_1_a_shared_subscription_has_its_identifier(scene: Scene) -> None:
    """Chapter 3.8.2.1.2: each member its own."""
    topic = scene.topic("a")
    client = scene.client()
    client.subscribe(f"$share/g/{topic}", properties=identified(4))
    scene.client("pub").publish(topic, b"x")
    assert client.expect_message().properties.subscription_identifiers == (4,)
