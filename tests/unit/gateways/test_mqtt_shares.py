"""Shared subscriptions: who of the members gets a message, and what happens to it when that one leaves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pytest
from tests.support.mqtt_client import MqttClient, messages_of
from tests.support.mqtt_gateway import LONG_S, RunningGateway, Setup, running

from penstock.broker.topics.shares import SharedStrategy
from penstock.broker.topics.topics import TopicOptions
from penstock.codecs.mqtt.packets import Publish, Subscription
from penstock.codecs.mqtt.properties import Properties

SHARE = "$share/g/t/#"


def members(mqtt: RunningGateway, count: int, qos: int = 1) -> list[MqttClient]:
    made = [mqtt.client(f"m{i}") for i in range(count)]
    for member in made:
        member.subscribe(SHARE, qos=qos)
    return made


def publish(mqtt: RunningGateway, payloads: Sequence[bytes], qos: int = 1, topic: str = "t/1") -> MqttClient:
    publisher = mqtt.client("p")
    for payload in payloads:
        publisher.publish(topic, payload, qos)
    return publisher


def payloads_of(client: MqttClient, publisher: MqttClient) -> list[bytes]:
    return [message.payload for message in messages_of(client.seen_after(publisher))]


def numbered(count: int) -> list[bytes]:
    return [str(i).encode() for i in range(count)]


def test_round_robin_gives_each_member_the_same_number(mqtt: RunningGateway) -> None:
    made = members(mqtt, 3, qos=0)
    publisher = publish(mqtt, numbered(9))
    got = [payloads_of(member, publisher) for member in made]
    assert [len(some) for some in got] == [3, 3, 3]
    assert sorted(chain(*got)) == numbered(9)


def test_random_gives_every_message_to_one_member(tmp_path: Path) -> None:
    with running(tmp_path, Setup(topics=TopicOptions(SharedStrategy.RANDOM))) as mqtt:
        made = members(mqtt, 3, qos=0)
        publisher = publish(mqtt, numbered(60))
        got = [payloads_of(member, publisher) for member in made]
        assert sorted(chain(*got)) == sorted(numbered(60))
        assert all(got)


@pytest.mark.parametrize("by_key", [False, True])
def test_sticky_gives_all_messages_of_a_topic_or_key_to_one_member(tmp_path: Path, by_key: bool) -> None:
    with running(tmp_path, Setup(topics=TopicOptions(SharedStrategy.STICKY))) as mqtt:
        made, publisher = members(mqtt, 3, qos=0), mqtt.client("p")
        for i in range(60):
            group = str(i % 10)
            topic = "t/one" if by_key else f"t/{group}"
            properties = Properties(user_properties=(("partition-key", group),)) if by_key else Properties()
            publisher.publish(topic, group.encode(), 1, properties=properties)
        got = [set(payloads_of(member, publisher)) for member in made]
        assert sum(len(some) for some in got) == 10
        assert len([some for some in got if some]) > 1


def test_what_a_member_did_not_confirm_goes_to_others_when_it_leaves(mqtt: RunningGateway) -> None:
    first, second = members(mqtt, 2)
    publisher = publish(mqtt, numbered(4))
    kept = [first.expect(Publish).payload, first.expect(Publish).payload]
    mine = [second.expect_message().payload, second.expect_message().payload]
    first.cut()
    again = [second.expect_message().payload, second.expect_message().payload]
    assert again == kept
    assert sorted(mine + again) == numbered(4)
    second.expect_nothing_from(publisher)


def test_what_waited_for_a_member_goes_to_others_when_it_leaves(mqtt: RunningGateway) -> None:
    slow = mqtt.client("slow", properties=Properties(receive_maximum=1))
    slow.subscribe(SHARE, qos=1)
    publish(mqtt, numbered(5))
    slow.expect(Publish)
    other = mqtt.client("other")
    other.subscribe(SHARE, qos=1)
    slow.disconnect()
    other.expect_payloads(numbered(5))


def test_a_message_of_qos_2_under_way_is_nobody_elses_when_its_session_ends(mqtt: RunningGateway) -> None:
    """[MQTT-4.8.2-5]: the member may have it."""
    first, second = members(mqtt, 2, qos=2)
    publisher = publish(mqtt, [b"1", b"2"], qos=2)
    first.expect(Publish)
    second.expect_message()
    first.cut()
    mqtt.until(lambda: len(mqtt.gateway.registry) == 2)
    second.expect_nothing_from(publisher)


def test_redistributed_messages_keep_their_properties_and_what_is_left_of_their_time(mqtt: RunningGateway) -> None:
    first, publisher = mqtt.client("a"), mqtt.client("p")
    first.subscribe(SHARE, qos=1)
    properties = Properties(
        payload_format_indicator=1,
        message_expiry_interval_s=100,
        content_type="text/plain",
        response_topic="r",
        correlation_data=b"\x01",
        user_properties=(("partition-key", "k"), ("a", "b")),
    )
    publisher.publish("t/1", b"x", 1, properties=properties)
    first.expect(Publish)
    second = mqtt.client("b")
    second.subscribe(SHARE, qos=1, properties=Properties(subscription_identifiers=(9,)))
    first.cut()
    message = second.expect_message()
    assert message.properties.subscription_identifiers == (9,)
    assert message.properties.user_properties == properties.user_properties
    assert message.properties.response_topic == "r"
    assert message.properties.correlation_data == b"\x01"
    assert message.properties.message_expiry_interval_s == 100


def test_members_away_get_nothing_while_another_is_there(mqtt: RunningGateway) -> None:
    away, here = mqtt.lasting("away"), mqtt.client("here")
    for member in (away, here):
        member.subscribe(SHARE, qos=1)
    away.disconnect()
    mqtt.left_with(1)
    publish(mqtt, numbered(4))
    here.expect_payloads(numbered(4))


def test_messages_are_kept_for_a_lasting_member_while_all_are_away(mqtt: RunningGateway) -> None:
    away = mqtt.lasting("away")
    away.subscribe(SHARE, qos=1, properties=Properties(subscription_identifiers=(9,)))
    away.disconnect()
    publish(mqtt, numbered(3))
    back = mqtt.lasting("away")
    messages = back.expect_payloads(numbered(3))
    assert [message.properties.subscription_identifiers for message in messages] == [(9,)] * 3


def test_what_a_member_leaves_behind_is_kept_for_a_lasting_one_that_is_away(mqtt: RunningGateway) -> None:
    away, here = mqtt.lasting("away"), mqtt.client("here")
    for member in (away, here):
        member.subscribe(SHARE, qos=1)
    away.disconnect()
    mqtt.left_with(1)
    publish(mqtt, numbered(2))
    here.expect(Publish)
    here.expect(Publish)
    here.cut()
    mqtt.until(lambda: len(mqtt.gateway.registry) == 2)
    mqtt.settle()
    mqtt.lasting("away").expect_payloads(numbered(2))


def test_what_a_member_leaves_to_a_lasting_one_outlives_that_ones_connection(mqtt: RunningGateway) -> None:
    first, lasting = mqtt.client("first"), mqtt.lasting("lasting")
    first.subscribe(SHARE, qos=1)
    publish(mqtt, [b"x"])
    first.expect(Publish)
    lasting.subscribe(SHARE, qos=1)
    first.cut()
    lasting.expect(Publish)
    lasting.cut()
    mqtt.lasting("lasting").expect_payloads([b"x"])


def test_a_lasting_member_with_a_plain_subscription_too_gets_a_copy_for_each(mqtt: RunningGateway) -> None:
    client, publisher = mqtt.lasting("a"), mqtt.client("p")
    client.subscribe(Subscription(SHARE, 1), Subscription("t/1", 1))
    publisher.publish("t/1", b"x", 1)
    client.expect_payloads([b"x", b"x"])


def test_nobody_is_dealt_to_who_has_a_backlog_while_another_keeps_up(mqtt: RunningGateway) -> None:
    slow = mqtt.client("slow", properties=Properties(receive_maximum=1))
    slow.subscribe(SHARE, qos=1)
    publish(mqtt, [b"first", b"waits"])
    slow.expect(Publish)
    quick = mqtt.client("quick")
    quick.subscribe(SHARE, qos=1)
    publish(mqtt, numbered(4))
    quick.expect_payloads(numbered(4))


def test_a_session_that_ends_while_away_leaves_the_share(mqtt: RunningGateway) -> None:
    away = mqtt.lasting("away")
    away.subscribe(SHARE, qos=1)
    away.disconnect()
    mqtt.left_with(0)
    mqtt.advance(LONG_S + 1)
    assert len(mqtt.gateway.registry) == 0
    assert mqtt.gateway.counters.subscriptions == 0
