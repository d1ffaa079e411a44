"""SUBSCRIBE and SUBACK, chapters 3.8 and 3.9: what is granted, what replaces, what closes the connection."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v3_only, v5_only
from tests.support.mqtt_client import messages_of
from tests.support.mqtt_wire import packet, short, string, user_property

from penstock.codecs.mqtt.packets import SubAck, Subscribe, Subscription
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

MALFORMED, PROTOCOL_ERROR = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR
GRANTED = (ReasonCode.SUCCESS, ReasonCode.GRANTED_QOS_1, ReasonCode.GRANTED_QOS_2)


def subscribe_bytes(
    scene: Scene, pairs: bytes, *, head: int = 0x82, packet_id: int = 1, properties: bytes = b""
) -> bytes:
    carried = bytes([len(properties)]) + properties if scene.is_v5 else b""
    return packet(head, short(packet_id) + carried + pairs)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_8_4_7_the_wanted_qos_is_granted(scene: Scene, qos: int) -> None:
    """[MQTT-3.8.4-1] [MQTT-3.8.4-6] [MQTT-3.8.4-7] in 5.0, [MQTT-3.8.4-1] [MQTT-3.8.4-5] in 3.1.1."""
    assert scene.client().subscribe(scene.topic("a"), qos=qos) == (GRANTED[qos],)


@pytest.mark.parametrize("packet_id", [1, 256, 65_535])
def test_mqtt_3_8_4_2_suback_names_the_packet(scene: Scene, packet_id: int) -> None:
    """[MQTT-3.8.4-2] [MQTT-2.2.1-6] in 5.0, [MQTT-3.8.4-2] [MQTT-2.3.1-7] in 3.1.1."""
    client = scene.client()
    client.send(Subscribe(packet_id, (Subscription(scene.topic("a")),)))
    assert client.expect(SubAck).packet_id == packet_id


def test_mqtt_3_9_3_1_the_reasons_are_in_the_order_of_the_filters(scene: Scene) -> None:
    """[MQTT-3.9.3-1] [MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.9.3-2] in 5.0, [MQTT-3.9.3-1] [MQTT-3.8.4-4]
    [MQTT-3.9.3-2] in 3.1.1: one SUBACK for all of them."""
    wanted = [2, 0, 1, 1, 0, 2]
    filters = [Subscription(scene.topic(str(i)), qos) for i, qos in enumerate(wanted)]
    assert scene.client().subscribe(*filters) == tuple(GRANTED[qos] for qos in wanted)


def test_mqtt_3_8_4_5_every_filter_of_one_subscribe_counts(scene: Scene) -> None:
    """[MQTT-3.8.4-5] in 5.0, [MQTT-3.8.4-4] in 3.1.1: as if each had come alone."""
    topics = [scene.topic(str(i)) for i in range(5)]
    subscriber, publisher = scene.subscriber(*topics), scene.client("pub")
    for topic in topics:
        publisher.publish(topic, topic.encode(), 1)
    found = messages_of(subscriber.seen_after(publisher))
    assert sorted(message.topic for message in found) == topics


def test_mqtt_3_8_4_5_one_filter_twice_in_one_subscribe_is_the_later_one(scene: Scene) -> None:
    """[MQTT-3.8.4-5] [MQTT-3.8.4-3] in 5.0, [MQTT-3.8.4-4] [MQTT-3.8.4-3] in 3.1.1."""
    topic = scene.topic("a")
    client, publisher = scene.client(), scene.client("pub")
    assert client.subscribe(Subscription(topic, 0), Subscription(topic, 1)) == GRANTED[:2]
    publisher.publish(topic, b"x", 1)
    assert [message.qos for message in messages_of(client.seen_after(publisher))] == [1]


@pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 2), (1, 1)])
def test_mqtt_3_8_4_3_the_same_filter_again_replaces_the_subscription(scene: Scene, before: int, after: int) -> None:
    """[MQTT-3.8.4-3] in both versions: one copy comes, with the new QoS."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=before), scene.client("pub")
    subscriber.subscribe(topic, qos=after)
    publisher.publish(topic, b"x", 2)
    assert [message.qos for message in messages_of(subscriber.seen_after(publisher))] == [after]


