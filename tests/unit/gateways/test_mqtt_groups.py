"""Queues over MQTT: which group a client is in, where that starts, what it is told with each message."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import (
    BY_ANSWER,
    EXPLICIT,
    RunningGateway,
    Setup,
    consumer,
    publish,
    running,
    said,
    user,
)

from penstock.codecs.mqtt.packets import PubAck, Publish
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode


def test_a_delivery_says_what_queues_promise(mqtt: RunningGateway) -> None:
    mqtt.declare("q", partitions=1)
    publisher = mqtt.client("p")
    publisher.publish("$queue/q/eu/1", b"x", 1, properties=user(partition_key="k", traceparent="00-ab-cd-01"))
    message = consumer(mqtt, properties=EXPLICIT).expect(Publish)
    told = said(message)
    incarnation = mqtt.broker.queue("q").incarnation
    assert message.topic == "$queue/q/eu/1"
    assert told == {
        "partition-key": "k",
        "traceparent": "00-ab-cd-01",
        "message-id": f"q@{incarnation}:0:0",
        "queue": "q",
        "partition": "0",
        "offset": "0",
        "delivery-count": "1",
        "consumer-group": "g",
        "timestamp": str(mqtt.clock.now_ms()),
    }


def test_a_group_is_named_after_the_client_up_to_its_last_dash(mqtt: RunningGateway) -> None:
    mqtt.declare()
    first = consumer(mqtt, "billing-eu-1", user(ack_mode="puback"))
    second = consumer(mqtt, "billing-eu-2", user(ack_mode="puback"))
    assert mqtt.groups() == {"billing-eu"}
    publish(mqtt, b"x")
    mqtt.until(lambda: sum(each.sender.sent for each in mqtt.gateway.connections if each.name != "p") == 1)
    for client in (first, second):
        client.close()


def test_a_client_without_a_name_of_its_own_has_a_group_of_its_own_that_ends_with_it(mqtt: RunningGateway) -> None:
    mqtt.declare()
    publish(mqtt, b"before")
    first, second = consumer(mqtt, "", user(ack_mode="puback")), consumer(mqtt, "", user(ack_mode="puback"))
    assert len(mqtt.groups()) == 2
    publish(mqtt, b"x")
    first.expect_payloads([b"x"])
    second.expect_payloads([b"x"])
    first.disconnect()
    second.cut()
    mqtt.until(lambda: not mqtt.groups())


def test_every_group_gets_every_message(mqtt: RunningGateway) -> None:
    mqtt.declare()
    publish(mqtt, b"1", b"2")
    for name in ("g1", "g2"):
        consumer(mqtt, name, user(consumer_group=name)).expect_payloads([b"1", b"2"])


def test_shares_of_a_queue_are_groups(mqtt: RunningGateway) -> None:
    mqtt.declare()
    consumer(mqtt, filter="$share/team/$queue/q", properties=user(ack_mode="puback"))
    assert mqtt.groups() == {"team"}


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", [b"0", b"1", b"2"]),
        ("latest", []),
        ("1", [b"1", b"2"]),
        ("15s", [b"2"]),
        ("2023-11-14T22:13:25Z", [b"1", b"2"]),
    ],
)
def test_a_new_group_starts_where_it_asks_to(mqtt: RunningGateway, start: str, expected: list[bytes]) -> None:
    mqtt.declare()
    for i in range(3):
        publish(mqtt, str(i).encode())
        mqtt.clock.advance(10)
    client = consumer(mqtt, properties=user(consumer_group="g", start=start))
    publish(mqtt, b"new")
    client.expect_payloads([*expected, b"new"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": "some day"},
        {"start": "9" * 5000},
        {"prefetch": "many"},
        {"prefetch": "0"},
        {"ack_mode": "maybe"},
        {"consumer_group": "a|b"},
    ],
)
def test_terms_that_cannot_be_read_refuse_the_subscription_and_nothing_else(
    mqtt: RunningGateway, wrong: dict[str, str]
) -> None:
    mqtt.declare()
    client = consumer(mqtt, properties=BY_ANSWER)
    [reason] = client.subscribe("$queue/q", qos=1, properties=user(**({"consumer_group": "h"} | wrong)))
    assert reason.is_refusal
    assert client.subscribe("t", qos=1) == (ReasonCode.GRANTED_QOS_1,)
    publish(mqtt, b"x")
    client.expect_payloads([b"x"])


def test_a_prefetch_larger_than_any_number_is_the_queues_own(mqtt: RunningGateway) -> None:
    client = mqtt.lasting("s")
    [reason] = client.subscribe("$queue/q", qos=1, properties=user(consumer_group="g", prefetch="9" * 30))
    assert not reason.is_refusal


def test_a_filter_is_a_group_of_its_own(mqtt: RunningGateway) -> None:
    mqtt.declare()
    publisher = mqtt.client("p")
    for topic in ("$queue/q/eu/1", "$queue/q/us/1", "$queue/q/eu/2", "$queue/q"):
        publisher.publish(topic, topic.encode(), 1)
    consumer(mqtt, "eu", filter="$queue/q/eu/#").expect_payloads([b"$queue/q/eu/1", b"$queue/q/eu/2"])
    consumer(mqtt, "ones", filter="$queue/q/+/1").expect_payloads([b"$queue/q/eu/1", b"$queue/q/us/1"])
    consumer(mqtt, "all", filter="$queue/q/#").expect_payloads(
        [b"$queue/q/eu/1", b"$queue/q/us/1", b"$queue/q/eu/2", b"$queue/q"]
    )
    assert mqtt.groups() == {"g|eu/#", "g|+/1", "g"}


def test_two_consumers_share_the_partitions(mqtt: RunningGateway) -> None:
    mqtt.declare(partitions=4)
    clients = [consumer(mqtt, name, EXPLICIT) for name in ("a", "b")]
    publisher = mqtt.client("p")
    for i in range(8):
        publisher.publish("$queue/q", str(i).encode(), 1, properties=user(partition=i % 4))
    found = [{said(client.expect(Publish))["partition"] for _ in range(4)} for client in clients]
    assert [len(partitions) for partitions in found] == [2, 2]
    assert found[0] | found[1] == {"0", "1", "2", "3"}


def test_subscribing_makes_a_queue_and_publishing_makes_one_of_the_whole_path(mqtt: RunningGateway) -> None:
    consumer(mqtt, filter="$queue/orders/#")
    publish(mqtt, b"x", topic="$queue/a/b")
    assert {queue.name for queue in mqtt.broker.queues} == {"orders", "a/b"}
    client = mqtt.client("w")
    assert client.subscribe("$queue/none/+/x", qos=1) == (ReasonCode.TOPIC_FILTER_INVALID,)


def test_a_queue_that_is_made_takes_what_comes_below_it_in_the_same_receive(mqtt: RunningGateway) -> None:
    client = mqtt.client("c")
    client.send(
        Publish("$queue/a", b"1", 1, packet_id=1),
        Publish("$queue/a/b", b"2", 1, packet_id=2),
        Publish("$queue/a/c", b"3", 1, packet_id=3),
    )
    assert [client.expect(PubAck).packet_id for _ in range(3)] == [1, 2, 3]
    assert {queue.name for queue in mqtt.broker.queues} == {"a"} and mqtt.messages_in("a") == 3


def test_nothing_is_made_where_that_is_off(tmp_path: Path) -> None:
    with running(tmp_path, Setup(auto_create=False)) as mqtt:
        client = mqtt.client("c")
        assert client.subscribe("$queue/orders", qos=1) == (ReasonCode.TOPIC_FILTER_INVALID,)
        client.send(Publish("$queue/orders", b"x", 1, packet_id=9))
        assert client.expect(PubAck).reason is ReasonCode.TOPIC_NAME_INVALID
        assert mqtt.broker.queues == []


# How long a group lives

DERIVED = user(ack_mode="puback")
_HOUR_S = 3600


def lasting_consumer(mqtt: RunningGateway, name: str = "billing-1", properties: Properties = DERIVED) -> MqttClient:
    """Of a session that ends four hours after its connection."""
    client = mqtt.client(name, clean=False, properties=Properties(session_expiry_interval_s=4 * _HOUR_S))
    [reason] = client.subscribe("$queue/q", qos=1, properties=properties)
    assert not reason.is_refusal, reason
    return client


def go_on(mqtt: RunningGateway, name: str = "billing-1") -> MqttClient:
    return mqtt.client(name, clean=False, properties=Properties(session_expiry_interval_s=4 * _HOUR_S))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_derived_group_stays_while_a_session_of_it_lives(mqtt: RunningGateway, restarts: bool) -> None:
    mqtt.declare()
    client = lasting_consumer(mqtt)
    publish(mqtt, b"done")
    client.expect_payloads([b"done"])
    client.ping()
    assert mqtt.unsettled(group="billing") == 0
    client.cut()
    mqtt.left_with(1)
    if restarts:
        mqtt.restart()
    mqtt.advance(2 * _HOUR_S)
    mqtt.keep_up()
    publish(mqtt, b"missed?")
    go_on(mqtt).expect_payloads([b"missed?"])


def test_a_derived_group_goes_an_hour_after_the_last_session_of_it_ended(mqtt: RunningGateway) -> None:
    mqtt.declare()
    lasting_consumer(mqtt).cut()
    mqtt.left_with(0)
    mqtt.restart()
    mqtt.advance(4 * _HOUR_S + 1)
    mqtt.advance(_HOUR_S - 60)
    mqtt.keep_up()
    assert mqtt.groups() == {"billing"}
    mqtt.advance(120)
    mqtt.keep_up()
    assert mqtt.groups() == set()


@pytest.mark.parametrize("filter", ["$queue/q", "$queue/q/#"])
def test_a_session_that_unsubscribed_keeps_no_group(mqtt: RunningGateway, filter: str) -> None:
    mqtt.declare()
    client = lasting_consumer(mqtt)
    client.subscribe("$queue/q/#", qos=1, properties=DERIVED)
    client.unsubscribe(filter)
    client.cut()
    mqtt.left_with(0)
    mqtt.advance(2 * _HOUR_S)
    mqtt.keep_up()
    assert mqtt.groups() == {"billing"}
    go_on(mqtt).unsubscribe("$queue/q", "$queue/q/#")
    mqtt.advance(2 * _HOUR_S)
    mqtt.keep_up()
    assert mqtt.groups() == set()


def test_a_session_that_begins_anew_keeps_no_group(mqtt: RunningGateway) -> None:
    mqtt.declare()
    lasting_consumer(mqtt).cut()
    mqtt.left_with(0)
    mqtt.client("billing-1", clean=True)
    mqtt.advance(_HOUR_S + 60)
    mqtt.keep_up()
    assert mqtt.groups() == set()


def test_a_group_with_a_name_stays_while_a_session_of_it_lives(mqtt: RunningGateway) -> None:
    mqtt.declare(group_expiry="1h")
    lasting_consumer(mqtt, properties=BY_ANSWER).cut()
    mqtt.left_with(0)
    mqtt.advance(2 * _HOUR_S)
    mqtt.keep_up()
    assert mqtt.groups() == {"g"}


def test_a_client_that_was_given_its_name_keeps_its_group_while_its_session_lives(mqtt: RunningGateway) -> None:
    mqtt.declare()
    publish(mqtt, b"before").disconnect()
    client = mqtt.opened("")
    answer = client.connect(clean=True, properties=Properties(session_expiry_interval_s=4 * _HOUR_S))
    name = answer.properties.assigned_client_identifier
    assert name is not None
    client.subscribe("$queue/q", qos=1, properties=DERIVED)
    client.cut()
    mqtt.left_with(0)
    publish(mqtt, b"missed?")
    go_on(mqtt, name).expect_payloads([b"missed?"])
