"""The short way of a single message: only where it is all that becomes of it, and with the same outcome as the long."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import V3, RunningGateway

from penstock.codecs.mqtt.packets import Publish, Subscription
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties

Receiver = Callable[[RunningGateway], MqttClient]


def watched(mqtt: RunningGateway) -> list[bool]:
    """Of each single message that is published from now on: whether it went the short way."""
    relay, found = mqtt.gateway.relay, list[bool]()
    take = relay.take

    def watch(*arguments: object) -> bool:
        found.append(take(*arguments))  # type: ignore[arg-type]  # passed on as they are
        return found[-1]

    mqtt.call(lambda: setattr(relay, "take", watch))
    return found


def barred(mqtt: RunningGateway) -> None:
    mqtt.call(lambda: setattr(mqtt.gateway.relay, "take", lambda *_: False))


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
    ("receiver", "qos", "properties", "is_short"),
    [
        (plain, 0, NO_PROPERTIES, True),
        (plain, 1, NO_PROPERTIES, True),
        (at_most_once, 0, NO_PROPERTIES, True),
        (plain, 2, NO_PROPERTIES, False),
        (plain, 1, Properties(user_properties=(("a", "b"),)), False),
        (at_most_once, 1, NO_PROPERTIES, False),
        (older, 1, NO_PROPERTIES, False),
        (identified, 1, NO_PROPERTIES, False),
        (taking_aliases, 1, NO_PROPERTIES, False),
        (lasting, 1, NO_PROPERTIES, False),
        (not_local, 1, NO_PROPERTIES, False),
        (sharing, 1, NO_PROPERTIES, False),
    ],
)
def test_a_message_goes_the_short_way_only_where_the_long_way_would_send_the_same(
    mqtt: RunningGateway, receiver: Receiver, qos: int, properties: Properties, is_short: bool
) -> None:
    packet = Publish("t", b"x", qos, properties=properties)
    ways = watched(mqtt)
    found = outcome(mqtt, receiver, packet)
    assert ways == [is_short]
    barred(mqtt)
    assert outcome(mqtt, receiver, packet) == found


def test_a_message_for_a_queue_goes_the_long_way(mqtt: RunningGateway) -> None:
    mqtt.declare("q", topics=["t"])
    client, ways = plain(mqtt), watched(mqtt)
    mqtt.client("p").publish("t", b"x", 1)
    client.expect_payloads([b"x"])
    assert ways == [False]
    assert mqtt.messages_in("q") == 1


def test_a_message_larger_than_a_receiver_takes_does_not_reach_it(mqtt: RunningGateway) -> None:
    client, publisher = mqtt.client("r", properties=Properties(maximum_packet_bytes=50)), mqtt.client("p")
    client.subscribe("t", qos=1)
    publisher.publish("t", bytes(100), 1)
    publisher.publish("t", b"small", 1)
    client.expect_payloads([b"small"])


def test_messages_of_a_client_keep_their_order_whichever_way_they_go(mqtt: RunningGateway) -> None:
    client, publisher, ways = plain(mqtt), mqtt.client("p"), watched(mqtt)
    for number in range(70):
        properties = Properties(user_properties=(("n", "1"),)) if number == 2 else NO_PROPERTIES
        publisher.publish("t", b"%d" % number, 1, properties=properties)
    client.expect_payloads([b"%d" % number for number in range(70)])
    assert ways[:4] == [True, True, False, True]


def test_a_client_that_has_no_more_room_gets_it_when_it_has(mqtt: RunningGateway) -> None:
    client = mqtt.client("r", properties=Properties(receive_maximum=1))
    client.subscribe("t", qos=1)
    publisher, ways = mqtt.client("p"), watched(mqtt)
    for payload in (b"1", b"2", b"3"):
        publisher.publish("t", payload, 1)
    client.expect_payloads([b"1", b"2", b"3"])
    assert ways == [True] * 3