def test_mqtt_3_8_4_4_replacing_sends_retained_messages_again(scene: Scene) -> None:
    """[MQTT-3.8.4-4] in 5.0, [MQTT-3.8.4-3] in 3.1.1."""
    topic = scene.topic("a")
    publisher, subscriber = scene.client("pub"), scene.client("sub")
    publisher.publish(topic, b"kept", 1, retain=True)
    for _ in range(2):
        subscriber.subscribe(topic)
        assert subscriber.expect_message().payload == b"kept"


def test_mqtt_3_8_4_4_replacing_loses_no_message(scene: Scene) -> None:
    """[MQTT-3.8.4-4] in 5.0, [MQTT-3.8.4-3] in 3.1.1: the flow is not interrupted."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=1), scene.client("pub")
    found: list[bytes] = []
    for i in range(5):
        publisher.publish(topic, b"%d" % i, 1)
        subscriber.send(Subscribe(100 + i, (Subscription(topic, 1),)))
        found += [message.payload for message in messages_of(subscriber.seen_after(publisher))]
    assert found == [b"%d" % i for i in range(5)]


@pytest.mark.parametrize("head", [0x80, 0x81, 0x83, 0x8A])
def test_mqtt_3_8_1_1_other_flags_in_the_first_byte_close(scene: Scene, head: int) -> None:
    """[MQTT-3.8.1-1] [MQTT-2.1.3-1] in 5.0, [MQTT-3.8.1-1] [MQTT-2.2.2-2] in 3.1.1."""
    client = scene.client()
    client.send_raw(subscribe_bytes(scene, string(b"a") + b"\0", head=head))
    scene.expect_refused(client, MALFORMED)


def test_mqtt_2_2_1_3_a_subscribe_with_packet_identifier_0_closes(scene: Scene) -> None:
    """[MQTT-2.2.1-3] in 5.0, [MQTT-2.3.1-1] in 3.1.1."""
    client = scene.client()
    client.send_raw(subscribe_bytes(scene, string(b"a") + b"\0", packet_id=0))
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_8_3_1_a_filter_that_is_not_utf8_closes(scene: Scene) -> None:
    """[MQTT-3.8.3-1] in both versions."""
    client = scene.client()
    client.send_raw(subscribe_bytes(scene, string(b"a\xed\xa0\x80") + b"\0"))
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR, ReasonCode.TOPIC_FILTER_INVALID)


def test_mqtt_3_8_3_2_a_subscribe_without_filters_closes(scene: Scene) -> None:
    """[MQTT-3.8.3-2] in 5.0, [MQTT-3.8.3-3] in 3.1.1."""
    client = scene.client()
    client.send_raw(subscribe_bytes(scene, b""))
    scene.expect_refused(client, PROTOCOL_ERROR, MALFORMED)


def test_mqtt_3_8_3_2_a_filter_without_options_closes(scene: Scene) -> None:
    """[MQTT-3.8.3-2] in 5.0, [MQTT-3.8.3-3] in 3.1.1: they come in pairs."""
    client = scene.client()
    client.send_raw(subscribe_bytes(scene, string(b"a") + b"\0" + string(b"b")))
    scene.expect_refused(client, PROTOCOL_ERROR, MALFORMED)


def test_mqtt5_3_8_3_1_qos_3_closes(scene: Scene) -> None:
    """Chapter 3.8.3.1 of 5.0 (a Protocol Error), [MQTT-3.8.3-4] in 3.1.1."""
    client = scene.client()
    client.send_raw(subscribe_bytes(scene, string(b"a") + b"\x03"))
    scene.expect_refused(client, PROTOCOL_ERROR, MALFORMED)


@pytest.mark.parametrize("options", [0x40, 0x80, 0xC1])
def test_mqtt_3_8_3_5_reserved_bits_of_the_options_close(scene: Scene, options: int) -> None:
    """[MQTT-3.8.3-5] in 5.0, [MQTT-3.8.3-4] in 3.1.1."""
    client = scene.client()
    client.send_raw(subscribe_bytes(scene, string(b"a") + bytes([options])))
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR)


@v3_only
@pytest.mark.parametrize("options", [0x04, 0x08, 0x10, 0x20])
def test_mqtt311_3_8_3_4_the_options_of_5_0_close(scene: Scene, options: int) -> None:
    """[MQTT-3.8.3-4] in 3.1.1: there they are reserved bits."""
    client = scene.client()
    client.send_raw(subscribe_bytes(scene, string(b"a") + bytes([options])))
    scene.expect_refused(client)


@v5_only
def test_mqtt5_3_8_3_1_retain_handling_3_closes(scene: Scene) -> None:
    """Chapter 3.8.3.1: a Protocol Error."""
    client = scene.client()
    client.send_raw(subscribe_bytes(scene, string(b"a") + b"\x30"))
    scene.expect_refused(client, PROTOCOL_ERROR, MALFORMED)


@v5_only
def test_mqtt_3_8_3_3_no_local_keeps_a_clients_own_messages_from_it(scene: Scene) -> None:
    """[MQTT-3.8.3-3]: those of others come."""
    topic = scene.topic("a")
    client, other = scene.client(), scene.client("other")
    client.subscribe(Subscription(topic, 1, no_local=True))
    client.publish(topic, b"mine", 1)
    other.publish(topic, b"theirs", 1)
    assert [message.payload for message in messages_of(client.seen_after(other))] == [b"theirs"]


@v5_only
def test_mqtt_3_8_3_3_no_local_is_an_option_of_one_subscription(scene: Scene) -> None:
    """[MQTT-3.8.3-3]: through another one the client's own message comes."""
    client = scene.client()
    client.subscribe(Subscription(scene.topic("a"), no_local=True), Subscription(scene.topic("+")))
    client.publish(scene.topic("a"), b"mine")
    assert client.expect_message().payload == b"mine"
    assert client.came() == []


