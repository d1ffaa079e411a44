"""What a client of MQTT 5 is told in words when something is refused, and when it is told none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import V3, RunningGateway, said, user

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
)
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode


def refused(client: MqttClient, topic: str, payload: bytes = b"x", qos: int = 1, **named: object) -> tuple[int, str]:
    packet_id = client.next_id()
    client.send(Publish(topic, payload, qos, packet_id=packet_id, properties=user(**named)))
    answer: PubAck | PubRec = client.expect(PubAck) if qos == 1 else client.expect(PubRec)
    assert answer.packet_id == packet_id
    return answer.reason, answer.properties.reason_string or ""


def suback(client: MqttClient, *filters: str, properties: Properties = NO_PROPERTIES) -> SubAck:
    client.send(Subscribe(client.next_id(), tuple(Subscription(each, 1) for each in filters), properties))
    return client.expect(SubAck)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_refused_publish_says_why(mqtt: RunningGateway, qos: int) -> None:
    mqtt.declare("small", limits={"max_queue_depth": 1})
    client = mqtt.client("a")
    suback(client, "$queue/small", properties=user(consumer_group="g"))
    client.publish("$queue/small", b"1", 1)
    assert isinstance(client.receive(), Publish)
    reason, why = refused(client, "$queue/small", qos=qos)
    assert reason == ReasonCode.QUOTA_EXCEEDED and "small" in why and "full" in why
    reason, why = refused(client, "$SYS/mine", qos=qos)
    assert (reason, why) == (ReasonCode.NOT_AUTHORIZED, "'$SYS/mine' is for the server to publish")


def test_of_many_publishes_those_that_are_refused_say_why(mqtt: RunningGateway) -> None:
    client = mqtt.client("a")
    packets = [Publish("t" if number % 2 else "$SYS/t", b"", 1, packet_id=number + 1) for number in range(6)]
    client.send_raw(b"".join(encode(packet, client.version) for packet in packets))
    answers = [client.expect(PubAck) for _ in packets]
    assert [answer.packet_id for answer in answers] == [1, 2, 3, 4, 5, 6]
    assert [bool(answer.properties.reason_string) for answer in answers] == [True, False] * 3


@pytest.mark.parametrize(
    ("topic", "payload", "word"),
    [
        ("$admin/queue/create", b"{", "not JSON"),
        ("$admin/queue/create", b"[]", "not an object"),
        ("$admin/queue/create", b'{"name": "q", "partitons": 3}', "partitions"),
        ("$admin/queue/none/config", b'{"partitions": 3}', "none"),
        ("$admin/queue/create", b'{"name": "a\\u0000b"}', "control character"),
        ("$admin/what", b"{}", "$admin/queue/create"),
    ],
)
def test_a_refused_request_of_an_admin_says_why(mqtt: RunningGateway, topic: str, payload: bytes, word: str) -> None:
    reason, why = refused(mqtt.client("a"), topic, payload)
    assert ReasonCode(reason).is_refusal and word in why


def test_a_refused_settlement_says_why(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    client = mqtt.client("a")
    suback(client, "$queue/q", properties=user(consumer_group="g"))
    assert "names its messages" in refused(client, "$queue/q/$ack")[1]
    assert "message-id" in refused(client, "$queue/q/$ack")[1]
    client.publish("$queue/q", b"1", 1)
    message_id = said(client.expect(Publish))["message-id"]
    client.publish("$queue/q/$ack", b"", 1, properties=user(message_id=message_id))
    assert "stale" in refused(client, "$queue/q/$ack", message_id=message_id)[1]
    assert "none" in refused(client, "$queue/none/$ack", message_id="none@1:0:0")[1]


def test_a_settlement_in_a_partition_that_nobody_wrote_to_says_that_there_is_no_such_message(
    mqtt: RunningGateway,
) -> None:
    mqtt.declare("q", partitions=2)
    client = mqtt.client("a")
    suback(client, "$queue/q", properties=user(consumer_group="g"))
    assert "has no such message" in refused(client, "$queue/q/$ack", message_id="q@1:0:0")[1]
    assert "has no partition 2" in refused(client, "$queue/q/$ack", message_id="q@1:2:0")[1]


@pytest.mark.parametrize(
    ("packet", "why"),
    [
        (b"\x36\x04\x00\x01t\x00", "PUBLISH: a PUBLISH has QoS 3, or is a duplicate in QoS 0"),
        (b"\x30\x04\x00\x09t\x00", "PUBLISH: the topic name needs 9 bytes, and 2 are left"),
        (b"\x32\x06\x00\x01t\x00\x00\x00", "PUBLISH: the packet identifier is 0"),
        (b"\x30\x07\x00\x01t\x03\x23\xff\xff", "PUBLISH: topic alias invalid"),
        (b"\x40\x02\x00\x00", "PUBACK: the packet identifier is 0"),
        (b"\x30\xff\xff\xff\x7f", "PUBLISH: packet too large"),
        (b"\x00\x00", "packet: there is no packet of type 0"),
    ],
)
def test_a_packet_that_ends_the_connection_is_named_with_what_is_wrong(
    mqtt: RunningGateway, packet: bytes, why: str
) -> None:
    client = mqtt.client("a")
    client.send_raw(packet)
    assert client.expect(Disconnect).properties.reason_string == why


def test_a_refused_subscription_says_why_for_the_first_filter(mqtt: RunningGateway) -> None:
    answer = suback(mqtt.client("a"), "t", "$queue/a/+/b", "$queue/$x")
    assert [reason.is_refusal for reason in answer.reasons] == [False, True, True]
    assert (answer.properties.reason_string or "").startswith("$queue/a/+/b: ")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("consumer-grup", "consumer-group"),
        ("consumer_group", "consumer-group"),
        ("Consumer-Group", "consumer-group"),
        ("consumergroup", "consumer-group"),
        ("prefech", "prefetch"),
        ("ackmode", "ack-mode"),
        ("strat", "start"),
    ],
)
def test_a_misspelt_user_property_of_a_queue_subscription_is_refused_with_the_nearest_name(
    mqtt: RunningGateway, name: str, nearest: str
) -> None:
    answer = suback(mqtt.client("a"), "$queue/q", properties=Properties(user_properties=((name, "1"),)))
    assert answer.reasons == (ReasonCode.TOPIC_FILTER_INVALID,)
    assert answer.properties.reason_string == f"$queue/q: no user property {name!r} here: did you mean {nearest!r}?"
    assert mqtt.call(lambda: list(mqtt.broker.queues)) == []


def test_an_unknown_user_property_of_a_queue_subscription_is_refused_with_those_there_are(mqtt: RunningGateway) -> None:
    answer = suback(mqtt.client("a"), "$queue/q", properties=user(group="billing"))
    assert "consumer-group, start, prefetch, ack-mode, durable" in (answer.properties.reason_string or "")


def test_a_user_property_that_is_there_twice_is_refused(mqtt: RunningGateway) -> None:
    twice = Properties(user_properties=(("consumer-group", "a"), ("consumer-group", "b")))
    answer = suback(mqtt.client("a"), "$queue/q", properties=twice)
    assert "twice" in (answer.properties.reason_string or "")


def test_properties_of_tracing_and_of_the_clients_own_are_passed_over(mqtt: RunningGateway) -> None:
    own = Properties(user_properties=(("traceparent", "00-1"), ("x-team", "a"), ("consumer-group", "g")))
    assert suback(mqtt.client("a"), "$queue/q", properties=own).reasons == (ReasonCode.GRANTED_QOS_1,)


def test_topics_take_any_user_property_and_shares_any_that_is_not_misspelt(mqtt: RunningGateway) -> None:
    client = mqtt.client("a")
    assert suback(client, "t", properties=user(durabel="true")).reasons == (ReasonCode.GRANTED_QOS_1,)
    assert suback(client, "$share/g/t", properties=user(colour="red")).reasons == (ReasonCode.GRANTED_QOS_1,)
    assert "durable" in (suback(client, "$share/g/t", properties=user(durabel="true")).properties.reason_string or "")
    assert "true or false" in (
        suback(client, "$share/g/t", properties=user(durable="yes")).properties.reason_string or ""
    )


def test_mqtt_3_1_2_29_a_client_that_wants_no_problem_information_gets_reasons_only(mqtt: RunningGateway) -> None:
    client = mqtt.client("a", properties=Properties(request_problem_information=False))
    assert refused(client, "$SYS/x") == (ReasonCode.NOT_AUTHORIZED, "")
    assert refused(client, "$SYS/x", qos=2) == (ReasonCode.NOT_AUTHORIZED, "")
    answer = suback(client, "$queue/a/+/b")
    assert answer.reasons[0].is_refusal and answer.properties == NO_PROPERTIES
    client.send_raw(b"\xc5\x00")
    word = client.expect_closed()
    assert word is not None and word.properties.reason_string


def test_words_for_which_a_client_has_no_room_are_left_out(mqtt: RunningGateway) -> None:
    client = mqtt.client("a", properties=Properties(maximum_packet_bytes=30))
    assert refused(client, "$SYS/x") == (ReasonCode.NOT_AUTHORIZED, "")
    assert suback(client, "$queue/a/+/b").properties == NO_PROPERTIES


def test_mqtt_3_1_1_has_no_words(mqtt: RunningGateway) -> None:
    assert suback(mqtt.client("a", V3), "$queue/a/+/b").reasons == (ReasonCode.UNSPECIFIED_ERROR,)


def test_a_queue_that_several_fill_at_once_says_so_to_each(mqtt: RunningGateway) -> None:
    """Messages that go into one frame with those of others."""
    mqtt.declare("small", limits={"max_message_size": 10})
    for name in "ab":
        reason, why = refused(mqtt.client(name), "$queue/small", b"x" * 100)
        assert reason == ReasonCode.QUOTA_EXCEEDED and "100" in why


CREATED = "created queue {!r}, which did not exist"


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("named", [{}, {"partition": "0"}, {"producer_id": "p", "sequence": "0"}])
def test_a_publish_that_makes_a_queue_says_so_once(mqtt: RunningGateway, qos: int, named: dict[str, Any]) -> None:
    client = mqtt.client("a")
    assert refused(client, "$queue/ordres", qos=qos, **named) == (ReasonCode.SUCCESS, CREATED.format("ordres"))
    named = named | ({"sequence": "1"} if "sequence" in named else {})
    assert refused(client, "$queue/ordres", qos=qos, **named) == (ReasonCode.SUCCESS, "")
    assert mqtt.call(lambda: [(queue.name, queue.published) for queue in mqtt.broker.queues]) == [("ordres", 2)]


def test_a_publish_of_qos_2_that_made_a_queue_can_be_released(mqtt: RunningGateway) -> None:
    client = mqtt.client("a")
    client.send(Publish("$queue/b", b"", 2, packet_id=7))
    assert client.expect(PubRec).properties.reason_string == CREATED.format("b")
    client.send(PubRel(7))
    assert client.expect(PubComp).reason is ReasonCode.SUCCESS


def test_of_many_publishes_the_first_to_each_new_queue_says_so(mqtt: RunningGateway) -> None:
    mqtt.declare("old")
    client = mqtt.client("a")
    topics = ["$queue/old", "$queue/b", "$queue/b", "$SYS/t", "$queue/c", "$queue/b"]
    packets = [Publish(topic, b"", 1, packet_id=number + 1) for number, topic in enumerate(topics)]
    client.send_raw(b"".join(encode(packet, client.version) for packet in packets))
    said = [client.expect(PubAck).properties.reason_string for _ in packets]
    refusal = "'$SYS/t' is for the server to publish"
    assert said == [None, CREATED.format("b"), None, refusal, CREATED.format("c"), None]


def test_a_subscription_that_makes_a_queue_says_so(mqtt: RunningGateway) -> None:
    client = mqtt.client("a")
    answer = suback(client, "$queue/b", "t", "$share/g/$queue/c", properties=user())
    assert answer.reasons == (ReasonCode.GRANTED_QOS_1,) * 3
    assert answer.properties.reason_string == f"{CREATED.format('b')}; {CREATED.format('c')}"
    assert suback(client, "$queue/b").properties == NO_PROPERTIES
    both = suback(client, "$queue/a/+/b", "$queue/d").properties.reason_string or ""
    assert both.startswith("$queue/a/+/b: ") and both.endswith(CREATED.format("d"))


def test_a_queue_that_is_made_is_not_told_to_who_wants_no_words(mqtt: RunningGateway) -> None:
    silent = mqtt.client("a", properties=Properties(request_problem_information=False))
    assert refused(silent, "$queue/b") == (ReasonCode.SUCCESS, "")
    assert suback(silent, "$queue/c").properties == NO_PROPERTIES
    old = mqtt.client("b", V3)
    old.publish("$queue/d", b"", 1)
    assert suback(old, "$queue/e").reasons == (ReasonCode.GRANTED_QOS_1,)
    assert mqtt.call(lambda: sorted(queue.name for queue in mqtt.broker.queues)) == ["b", "c", "d", "e"]


def test_a_client_that_wants_no_queues_made_is_refused_what_would_make_one(mqtt: RunningGateway) -> None:
    mqtt.declare("orders")
    client = mqtt.client("a", properties=user(create_queues="false"))
    for qos in (1, 2):
        directed = refused(client, "$queue/ordres", qos=qos, partition="0")
        for reason, why in (refused(client, "$queue/ordres", qos=qos), directed):
            assert reason == ReasonCode.TOPIC_NAME_INVALID and "no queue 'ordres'" in why
    assert refused(client, "$queue/orders") == (ReasonCode.SUCCESS, "")
    assert refused(client, "ordinary/topic") == (ReasonCode.SUCCESS, "")
    answer = suback(client, "$queue/ordres", "$queue/orders")
    assert answer.reasons == (ReasonCode.TOPIC_FILTER_INVALID, ReasonCode.GRANTED_QOS_1)
    assert "no queue 'ordres'" in (answer.properties.reason_string or "")
    assert mqtt.call(lambda: [queue.name for queue in mqtt.broker.queues]) == ["orders"]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_refused_publish_leaves_no_queue(mqtt: RunningGateway, qos: int) -> None:
    mqtt.declare("full", topics=["$queue/new/#"], limits={"max_queue_depth": 1})
    client = mqtt.client("a")
    suback(client, "$queue/full", properties=user(consumer_group="g"))
    client.publish("$queue/full", b"1", 1)
    assert isinstance(client.receive(), Publish)
    too_large = bytes((1 << 20) + 1)
    assert refused(client, "$queue/large", too_large, qos)[0] == ReasonCode.QUOTA_EXCEEDED
    assert refused(client, "$queue/new/b", qos=qos)[0] == ReasonCode.QUOTA_EXCEEDED  # for the other one is full
    bad: list[dict[str, object]] = [
        {"partition": "99"},
        {"partition": "x"},
        {"producer_id": "p"},
        {"producer_id": "p" * 256, "sequence": "1"},
        {"delay": "5s"},
    ]
    for named in bad:
        assert refused(client, "$queue/directed", b"x", qos, **named)[0] == ReasonCode.TOPIC_NAME_INVALID
    assert refused(client, "$queue/taken", qos=qos)[0] == ReasonCode.SUCCESS
    assert refused(client, "$queue/taken2", qos=qos, partition="9")[0] == ReasonCode.SUCCESS
    names = mqtt.call(lambda: sorted(queue.name for queue in mqtt.broker.queues))
    assert names == ["full", "taken", "taken2"]


def test_a_refused_subscription_leaves_no_queue(mqtt: RunningGateway) -> None:
    client = mqtt.client("a")
    for named in ({"consumer_group": "g" * 300}, {"start": "yesterday-ish"}):
        assert suback(client, "$queue/new", properties=user(**named)).reasons[0] >= 0x80
    assert mqtt.call(lambda: list(mqtt.broker.queues)) == []


def test_a_connect_that_says_neither_yes_nor_no_to_queues_is_refused(mqtt: RunningGateway) -> None:
    client = mqtt.opened("a")
    client.send(Connect(client.version, "a", properties=user(create_queues="maybe")))
    answer = client.expect(ConnAck)
    assert answer.reason is ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    assert answer.properties.reason_string == "create-queues is 'maybe': give true or false"


def test_a_first_byte_that_begins_no_packet_ends_the_connection_before_more_comes(mqtt: RunningGateway) -> None:
    client = mqtt.client("c")
    client.send_raw(b"\xf3")
    assert client.expect(Disconnect).reason is ReasonCode.MALFORMED_PACKET
