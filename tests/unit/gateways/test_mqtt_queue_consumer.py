"""Queues over MQTT: how much is under way, what settles, what comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.broker import LARGE
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import (
    BY_ANSWER,
    EXPLICIT,
    LONG_S,
    V3,
    RunningGateway,
    Setup,
    consumer,
    publish,
    running,
    said,
    user,
)

from penstock.codecs.mqtt.packets import PubAck, PubComp, Publish, PubRec, PubRel
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.mqtt.options import MqttOptions


def payloads(client: MqttClient, count: int) -> list[bytes]:
    return [client.expect(Publish).payload for _ in range(count)]


# How much is under way


def test_prefetch_bounds_what_is_unsettled_however_much_is_acknowledged(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = consumer(mqtt, properties=user(consumer_group="g", prefetch=2))
    publisher = publish(mqtt, *[str(i).encode() for i in range(5)])
    client.expect_payloads([b"0", b"1"])
    client.expect_nothing_from(publisher)


def test_messages_of_topics_and_of_queues_share_the_clients_receive_maximum(mqtt: RunningGateway) -> None:
    """The consumer asked for as many as there was room for; others were sent before the messages came."""
    mqtt.declare()
    client = consumer(mqtt, receive_maximum=2)
    client.subscribe("t", qos=1)
    publisher = mqtt.client("p")
    for i in range(2):
        publisher.publish("t", b"t%d" % i, 1)
    for i in range(3):
        publisher.publish("$queue/q", b"q%d" % i, 1)
    first = [client.expect(Publish) for _ in range(2)]
    assert [message.payload for message in first] == [b"t0", b"t1"]
    assert client.seen_after(publisher) == []
    for message in first:
        client.send(PubAck(message.packet_id))
    client.expect_payloads([b"q0", b"q1", b"q2"])
    mqtt.settle()
    assert mqtt.unsettled() == 0


def test_two_queues_of_one_client_share_its_receive_maximum(mqtt: RunningGateway) -> None:
    for name in ("q", "r"):
        mqtt.declare(name)
    client = mqtt.client("c", properties=Properties(receive_maximum=3))
    client.subscribe("$queue/q", "$queue/r", qos=1, properties=BY_ANSWER)
    publisher = mqtt.client("p")
    publisher.send(*[Publish(f"$queue/{'qr'[i % 2]}", b"%d" % i, 1, packet_id=i + 1) for i in range(10)])
    found = [client.expect_message().payload for _ in range(10)]
    assert sorted(found) == [b"%d" % i for i in range(10)]


def test_a_lasting_session_with_little_room_gets_messages_of_queues_and_of_topics(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = mqtt.lasting("s", receive_maximum=2)
    client.subscribe("$queue/q", qos=1, properties=BY_ANSWER)
    client.subscribe("t/#", qos=2)
    publisher = mqtt.client("p")
    sent = []
    for i in range(20):
        topic, qos = (("$queue/q", 1), ("t/1", 2), ("t/2", 1))[i % 3]
        sent.append(Publish(topic, b"%02d" % i, qos, packet_id=i + 1))
    publisher.send(*sent)
    found = [client.expect_message().payload for _ in range(20)]
    assert sorted(found) == [b"%02d" % i for i in range(20)]


def test_a_reader_that_stops_is_sent_no_more_of_a_queue_than_its_limit(tmp_path: Path) -> None:
    options = MqttOptions(sys_interval_s=0, max_outbound_bytes=100_000)
    with running(tmp_path, Setup(options, shard=LARGE)) as mqtt:
        mqtt.declare()
        client = consumer(mqtt, qos=0)
        publisher = mqtt.client("p")
        for _ in range(200):
            publisher.publish("$queue/q", bytes(60_000), 1)
        [connection] = [each for each in mqtt.gateway.connections if each.name == "c"]
        mqtt.until(lambda: connection.outbox.is_clogged)
        assert 0 < mqtt.unsettled() < 200
        assert connection.outbox.waiting_bytes < 1_000_000
        payloads(client, 200)
        mqtt.until(lambda: mqtt.broker.queue("q").depth() == 0)


# What settles


def test_puback_settles_where_the_client_asked_for_that(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = consumer(mqtt)
    publish(mqtt, b"1", b"2")
    first, second = client.expect(Publish), client.expect(Publish)
    client.send(PubAck(second.packet_id))
    client.ping()
    mqtt.settle()
    assert mqtt.unsettled() == 1
    client.send(PubAck(first.packet_id))
    client.ping()
    mqtt.settle()
    assert mqtt.unsettled() == 0


@pytest.mark.parametrize("qos", [1, 2])
def test_in_3_1_1_the_end_of_the_handshake_settles(mqtt: RunningGateway, qos: int) -> None:
    mqtt.declare()
    client = consumer(mqtt, "g-1", version=V3, qos=qos)
    publisher = mqtt.client("p")
    for payload in (b"1", b"2"):
        publisher.publish("$queue/q", payload, 2)
    client.expect_payloads([b"1", b"2"])
    client.ping()
    mqtt.settle()
    assert mqtt.unsettled() == 0


def test_puback_alone_settles_nothing_where_settling_is_explicit(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = consumer(mqtt, properties=EXPLICIT)
    publish(mqtt, b"1")
    client.expect_message()
    client.ping()
    mqtt.settle()
    assert mqtt.unsettled() == 1


def test_qos_0_settles_on_write(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = consumer(mqtt, qos=0, properties=EXPLICIT)
    publish(mqtt, b"1", b"2")
    assert payloads(client, 2) == [b"1", b"2"]
    mqtt.settle()
    assert mqtt.unsettled() == 0


def test_qos_2_settles_at_pubcomp_and_not_before(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = consumer(mqtt, qos=2)
    publish(mqtt, b"1")
    message = client.expect(Publish)
    client.send(PubRec(message.packet_id))
    client.expect(PubRel)
    mqtt.settle()
    assert mqtt.unsettled() == 1
    client.send(PubComp(message.packet_id))
    client.ping()
    mqtt.settle()
    assert mqtt.unsettled() == 0


@pytest.mark.parametrize("answer", [PubAck, PubRec])
def test_a_refusal_fails_the_message_which_comes_again_after_its_backoff(
    mqtt: RunningGateway, answer: type[PubAck] | type[PubRec]
) -> None:
    mqtt.declare(retry_policy={"initial_backoff": "10s", "max_backoff": "10s"})
    client = consumer(mqtt, qos=1 if answer is PubAck else 2)
    publisher = publish(mqtt, b"1")
    client.send(answer(client.expect(Publish).packet_id, ReasonCode.UNSPECIFIED_ERROR))
    client.expect_nothing_from(publisher)
    mqtt.advance(10)
    assert said(client.expect(Publish))["delivery-count"] == "2"


@pytest.mark.parametrize("qos", [0, 1])
def test_what_the_client_cannot_take_is_a_dead_letter_and_the_rest_arrives(mqtt: RunningGateway, qos: int) -> None:
    mqtt.declare()
    publisher = mqtt.client("p")
    publisher.send(*[Publish("$queue/q", bytes(size), 1, packet_id=size) for size in (10, 2000, 20, 3000)])
    for _ in range(4):
        publisher.expect(PubAck)
    client = consumer(mqtt, qos=qos, maximum_packet_bytes=1000)
    client.expect_payloads([bytes(10), bytes(20)])
    client.ping()
    mqtt.settle()
    assert mqtt.unsettled() == 0
    assert mqtt.messages_in("$dlq/q") == 2


# What comes back


def test_what_a_client_held_is_another_members_when_it_is_gone(mqtt: RunningGateway) -> None:
    mqtt.declare()
    first = consumer(mqtt, "first")
    publish(mqtt, b"1", b"2")
    assert payloads(first, 2) == [b"1", b"2"]
    second = consumer(mqtt, "second")
    first.cut()
    messages = second.expect_payloads([b"1", b"2"])
    assert [said(message)["delivery-count"] for message in messages] == ["2", "2"]


def test_a_lasting_session_consumes_again_and_under_new_identifiers(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = mqtt.lasting("s")
    client.subscribe("$queue/q", qos=1, properties=BY_ANSWER)
    publish(mqtt, b"1")
    client.expect(Publish)
    client.cut()
    client = mqtt.lasting("s")
    message = client.expect(Publish)
    assert (message.payload, message.dup, said(message)["delivery-count"]) == (b"1", False, "2")
    client.send(PubAck(message.packet_id))
    client.ping()
    mqtt.settle()
    assert mqtt.unsettled() == 0


def test_a_lasting_session_is_granted_qos_1_for_a_queue(mqtt: RunningGateway) -> None:
    """A client that comes back may hold an identifier of QoS 2, and would take the next message under it for one that
    it has."""
    mqtt.declare()
    client = mqtt.lasting("s")
    assert client.subscribe("$queue/q", qos=2, properties=BY_ANSWER) == (ReasonCode.GRANTED_QOS_1,)
    publish(mqtt, b"1")
    assert client.expect(Publish).qos == 1
    client.cut()
    client = mqtt.lasting("s")
    assert client.expect(Publish).qos == 1


def test_a_lasting_session_consumes_again_after_a_restart(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = mqtt.lasting("s")
    client.subscribe("$queue/q/eu/#", qos=1, properties=user(consumer_group="g", ack_mode="puback", prefetch=1))
    publish(mqtt, b"1", b"2", topic="$queue/q/eu/1")
    client.expect(Publish)
    mqtt.restart()
    client = mqtt.lasting("s")
    first = client.expect(Publish)
    assert first.payload == b"1"
    assert said(first)["consumer-group"] == "g"
    client.send(PubAck(first.packet_id))
    assert client.expect(Publish).payload == b"2"


def test_what_is_not_settled_in_time_comes_again(mqtt: RunningGateway) -> None:
    mqtt.declare(performance={"delivery_timeout": "30s"}, retry_policy={"initial_backoff": "1s", "max_backoff": "1s"})
    client = consumer(mqtt, properties=EXPLICIT)
    publish(mqtt, b"1")
    client.expect_message()
    mqtt.advance(31)
    mqtt.advance(2)
    assert said(client.expect(Publish))["delivery-count"] == "2"


def test_unsubscribing_gives_back_what_is_held_and_ends_the_consuming(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = consumer(mqtt)
    publisher = publish(mqtt, b"1")
    client.expect(Publish)
    assert client.unsubscribe("$queue/q") == (ReasonCode.SUCCESS,)
    publisher.publish("$queue/q", b"2", 1)
    client.expect_nothing_from(publisher)
    consumer(mqtt, "other").expect_payloads([b"1", b"2"])


def test_unsubscribing_holds_for_the_session_to_come(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = mqtt.lasting("s")
    client.subscribe("$queue/q", qos=1, properties=BY_ANSWER)
    client.unsubscribe("$queue/q")
    client.disconnect()
    publisher = publish(mqtt, b"1")
    mqtt.lasting("s").expect_nothing_from(publisher)


def test_dead_letters_are_consumed_like_any_queue_and_under_their_other_names(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = consumer(mqtt, properties=EXPLICIT)
    publish(mqtt, b"bad")
    message = client.expect_message()
    client.publish("$queue/q/$reject", b"", 1, properties=user(message_id=said(message)["message-id"], reason="why"))
    for name, filter in (("a", "$dlq/q"), ("b", "$queue/dlq/q"), ("d", "$queue/q.dlq")):
        letter = consumer(mqtt, name, user(consumer_group=name, ack_mode="puback"), filter=filter).expect_message()
        assert letter.payload == b"bad"
        assert said(letter)["queue"] == "$dlq/q"
    mqtt.settle()
    assert mqtt.unsettled("$dlq/q", "a") == 0


def test_a_paused_queue_takes_messages_and_gives_none_until_it_goes_on(mqtt: RunningGateway) -> None:
    queue = mqtt.declare()
    client = consumer(mqtt)
    mqtt.wait(mqtt.broker.declaring.pause(queue, True))
    publisher = publish(mqtt, b"1")
    client.expect_nothing_from(publisher)
    mqtt.wait(mqtt.broker.declaring.pause(queue, False))
    client.expect_payloads([b"1"])


def test_a_message_that_expired_is_not_delivered(mqtt: RunningGateway) -> None:
    mqtt.declare()
    publisher = mqtt.client("p")
    publisher.publish("$queue/q", b"old", 1, properties=Properties(message_expiry_interval_s=5))
    publisher.publish("$queue/q", b"kept", 1, properties=Properties(message_expiry_interval_s=LONG_S))
    mqtt.advance(10)
    [message] = consumer(mqtt).expect_payloads([b"kept"])
    assert message.properties.message_expiry_interval_s == LONG_S - 10


def test_an_answer_to_an_earlier_delivery_does_not_settle_the_later_one(mqtt: RunningGateway) -> None:
    """It took too long, failed and came again, to the same client."""
    mqtt.declare(performance={"delivery_timeout": "10s"}, retry_policy={"initial_backoff": "1s"})
    client = consumer(mqtt, properties=BY_ANSWER)
    publisher = publish(mqtt, b"slow")
    first = client.expect(Publish)
    mqtt.advance(11)
    mqtt.advance(2)
    second = client.expect(Publish)
    assert (second.payload, said(second)["delivery-count"]) == (b"slow", "2")
    client.send(PubAck(first.packet_id))
    client.expect_nothing_from(publisher)
    assert mqtt.unsettled() == 1
    client.send(PubAck(second.packet_id))
    client.ping()
    assert mqtt.unsettled() == 0


def test_a_client_that_is_connected_and_never_settles_gives_way_to_one_that_does(mqtt: RunningGateway) -> None:
    mqtt.declare(partitions=2, retry_policy={"max_retries": 3, "initial_backoff": "1s", "max_backoff": "1s"})
    hung, healthy = consumer(mqtt, "hung", EXPLICIT), consumer(mqtt, "healthy", BY_ANSWER)
    publisher = mqtt.client("p")
    for partition in range(2):
        publisher.publish("$queue/q", b"%d" % partition, 1, properties=user(partition=partition))
    hung.expect(Publish)
    first = healthy.expect_message()
    for _ in range(3):
        mqtt.advance(31)
        mqtt.advance(2)
    assert {first.payload, healthy.expect_message().payload} == {b"0", b"1"}
    mqtt.settle()
    assert mqtt.unsettled() == 0
    assert mqtt.messages_in("$dlq/q") == 0


def test_answers_to_messages_of_several_queues_settle_each_in_its_own(mqtt: RunningGateway) -> None:
    queues = [f"q{number}" for number in range(5)]
    client, publisher = mqtt.client("c"), mqtt.client("p")
    for queue in queues:
        mqtt.declare(queue, partitions=1)
        client.subscribe(f"$queue/{queue}", qos=1, properties=user(consumer_group="g", ack_mode="puback"))
    for text in (b"1", b"2"):
        for queue in queues:
            publisher.publish(f"$queue/{queue}", text, 1)
    messages = [client.expect(Publish) for _ in range(10)]
    assert [mqtt.unsettled(queue) for queue in queues] == [2] * 5
    client.send(*[PubAck(each.packet_id) for each in messages if not each.topic.startswith("$queue/q3")])
    mqtt.until(lambda: not any(mqtt.broker.queue(queue).depth() for queue in queues if queue != "q3"))
    assert mqtt.unsettled("q3") == 2
    client.unsubscribe("$queue/q3")
    again = mqtt.client("d")
    again.subscribe("$queue/q3", qos=1, properties=user(consumer_group="g"))
    assert [again.expect(Publish).payload for _ in range(2)] == [b"1", b"2"]
