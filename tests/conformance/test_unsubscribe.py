"""UNSUBSCRIBE and UNSUBACK, chapters 3.10 and 3.11."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v3_only, v5_only
from tests.support.mqtt_client import messages_of
from tests.support.mqtt_wire import packet, short, string

from penstock.codecs.mqtt.packets import PubComp, Publish, PubRec, PubRel, UnsubAck, Unsubscribe
from penstock.codecs.mqtt.reasons import ReasonCode

MALFORMED, PROTOCOL_ERROR = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR
NONE_EXISTED = ReasonCode.NO_SUBSCRIPTION_EXISTED


def unsubscribe_bytes(scene: Scene, filters: bytes, *, head: int = 0xA2, packet_id: int = 1) -> bytes:
    return packet(head, short(packet_id) + (b"\0" if scene.is_v5 else b"") + filters)


@pytest.mark.parametrize("packet_id", [1, 256, 65_535])
def test_mqtt_3_10_4_5_unsuback_names_the_packet(scene: Scene, packet_id: int) -> None:
    """[MQTT-3.10.4-4] [MQTT-3.10.4-5] [MQTT-2.2.1-6] in 5.0, [MQTT-3.10.4-4] [MQTT-3.10.4-5] [MQTT-2.3.1-7] in 3.1.1:
    also where nothing was subscribed."""
    client = scene.client()
    client.send(Unsubscribe(packet_id, (scene.topic("never"),)))
    assert client.expect(UnsubAck).packet_id == packet_id


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_10_4_2_no_new_messages_after_unsubscribing(scene: Scene, qos: int) -> None:
    """[MQTT-3.10.4-2] [MQTT-3.10.4-1] in both versions."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=qos), scene.client("pub")
    subscriber.unsubscribe(topic)
    publisher.publish(topic, b"x", qos)
    subscriber.expect_nothing_from(publisher)


@pytest.mark.parametrize(
    ("subscribed", "unsubscribed"),
    [("a/b", "a/+"), ("a/+", "a/b"), ("a/b", "a/B"), ("a/b", "a/b/"), ("a/#", "a/+"), ("a/#", "a"), ("a/b", "/a/b")],
)
def test_mqtt_3_10_4_1_filters_are_compared_character_by_character(
    scene: Scene, subscribed: str, unsubscribed: str
) -> None:
    """[MQTT-3.10.4-1] in both versions: a filter that only matches the same topics ends nothing."""
    subscriber, publisher = scene.subscriber(scene.topic(subscribed)), scene.client("pub")
    reasons = subscriber.unsubscribe(scene.topic(unsubscribed))
    assert reasons == ((NONE_EXISTED,) if scene.is_v5 else ())
    publisher.publish(scene.topic("a/b"), b"x")
    assert subscriber.expect_message().payload == b"x"


def test_mqtt_3_10_4_1_a_wildcard_filter_is_ended_by_itself(scene: Scene) -> None:
    """[MQTT-3.10.4-1] in both versions: and another one that matches the same topics stays."""
    subscriber, publisher = scene.subscriber(scene.topic("+"), scene.topic("a")), scene.client("pub")
    subscriber.unsubscribe(scene.topic("+"))
    publisher.publish(scene.topic("b"), b"gone")
    publisher.publish(scene.topic("a"), b"stays")
    assert [message.payload for message in messages_of(subscriber.seen_after(publisher))] == [b"stays"]


def test_mqtt_3_10_4_3_a_qos_1_delivery_under_way_is_completed(scene: Scene) -> None:
    """[MQTT-3.10.4-3] in both versions."""
    topic = scene.topic("a")
    session = scene.lasting()
    session.subscribe(topic, qos=1)
    scene.client("pub").publish(topic, b"x", 1)
    message = session.expect(Publish)
    session.unsubscribe(topic)
    session.cut()
    again = scene.lasting().expect_message()
    assert (again.payload, again.dup, again.packet_id) == (b"x", True, message.packet_id)