@v5_only
def test_mqtt_3_8_3_3_no_local_ends_when_the_subscription_is_replaced(scene: Scene) -> None:
    """[MQTT-3.8.4-3]: with its options."""
    topic = scene.topic("a")
    client = scene.client()
    client.subscribe(Subscription(topic, no_local=True))
    client.subscribe(topic)
    client.publish(topic, b"mine")
    assert client.expect_message().payload == b"mine"


@v5_only
@pytest.mark.parametrize(
    ("properties", "reasons"),
    [
        (b"\x0b\x00", (PROTOCOL_ERROR, MALFORMED)),
        (b"\x0b\x01\x0b\x02", (PROTOCOL_ERROR, MALFORMED)),
        (b"\x01\x00", (PROTOCOL_ERROR, MALFORMED)),
        (b"\x7e\x00", (PROTOCOL_ERROR, MALFORMED)),
        (b"\x0b\xff\xff\xff\xff\x01", (PROTOCOL_ERROR, MALFORMED)),
    ],
    ids=["identifier_0", "identifier_twice", "of_another_packet", "unknown", "identifier_of_5_bytes"],
)
def test_mqtt5_3_8_2_1_a_property_that_does_not_belong_there_closes(
    scene: Scene, properties: bytes, reasons: tuple[ReasonCode, ...]
) -> None:
    """Chapter 3.8.2.1."""
    client = scene.client()
    client.send_raw(subscribe_bytes(scene, string(b"a") + b"\0", properties=properties))
    scene.expect_refused(client, *reasons)


@v5_only
def test_mqtt5_3_8_2_1_user_properties_are_taken(scene: Scene) -> None:
    """Chapter 3.8.2.1.3: their meaning is not defined, and they do no harm."""
    client = scene.client()
    properties = user_property(b"a", b"1") * 2
    client.send_raw(subscribe_bytes(scene, string(scene.topic("a").encode()) + b"\0", properties=properties))
    assert client.expect(SubAck).reasons == (ReasonCode.SUCCESS,)


@v5_only
def test_mqtt_3_9_2_1_a_small_maximum_packet_holds_for_suback_too(scene: Scene) -> None:
    """[MQTT-3.9.2-1] [MQTT-3.9.2-2] [MQTT-3.11.2-1] [MQTT-3.11.2-2]: nothing is added that makes it too long."""
    client = scene.client(properties=Properties(maximum_packet_bytes=30))
    assert client.subscribe(scene.topic("a"), scene.topic("b")) == (ReasonCode.SUCCESS,) * 2
    client.unsubscribe(scene.topic("a"), scene.topic("b"))
