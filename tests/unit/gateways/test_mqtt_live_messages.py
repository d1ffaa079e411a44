"""A message to clients that are connected: the same whether its publisher is taken with others or alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import V3, RunningGateway
from tests.support.mqtt_turns import barred

from penstock.codecs.mqtt.packets import Publish, Subscription
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties

Receiver = Callable[[RunningGateway], MqttClient]


def plain(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.client("r")
    client.subscribe("t", qos=1)
    return client


def older(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.client("r", V3)
    client.subscribe("t", qos=1)
    return client


def at_most_once(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.client("r")
    client.subscribe("t", qos=0)
    return client


def identified(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.client("r")
    client.subscribe("t", qos=1, properties=Properties(subscription_identifiers=(7,)))
    return client


def taking_aliases(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.client("r", properties=Properties(topic_alias_maximum=5))
    client.subscribe("t", qos=1)
    return client


def lasting(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.lasting("r")
    client.subscribe("t", qos=1)
    return client


def not_local(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.client("r")
    client.subscribe(Subscription("t", 1, no_local=True))
    return client


def sharing(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.client("r")
    client.subscribe("$share/g/t", qos=1)
    return client


def outcome(mqtt: RunningGateway, receiver: Receiver, packet: Publish) -> tuple[object, ...]:
    client, publisher = receiver(mqtt), mqtt.client("p")
    publisher.publish(packet.topic, packet.payload, packet.qos, properties=packet.properties)
    message = client.expect_message()
    return message.payload, message.qos, message.retain, message.properties


@pytest.mark.parametrize(
    "receiver", [plain, at_most_once, older, identified, taking_aliases, lasting, not_local, sharing]
)
@pytest.mark.parametrize(
    ("qos", "properties"),
    [(0, NO_PROPERTIES), (1, NO_PROPERTIES), (2, NO_PROPERTIES), (1, Properties(user_properties=(("a", "b"),)))],
)
def test_the_same_is_sent_whether_its_publisher_is_taken_with_others_or_alone(
    mqtt: RunningGateway, receiver: Receiver, qos: int, properties: Properties
) -> None:
    packet = Publish("t", b"x", qos, properties=properties)
    found = outcome(mqtt, receiver, packet)
    barred(mqtt)
    assert outcome(mqtt, receiver, packet) == found


def test_a_message_larger_than_a_receiver_takes_does_not_reach_it(mqtt: RunningGateway) -> None:
    client, publisher = mqtt.client("r", properties=Properties(maximum_packet_bytes=50)), mqtt.client("p")
    client.subscribe("t", qos=1)
    publisher.publish("t", bytes(100), 1)
    publisher.publish("t", b"small", 1)
    client.expect_payloads([b"small"])


def test_messages_of_a_client_keep_their_order_whatever_they_say(mqtt: RunningGateway) -> None:
    client, publisher = plain(mqtt), mqtt.client("p")
    for number in range(70):
        properties = Properties(user_properties=(("partition", "1"),)) if number % 7 == 2 else NO_PROPERTIES
        publisher.publish("t", b"%d" % number, 1, properties=properties)
    client.expect_payloads([b"%d" % number for number in range(70)])


def test_a_client_that_has_no_more_room_gets_it_when_it_has(mqtt: RunningGateway) -> None:
    client = mqtt.client("r", properties=Properties(receive_maximum=1))
    client.subscribe("t", qos=1)
    publisher = mqtt.client("p")
    for payload in (b"1", b"2", b"3"):
        publisher.publish("t", payload, 1)
    client.expect_payloads([b"1", b"2", b"3"])