def test_mqtt_3_10_4_3_a_qos_2_delivery_under_way_is_completed(scene: Scene) -> None:
    """[MQTT-3.10.4-3] in both versions."""
    topic = scene.topic("a")
    subscriber = scene.subscriber(topic, qos=2)
    scene.client("pub").publish(topic, b"x", 2)
    message = subscriber.expect(Publish)
    subscriber.unsubscribe(topic)
    subscriber.send(PubRec(message.packet_id))
    assert subscriber.expect(PubRel).packet_id == message.packet_id
    subscriber.send(PubComp(message.packet_id))
    subscriber.ping()


def test_mqtt_3_10_4_6_every_filter_of_one_unsubscribe_counts(scene: Scene) -> None:
    """[MQTT-3.10.4-6] in both versions."""
    topics = [scene.topic(str(i)) for i in range(4)]
    subscriber, publisher = scene.subscriber(*topics), scene.client("pub")
    subscriber.unsubscribe(*topics[:3])
    for topic in topics:
        publisher.publish(topic, b"x")
    assert [message.topic for message in messages_of(subscriber.seen_after(publisher))] == topics[3:]


@v5_only
def test_mqtt_3_11_3_1_the_reasons_are_in_the_order_of_the_filters(scene: Scene) -> None:
    """[MQTT-3.11.3-1] [MQTT-3.11.3-2]."""
    client = scene.client()
    client.subscribe(scene.topic("a"), scene.topic("c"))
    filters = [scene.topic(name) for name in "abcda"]
    success = ReasonCode.SUCCESS
    assert client.unsubscribe(*filters) == (success, NONE_EXISTED, success, NONE_EXISTED, NONE_EXISTED)


@v3_only
def test_mqtt311_3_11_unsuback_has_no_payload(scene: Scene) -> None:
    """Chapter 3.11.3 of 3.1.1: four bytes."""
    client = scene.opened()
    client.connect()
    client.send(Unsubscribe(258, (scene.topic("a"),)))
    assert client.receive_raw(4) == b"\xb0\x02\x01\x02"


@pytest.mark.parametrize("head", [0xA0, 0xA1, 0xA3, 0xAA])
def test_mqtt_3_10_1_1_other_flags_in_the_first_byte_close(scene: Scene, head: int) -> None:
    """[MQTT-3.10.1-1] in both versions."""
    client = scene.client()
    client.send_raw(unsubscribe_bytes(scene, string(b"a"), head=head))
    scene.expect_refused(client, MALFORMED)


def test_mqtt_2_2_1_3_an_unsubscribe_with_packet_identifier_0_closes(scene: Scene) -> None:
    """[MQTT-2.2.1-3] in 5.0, [MQTT-2.3.1-1] in 3.1.1."""
    client = scene.client()
    client.send_raw(unsubscribe_bytes(scene, string(b"a"), packet_id=0))
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_10_3_1_a_filter_that_is_not_utf8_closes(scene: Scene) -> None:
    """[MQTT-3.10.3-1] in both versions."""
    client = scene.client()
    client.send_raw(unsubscribe_bytes(scene, string(b"a\xff")))
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR, ReasonCode.TOPIC_FILTER_INVALID)


def test_mqtt_3_10_3_2_an_unsubscribe_without_filters_closes(scene: Scene) -> None:
    """[MQTT-3.10.3-2] in both versions."""
    client = scene.client()
    client.send_raw(unsubscribe_bytes(scene, b""))
    scene.expect_refused(client, PROTOCOL_ERROR, MALFORMED)


def test_mqtt_3_10_4_1_a_subscription_may_be_made_again(scene: Scene) -> None:
    """[MQTT-3.10.4-1] in both versions: and is a new one, so that retained messages come."""
    topic = scene.topic("a")
    scene.client("pub").publish(topic, b"kept", 1, retain=True)
    client = scene.client()
    for _ in range(2):
        client.subscribe(topic)
        assert client.expect_message().retain
        client.unsubscribe(topic)
