"""A group of which some are members over MQTT, and others compete for its messages."""

from __future__ import annotations

from tests.support.competing import Rival
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import BY_ANSWER, RunningGateway, consumer, publish

from penstock.broker.feed.held import Held
from penstock.broker.queues.group import Group
from penstock.codecs.mqtt.packets import Publish
from penstock.codecs.mqtt.reasons import ReasonCode


def group_of(mqtt: RunningGateway) -> Group:
    [group] = mqtt.broker.queue("q").groups.values()
    return group


def settled(mqtt: RunningGateway, rivals: list[Rival]) -> list[bytes]:
    """What those who compete got since the last time, which they acknowledge."""
    news = [delivery for rival in rivals for delivery in rival.news()]
    for delivery in news:
        assert mqtt.broker.settling.ack(Held(delivery)).settled.stale == 0
    return [delivery.stored.value(row) for delivery in news for row in delivery.rows]


def test_members_and_those_who_compete_settle_every_message_once(mqtt: RunningGateway) -> None:
    mqtt.declare(ordering="none")
    member = consumer(mqtt, "member", BY_ANSWER, receive_maximum=4)
    group = group_of(mqtt)
    rivals = mqtt.call(lambda: [Rival(mqtt.broker, group, prefetch) for prefetch in (3, 5)])
    publisher = mqtt.client("p")
    seen: dict[str, list[bytes]] = {"member": [], "rivals": []}
    expected = [b"%d" % i for i in range(200)]
    for payload in expected[:100]:
        publisher.publish("$queue/q", payload, 1)
    for payload in expected[100:]:
        publisher.publish("$queue/q", payload, 1)
        take_turns(mqtt, member, rivals, seen)
    while mqtt.unsettled():
        take_turns(mqtt, member, rivals, seen)
    assert sorted(seen["member"] + seen["rivals"]) == sorted(expected)
    assert seen["member"]
    assert seen["rivals"]
    assert mqtt.call(lambda: [rival.competitor.held for rival in rivals]) == [0, 0]


def take_turns(mqtt: RunningGateway, member: MqttClient, rivals: list[Rival], seen: dict[str, list[bytes]]) -> None:
    """All acknowledge what they have."""
    for message in member.came():
        assert isinstance(message, Publish)
        seen["member"].append(message.payload)
        member.acknowledge(message)
    seen["rivals"] += mqtt.call(lambda: settled(mqtt, rivals))


def test_a_group_that_one_has_alone_is_refused(mqtt: RunningGateway) -> None:
    mqtt.declare(ordering="none")
    first = consumer(mqtt, "other", BY_ANSWER)
    first.disconnect()
    group = group_of(mqtt)
    mqtt.until(lambda: not group.consumers)
    alone = mqtt.call(lambda: Rival(mqtt.broker, group, alone=True))
    client = mqtt.client("late")
    assert client.subscribe("$queue/q", qos=1, properties=BY_ANSWER) == (ReasonCode.NOT_AUTHORIZED,)
    publish(mqtt, b"1")
    mqtt.until(lambda: len(alone.deliveries) == 1)
