"""Queues and groups that are deleted while clients consume them: those are told, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import BY_ANSWER, V3, RunningGateway, Setup, consumer, publish, running, user

from penstock.broker.queues.queue import Queue
from penstock.codecs.mqtt.packets import Disconnect, PubAck, Publish
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode


def delete(mqtt: RunningGateway, queue: Queue) -> None:
    mqtt.wait(mqtt.broker.declaring.delete(queue))


def delete_group(mqtt: RunningGateway, queue: Queue) -> None:
    [group] = queue.groups.values()
    mqtt.wait(mqtt.broker.declaring.delete_group(group))


def told(client: MqttClient) -> str | None:
    word = client.expect_closed()
    assert isinstance(word, Disconnect)
    assert word.reason is ReasonCode.ADMINISTRATIVE_ACTION
    return word.properties.reason_string


def test_consumers_of_a_deleted_queue_are_told_and_others_are_not(mqtt: RunningGateway) -> None:
    queue = mqtt.declare()
    mqtt.declare("other")
    waiting, filtered = consumer(mqtt, "w"), consumer(mqtt, "f", filter="$queue/q/eu/#")
    beside, publisher = consumer(mqtt, "b", filter="$queue/other"), publish(mqtt, b"1")
    delete(mqtt, queue)
    for client in (waiting, filtered):
        assert told(client) == "queue 'q' was deleted"
    publisher.publish("$queue/other", b"2", 1)
    beside.expect_payloads([b"2"])


def test_consumers_of_a_deleted_group_are_told_and_those_of_another_are_not(mqtt: RunningGateway) -> None:
    queue = mqtt.declare()
    client = consumer(mqtt)
    delete_group(mqtt, queue)
    assert told(client) == "group 'g' of queue 'q' was deleted"
    other = consumer(mqtt, "o", user(consumer_group="other", ack_mode="puback"))
    again = consumer(mqtt, "again")
    publish(mqtt, b"1")
    for each in (other, again):
        each.expect_payloads([b"1"])


def test_in_3_1_1_the_connection_is_closed(mqtt: RunningGateway) -> None:
    queue = mqtt.declare()
    client = consumer(mqtt, version=V3)
    delete(mqtt, queue)
    assert client.expect_closed() is None


def test_who_holds_all_it_may_is_told_when_it_answers(mqtt: RunningGateway) -> None:
    queue = mqtt.declare()
    client = consumer(mqtt, receive_maximum=1)
    publish(mqtt, b"1", b"2")
    held = client.expect(Publish)
    delete(mqtt, queue)
    client.send(PubAck(held.packet_id))
    assert told(client) == "queue 'q' was deleted"


def test_members_of_a_durable_share_are_told_too(mqtt: RunningGateway) -> None:
    client = consumer(mqtt, filter="$share/g/t/#", properties=user(durable="true", ack_mode="puback"))
    [queue] = mqtt.broker.queues
    delete(mqtt, queue)
    assert told(client) is not None


def test_a_client_that_subscribes_anew_gets_the_next_queue_of_that_name(mqtt: RunningGateway) -> None:
    delete(mqtt, mqtt.declare())
    queue = mqtt.declare()
    client = consumer(mqtt)
    delete(mqtt, queue)
    told(client)
    mqtt.declare()
    publish(mqtt, b"2")
    consumer(mqtt).expect_payloads([b"2"])


def test_the_subscription_is_gone_from_a_session_that_lasts_and_the_queue_does_not_come_back(
    mqtt: RunningGateway,
) -> None:
    queue = mqtt.declare()
    client = mqtt.lasting("s")
    client.subscribe("$queue/q", qos=1, properties=BY_ANSWER)
    client.subscribe("t", qos=1)
    delete(mqtt, queue)
    told(client)
    back, publisher = mqtt.lasting("s"), mqtt.client("p")
    assert back.connack.session_present
    publisher.publish("t", b"topics stay", 1)
    back.expect_payloads([b"topics stay"])
    assert mqtt.broker.queues == []


def test_a_session_that_was_away_is_told_once_if_its_queue_is_not_made_again(tmp_path: Path) -> None:
    with running(tmp_path, Setup(auto_create=False)) as mqtt:
        queue = mqtt.declare()
        client = mqtt.lasting("s")
        client.subscribe("$queue/q", qos=1, properties=BY_ANSWER)
        client.disconnect()
        mqtt.left_with(0)
        delete(mqtt, queue)
        assert str(told(mqtt.lasting("s"))).startswith("no queue 'q'")
        mqtt.lasting("s").ping()


@pytest.mark.parametrize("qos", [0, 1])
def test_what_was_asked_of_the_connection_before_is_answered(mqtt: RunningGateway, qos: int) -> None:
    queue = mqtt.declare()
    client = mqtt.client("c", properties=Properties(receive_maximum=10))
    client.subscribe("$queue/q", qos=qos, properties=BY_ANSWER)
    client.publish("t", b"x", 1)
    delete(mqtt, queue)
    told(client)
