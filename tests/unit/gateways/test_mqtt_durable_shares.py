"""Shared subscriptions that the configuration makes durable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import V3, V5, RunningGateway, Setup, publish, running, said, user

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import PubAck, Publish
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.gateways.mqtt.options import MqttOptions
from penstock.gateways.mqtt.sessions.queue_subscriptions import is_durable_share

SHARE = "$share/team/plant/#"


@pytest.fixture
def mqtt(tmp_path: Path) -> Iterator[RunningGateway]:
    options = MqttOptions(sys_interval_s=0, durable_shares=("plant/#", "jobs/+"))
    with running(tmp_path, Setup(options)) as made:
        yield made


def member(
    mqtt: RunningGateway, name: str, version: Version = V5, properties: Properties = NO_PROPERTIES, qos: int = 1
) -> MqttClient:
    client = mqtt.client(name, version)
    [reason] = client.subscribe(SHARE, qos=qos, properties=properties)
    assert not reason.is_refusal, reason
    return client


@pytest.mark.parametrize(
    ("topic_filter", "is_durable"),
    [("plant/#", True), ("plant/a/+", True), ("jobs/1", True), ("jobs/+", True), ("jobs/#", False), ("#", False)],
)
def test_a_share_is_durable_if_all_that_it_matches_is_configured_to_be(topic_filter: str, is_durable: bool) -> None:
    assert is_durable_share(topic_filter, NO_PROPERTIES, ("plant/#", "jobs/+")) is is_durable


def test_every_share_is_durable_that_matches_no_topics_of_the_server() -> None:
    assert is_durable_share("a/b", NO_PROPERTIES, ("#",))
    assert not is_durable_share("$SYS/#", NO_PROPERTIES, ("#",))
    assert not is_durable_share("a/b", NO_PROPERTIES, ())


def test_what_the_client_says_goes_over_the_configuration() -> None:
    assert not is_durable_share("plant/a", user(durable="false"), ("plant/#",))
    assert is_durable_share("elsewhere", user(durable="true"), ("plant/#",))


@pytest.mark.parametrize("version", [V3, V5], ids=["3.1.1", "5"])
def test_messages_wait_for_members_that_know_nothing_of_queues(mqtt: RunningGateway, version: Version) -> None:
    first = member(mqtt, "m1", version)
    publisher = publish(mqtt, b"1", topic="plant/a")
    first.expect_payloads([b"1"])
    first.disconnect()
    publisher.publish("plant/b", b"2", 1)
    second = member(mqtt, "m2", version)
    second.expect_payloads([b"2"])
    second.disconnect()
    mqtt.settle()
    member(mqtt, "m3", version).expect_nothing_from(publisher)


def test_a_member_may_settle_itself(mqtt: RunningGateway) -> None:
    client = member(mqtt, "m1", properties=user(ack_mode="explicit"))
    publisher = publish(mqtt, b"1", topic="plant/a")
    message = client.expect_message()
    client.disconnect()
    other = member(mqtt, "m2", properties=user(ack_mode="explicit"))
    again = other.expect_message()
    assert said(again)["message-id"] == said(message)["message-id"]
    settled = user(message_id=said(again)["message-id"])
    other.publish(f"$queue/{said(again)['queue']}/$ack", b"", 1, properties=settled)
    other.disconnect()
    mqtt.settle()
    member(mqtt, "m3").expect_nothing_from(publisher)


def test_a_share_that_wants_to_be_an_ordinary_one_makes_no_queue(mqtt: RunningGateway) -> None:
    client = member(mqtt, "m", properties=user(durable="false"))
    publish(mqtt, b"1", topic="plant/a")
    assert client.expect(Publish).payload == b"1"
    assert mqtt.broker.queues == []


def test_a_lasting_member_is_one_again_after_a_restart(mqtt: RunningGateway) -> None:
    client = mqtt.lasting("m")
    client.subscribe(SHARE, qos=1)
    client.disconnect()
    publish(mqtt, b"1", topic="plant/a")
    mqtt.restart()
    back = mqtt.lasting("m")
    assert back.connack.session_present
    message = back.expect(Publish)
    assert (message.payload, said(message)["consumer-group"]) == (b"1", "team")
    back.send(PubAck(message.packet_id))
    back.expect_nothing_from(mqtt.client("p"))
