"""What a client publishes: aliases, answers in order, refusals in the words of its version, directions to queues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import V3, V5, RunningGateway, Setup, running, said, user

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.packets import Disconnect, Packet, PubAck, PubComp, Publish, PubRec, PubRel
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import DiskLow
from penstock.gateways.mqtt.options import MqttOptions

FULL = ReasonCode.QUOTA_EXCEEDED
DONE = ReasonCode.SUCCESS


def answers(client: MqttClient, count: int) -> list[tuple[str, int, ReasonCode]]:
    found = []
    for _ in range(count):
        packet = client.receive()
        assert isinstance(packet, PubAck | PubRec)
        found.append((packet.type.name, packet.packet_id, packet.reason))
    return found


def reason_of(client: MqttClient, packet: Publish) -> ReasonCode:
    client.send(packet)
    [(_, packet_id, reason)] = answers(client, 1)
    assert packet_id == packet.packet_id
    return reason


def alias(number: int, expiry_s: int | None = None, *pairs: tuple[str, str]) -> Properties:
    return Properties(topic_alias=number, message_expiry_interval_s=expiry_s, user_properties=pairs)


# Aliases


def test_an_alias_stands_for_its_topic_in_the_same_receive_and_in_later_ones(mqtt: RunningGateway) -> None:
    client, publisher = mqtt.client("c"), mqtt.client("p")
    client.subscribe("#", qos=0)
    publisher.send(
        Publish("a", b"1", properties=alias(1)),
        Publish("", b"2", properties=alias(1)),
        Publish("b", b"3", properties=alias(2)),
        Publish("c", b"4", properties=alias(1)),
        Publish("", b"5", properties=alias(1)),
        Publish("", b"6", properties=alias(2)),
    )
    publisher.ping()
    publisher.send(Publish("", b"7", properties=alias(1)))
    found = [client.expect(Publish) for _ in range(7)]
    assert [(one.topic, one.payload) for one in found] == list(
        zip(["a", "a", "b", "c", "c", "b", "c"], [b"%d" % i for i in range(1, 8)], strict=True)
    )


def test_an_alias_that_was_never_told_ends_the_connection(mqtt: RunningGateway) -> None:
    publisher = mqtt.client("p")
    publisher.send(Publish("", b"1", properties=alias(3)))
    word = publisher.expect_closed()
    assert isinstance(word, Disconnect)
    assert word.reason is ReasonCode.PROTOCOL_ERROR


def test_alias_and_expiry_are_taken_out_and_the_rest_stays_whatever_their_order(mqtt: RunningGateway) -> None:
    client, publisher = mqtt.client("c"), mqtt.client("p")
    client.subscribe("a", qos=0)
    plain = encode(Publish("a", b"x", properties=alias(1, 60, ("k", "v"))), V5)
    body = plain[2:]
    topic, size, properties, payload = body[:3], body[3], body[4 : 4 + body[3]], body[4 + body[3] :]
    parts = {properties[i : i + n] for i, n in ((0, 5), (5, 3), (8, len(properties) - 8))}
    assert len(b"".join(parts)) == size
    first, second, third = sorted(parts)
    for order in ((first, second, third), (third, second, first), (second, third, first)):
        data = topic + bytes([size]) + b"".join(order) + payload
        publisher.send_raw(bytes([plain[0], len(data)]) + data)
        message = client.expect(Publish)
        assert message.properties == Properties(message_expiry_interval_s=60, user_properties=(("k", "v"),))


def test_a_client_that_takes_aliases_is_told_each_topic_once(mqtt: RunningGateway) -> None:
    client = mqtt.client("c", properties=Properties(topic_alias_maximum=2))
    client.subscribe("t/#", qos=1)
    publisher = mqtt.client("p")
    names = ["t/a", "t/b", "t/c", "t/a", "t/b", "t/c"]
    for topic in names:
        publisher.publish(topic, topic.encode(), 1)
    found = [client.expect_message() for _ in names]
    assert [message.payload.decode() for message in found] == names
    assert [message.topic for message in found] == ["t/a", "t/b", "t/c", "", "", "t/c"]
    assert [message.properties.topic_alias for message in found] == [1, 2, None, 1, 2, None]


def test_aliases_told_in_what_had_to_wait_are_not_used_before(mqtt: RunningGateway) -> None:
    client = mqtt.client("c", properties=Properties(topic_alias_maximum=5, receive_maximum=1))
    client.subscribe("t", qos=1)
    publisher = mqtt.client("p")
    for i in range(4):
        publisher.publish("t", b"%d" % i, 1)
    known: dict[int, str] = {}
    for i in range(4):
        message = client.expect_message()
        number = message.properties.topic_alias
        if number is not None and message.topic:
            known[number] = message.topic
        assert (message.topic or known[number or 0], message.payload) == ("t", b"%d" % i)


# Answers


def test_mixed_qualities_are_answered_in_the_order_of_each(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    publisher = mqtt.client("p")
    publisher.send(
        *[
            Publish(("t", "$queue/q")[i % 2], b"x", (1, 2, 1, 0, 2)[i % 5], packet_id=0 if i % 5 == 3 else i + 1)
            for i in range(20)
        ]
    )
    found = answers(publisher, 16)
    for kind in ("PUBACK", "PUBREC"):
        ids = [packet_id for name, packet_id, _ in found if name == kind]
        assert len(ids) == 8
        assert ids == sorted(ids)


def test_an_ephemeral_publish_is_not_answered_before_a_durable_one_that_came_first(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    publisher = mqtt.client("p")
    for i in range(0, 200, 2):
        publisher.send(Publish("$queue/q", b"x", 1, packet_id=i + 1))
        publisher.send(Publish("t", b"x", 1, packet_id=i + 2))
    assert [packet_id for _, packet_id, _ in answers(publisher, 200)] == list(range(1, 201))


def test_a_message_of_qos_2_sent_again_is_answered_again_and_taken_once(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    publisher = mqtt.lasting("p")
    publisher.send(Publish("$queue/q", b"x", 2, packet_id=5), Publish("$queue/q", b"x", 2, dup=True, packet_id=5))
    assert answers(publisher, 2) == [("PUBREC", 5, DONE)] * 2
    publisher.cut()
    publisher = mqtt.lasting("p")
    publisher.send(Publish("$queue/q", b"x", 2, dup=True, packet_id=5))
    assert answers(publisher, 1) == [("PUBREC", 5, DONE)]
    publisher.send(PubRel(5))
    publisher.expect(PubComp)
    assert mqtt.messages_in("q") == 1


def test_an_identifier_whose_message_was_refused_is_free_for_the_next_even_after_a_reconnect(
    mqtt: RunningGateway,
) -> None:
    mqtt.declare("q", limits={"max_message_size": 100})
    publisher = mqtt.lasting("p")
    publisher.send(
        Publish("$queue/q", bytes(200), 2, packet_id=1),
        Publish("$SYS/x", b"no", 2, packet_id=2),
        Publish("$queue/q", b"ok", 2, packet_id=3),
    )
    assert answers(publisher, 3) == [
        ("PUBREC", 1, FULL),
        ("PUBREC", 2, ReasonCode.NOT_AUTHORIZED),
        ("PUBREC", 3, DONE),
    ]
    publisher.cut()
    publisher = mqtt.lasting("p")
    publisher.send(Publish("$queue/q", b"1", 2, packet_id=1), Publish("$queue/q", b"2", 2, packet_id=2))
    assert [packet_id for _, packet_id, _ in answers(publisher, 2)] == [1, 2]
    assert mqtt.messages_in("q") == 3


@pytest.mark.parametrize("at_once", [False, True])
def test_a_message_of_qos_2_that_is_refused_is_refused_each_time_it_is_sent(
    mqtt: RunningGateway, at_once: bool
) -> None:
    mqtt.declare("q", limits={"max_message_size": 100})
    publisher = mqtt.client("p")
    first = Publish("$queue/q", bytes(200), 2, packet_id=5)
    for packets in [[first, replace(first, dup=True)]] if at_once else [[first], [replace(first, dup=True)]]:
        publisher.send(*packets)
        assert answers(publisher, len(packets)) == [("PUBREC", 5, FULL)] * len(packets)
    assert mqtt.messages_in("q") == 0
    publisher.send(Publish("$queue/q", b"ok", 2, packet_id=5))
    assert answers(publisher, 1) == [("PUBREC", 5, DONE)]
    assert mqtt.messages_in("q") == 1


# Refusals


def full(mqtt: RunningGateway, name: str = "q", depth: int = 2, **settings: object) -> None:
    queue = mqtt.declare(name, limits={"max_queue_depth": depth, "max_message_size": 1000}, **settings)
    mqtt.wait(mqtt.broker.group(queue, "g"))


def publishes(sizes: Sequence[int], topic: str = "$queue/q", qos: int = 1) -> list[Packet]:
    return [Publish(topic, bytes(size), qos, packet_id=i + 1) for i, size in enumerate(sizes)]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_full_queue_takes_what_fits_and_refuses_the_rest_however_it_comes(
    mqtt: RunningGateway, at_once: bool, qos: int
) -> None:
    full(mqtt, depth=5)
    publisher = mqtt.client("p")
    reasons = []
    if at_once:
        publisher.send(*publishes([1] * 8, qos=qos))
        reasons = [reason for _, _, reason in answers(publisher, 8)]
    else:
        for packet in publishes([1] * 8, qos=qos):
            assert isinstance(packet, Publish)
            reasons.append(reason_of(publisher, packet))
    assert reasons == [DONE] * 5 + [FULL] * 3
    assert mqtt.messages_in("q") == 5


@pytest.mark.parametrize("at_once", [False, True])
def test_messages_of_several_topics_keep_their_order_where_some_are_refused(
    mqtt: RunningGateway, at_once: bool
) -> None:
    full(mqtt, depth=3, topics=["t/#"])
    publisher, topics = mqtt.client("p"), ["t/a", "t/b", "t/a", "$queue/q", "t/b"]
    packets = [Publish(topic, b"%d" % i, 1, packet_id=i + 1) for i, topic in enumerate(topics)]
    packets[1] = replace(packets[1], payload=bytes(2000))
    for some in [packets] if at_once else [[packet] for packet in packets]:
        publisher.send(*some)
    assert [reason for _, _, reason in answers(publisher, 5)] == [DONE, FULL, DONE, DONE, FULL]
    client = mqtt.client("c")
    client.subscribe("$queue/q", qos=1, properties=user(consumer_group="all"))
    client.expect_payloads([b"0", b"2", b"3"])


def test_a_message_too_large_for_a_queue_is_refused_and_those_beside_it_are_not(mqtt: RunningGateway) -> None:
    full(mqtt, depth=100)
    publisher = mqtt.client("p")
    publisher.send(*publishes([10, 2000, 20, 30, 3000]))
    assert [reason for _, _, reason in answers(publisher, 5)] == [DONE, FULL, DONE, DONE, FULL]
    assert mqtt.messages_in("q") == 3


def test_if_one_of_several_queues_refuses_none_takes_it_and_nobody_is_sent_it(mqtt: RunningGateway) -> None:
    mqtt.declare("open", topics=["orders/#"])
    full(mqtt, "tight", 1, topics=["orders/#"])
    client, publisher = mqtt.client("c"), mqtt.client("p")
    client.subscribe("orders/#", qos=1)
    assert reason_of(publisher, Publish("orders/1", b"1", 1, packet_id=1)) is DONE
    assert reason_of(publisher, Publish("orders/1", b"2", 1, packet_id=2)) is FULL
    assert reason_of(publisher, Publish("orders/1", b"3", 1, packet_id=3, properties=user(partition=0))) is FULL
    assert (mqtt.messages_in("open"), mqtt.messages_in("tight")) == (1, 1)
    client.expect_payloads([b"1"])
    client.expect_nothing_from(publisher)


def test_in_3_1_1_a_refusal_ends_the_connection(mqtt: RunningGateway) -> None:
    full(mqtt, depth=1)
    publisher = mqtt.client("p", V3)
    publisher.publish("$queue/q", b"1", 1)
    publisher.send(Publish("$queue/q", b"2", 1, packet_id=9))
    assert publisher.expect_closed() is None
    assert mqtt.messages_in("q") == 1


@pytest.mark.parametrize("topic", ["$SYS/broker/version", "$share/g/t", "$queue/", "$queue/a//b", "$queue/$x"])
def test_topics_that_nobody_may_publish_to_are_refused(mqtt: RunningGateway, topic: str) -> None:
    client, publisher = mqtt.client("c"), mqtt.client("p")
    client.subscribe("$SYS/#", qos=1)
    reason = reason_of(publisher, Publish(topic, b"x", 1, packet_id=1))
    assert reason in (ReasonCode.NOT_AUTHORIZED, ReasonCode.TOPIC_NAME_INVALID)
    assert mqtt.broker.queues == []
    assert [packet for packet in client.seen_after(publisher) if getattr(packet, "payload", b"") == b"x"] == []


def test_a_disk_that_is_low_refuses_what_is_durable_and_lets_the_rest_through(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    client, publisher = mqtt.client("c"), mqtt.client("p")
    client.subscribe("t", qos=1)
    shard = mqtt.broker.shard
    low = mock.Mock(side_effect=DiskLow(1, 2))
    with mock.patch.object(shard._engine, "refuse_if_low", low):
        assert reason_of(publisher, Publish("$queue/q", b"x", 1, packet_id=1)) is FULL
        assert reason_of(publisher, Publish("t", b"y", 1, packet_id=2)) is DONE
    client.expect_payloads([b"y"])
    assert reason_of(publisher, Publish("$queue/q", b"x", 1, packet_id=3)) is DONE
    assert mqtt.messages_in("q") == 1


def test_more_than_the_receive_maximum_under_way_ends_the_connection(tmp_path: Path) -> None:
    with running(tmp_path, Setup(MqttOptions(sys_interval_s=0, receive_maximum=3))) as mqtt:
        publisher = mqtt.client("p")
        publisher.send(*publishes([1] * 5, "t", qos=2))
        word = publisher.expect_closed()
        assert isinstance(word, Disconnect)
        assert word.reason is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


# Directions


def test_a_message_goes_to_the_partition_it_names_or_is_refused(mqtt: RunningGateway) -> None:
    queue, publisher = mqtt.declare("q", partitions=4), mqtt.client("p")
    publisher.publish("$queue/q", b"x", 1, properties=user(partition=2))
    assert [number for number, unit in queue.units.items() if unit.data.end] == [2]
    for wrong in ("4", "-1", "x", "9" * 30, "9" * 5000):
        packet = Publish("$queue/q", b"x", 1, packet_id=9, properties=user(partition=wrong))
        assert reason_of(publisher, packet) is ReasonCode.TOPIC_NAME_INVALID
    assert mqtt.messages_in("q") == 1


def test_keys_keep_messages_together_in_one_receive(mqtt: RunningGateway) -> None:
    queue, publisher = mqtt.declare("q", partitions=8), mqtt.client("p")
    publisher.send(
        *[Publish("$queue/q", b"x", 1, packet_id=i + 1, properties=user(partition_key=i % 5)) for i in range(50)]
    )
    answers(publisher, 50)
    assert sum(unit.data.end for unit in queue.units.values()) == 50
    assert all(unit.data.end % 10 == 0 for unit in queue.units.values())


def test_a_producer_that_sends_a_sequence_twice_stores_it_once(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    publisher = mqtt.client("p")
    for sequence in (0, 1, 1, 0, 2):
        publisher.publish("$queue/q", b"x", 1, properties=user(producer_id="me", producer_epoch=0, sequence=sequence))
    assert mqtt.messages_in("q") == 3
    for wrong in (
        user(producer_id="me"),
        user(producer_id="me", sequence="9"),
        user(producer_id="me", sequence="9" * 20),
        user(sequence=3),
        user(producer_epoch=0),
        user(partition=0, sequence=3),
    ):
        assert reason_of(publisher, Publish("$queue/q", b"x", 1, packet_id=99, properties=wrong)).is_refusal
    assert mqtt.messages_in("q") == 3


@pytest.mark.parametrize("directions", [{"partition": 0}, {"producer_id": "me", "sequence": 0}])
def test_qos_2_with_directions_is_one_frame_with_its_packet_id(
    mqtt: RunningGateway, directions: dict[str, object]
) -> None:
    for name in ("one", "two"):
        mqtt.declare(name, partitions=1, topics=["t"])
    client, publisher = mqtt.lasting("c"), mqtt.lasting("p")
    client.subscribe("t", qos=1)
    publisher.publish("t", b"before", 1)
    mqtt.settle()
    frames = mqtt.broker.shard.metrics.frames
    assert reason_of(publisher, Publish("t", b"x", 2, packet_id=7, properties=user(**directions))) is DONE
    assert mqtt.broker.shard.metrics.frames == frames + 1
    assert (mqtt.messages_in("one"), mqtt.messages_in("two")) == (2, 2)
    mqtt.restart()
    stored = mqtt.topics.sessions.find("p")
    assert stored is not None and stored.held == {7}


def test_if_one_queue_refuses_a_producer_no_queue_takes_its_message(mqtt: RunningGateway) -> None:
    for name in ("one", "two"):
        mqtt.declare(name, partitions=1, topics=["t"])
    publisher = mqtt.client("p")
    publisher.publish("$queue/two", b"x", 1, properties=user(producer_id="me", producer_epoch=5, sequence=0))
    old = user(producer_id="me", producer_epoch=0, sequence=0)
    assert reason_of(publisher, Publish("t", b"x", 1, packet_id=9, properties=old)).is_refusal
    assert (mqtt.messages_in("one"), mqtt.messages_in("two")) == (0, 1)


@pytest.mark.parametrize("name", ["delay", "deliver-at", "priority", "schema-id"])
def test_what_queues_cannot_do_yet_is_refused_for_queues_and_passes_for_topics(mqtt: RunningGateway, name: str) -> None:
    mqtt.declare("q")
    client, publisher = mqtt.client("c"), mqtt.client("p")
    client.subscribe("t", qos=1)
    properties = user((name, "1"))
    refusal = reason_of(publisher, Publish("$queue/q", b"x", 1, packet_id=1, properties=properties))
    assert refusal.is_refusal
    assert reason_of(publisher, Publish("t", b"x", 1, packet_id=2, properties=properties)) is DONE
    [message] = client.expect_payloads([b"x"])
    assert said(message) == {name: "1"}
    assert mqtt.messages_in("q") == 0


# $admin and $SYS


def test_queues_are_made_and_changed_by_publishing(mqtt: RunningGateway) -> None:
    client = mqtt.client("a")
    wanted = {"name": "orders", "partitions": 3, "topics": ["orders/#"], "limits": {"max_queue_depth": 7}}
    client.publish("$admin/queue/create", json.dumps(wanted).encode(), 1)
    queue = mqtt.broker.queue("orders")
    assert (queue.settings.partitions, queue.settings.limits.max_queue_depth) == (3, 7)
    client.publish("$admin/queue/orders/config", b'{"limits": {"max_queue_depth": 9}}', 1)
    assert queue.settings.limits.max_queue_depth == 9


def test_requests_of_one_receive_are_answered_each_for_itself(mqtt: RunningGateway) -> None:
    client = mqtt.client("a")
    asked = [
        b'{"name": "a"}',
        b'{"name": "a"}',
        b"not json",
        b"[1]",
        b'{"name": "b", "partitionss": 2}',
        b'{"name": "c"}',
    ]
    asked.append(b"[" * 100_000)
    client.send(*[Publish("$admin/queue/create", one, 1, packet_id=i + 1) for i, one in enumerate(asked)])
    reasons = [reason for _, _, reason in answers(client, len(asked))]
    bad = ReasonCode.PAYLOAD_FORMAT_INVALID
    assert reasons == [DONE, ReasonCode.TOPIC_NAME_INVALID, bad, bad, bad, DONE, bad]
    assert {queue.name for queue in mqtt.broker.queues} == {"a", "c"}


@pytest.mark.parametrize("topic", ["$admin/queue/none/config", "$admin/other", "$admin/queue/create/x"])
def test_requests_that_name_nothing_are_refused(mqtt: RunningGateway, topic: str) -> None:
    assert reason_of(mqtt.client("a"), Publish(topic, b"{}", 1, packet_id=1)).is_refusal


def test_what_the_broker_says_of_itself_and_of_queues_is_published(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    client, publisher = mqtt.client("a"), mqtt.client("p")
    client.subscribe("$SYS/broker/#", "$admin/queue/+/stats", qos=0)
    publisher.publish("$queue/q", b"x", 1)
    mqtt.wait(mqtt.gateway.system.publish())
    found = {packet.topic: packet.payload for packet in client.seen_after(publisher) if isinstance(packet, Publish)}
    assert found["$SYS/broker/clients/connected"] == b"2"
    assert found["$SYS/broker/messages/received"] == b"1"
    stats = json.loads(found["$admin/queue/q/stats"])
    assert stats["name"] == "q"
    everything = mqtt.client("b")
    everything.subscribe("#", qos=0)
    mqtt.wait(mqtt.gateway.system.publish())
    everything.expect_nothing_from(publisher)
