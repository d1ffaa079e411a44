"""Message ordering, chapter 4.6."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene
from tests.support.mqtt_client import messages_of

from penstock.codecs.mqtt.packets import PubAck, PubComp, Publish, PubRec, PubRel

QOS = pytest.mark.parametrize("qos", [0, 1, 2])
COUNT = 200


@QOS
def test_mqtt_4_6_0_5_messages_of_one_topic_come_in_their_order(scene: Scene, qos: int) -> None:
    """[MQTT-4.6.0-5] [MQTT-4.6.0-6] in 5.0, [MQTT-4.6.0-5] [MQTT-4.6.0-6] in 3.1.1."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=qos), scene.client("pub")
    payloads = [b"%d" % i for i in range(COUNT)]
    for i in range(0, COUNT, 20):
        for payload in payloads[i : i + 20]:
            publisher.publish(topic, payload, qos)
        subscriber.expect_payloads(payloads[i : i + 20])


@QOS
def test_mqtt_4_6_0_5_each_publishers_messages_come_in_its_order(scene: Scene, qos: int) -> None:
    """[MQTT-4.6.0-5] in 5.0, [MQTT-4.6.0-6] in 3.1.1: between publishers there is none."""
    topic = scene.topic("a")
    subscriber = scene.subscriber(topic, qos=qos)
    publishers = [scene.client(f"p{i}") for i in range(3)]
    for i in range(6):
        for number, publisher in enumerate(publishers):
            publisher.publish(topic, b"%d-%d" % (number, i), qos)
    found = [subscriber.expect_message().payload for _ in range(18)]
    for number in range(3):
        mine = [payload for payload in found if payload.startswith(b"%d-" % number)]
        assert mine == [b"%d-%d" % (number, i) for i in range(6)]


def test_mqtt_4_6_0_5_a_wildcard_gets_each_topic_in_its_order(scene: Scene) -> None:
    """[MQTT-4.6.0-5] in 5.0, [MQTT-4.6.0-6] in 3.1.1."""
    subscriber, publisher = scene.subscriber(scene.topic("+")), scene.client("pub")
    for i in range(30):
        publisher.publish(scene.topic(str(i % 3)), b"%d" % i)
    found = messages_of(subscriber.seen_after(publisher))
    for name in "012":
        mine = [int(message.payload) for message in found if message.topic == scene.topic(name)]
        assert mine == sorted(mine) and len(mine) == 10


def test_mqtt_4_6_0_2_acknowledgements_come_in_the_order_of_the_messages(scene: Scene) -> None:
    """[MQTT-4.6.0-2] in both versions: PUBACK."""
    client, topic = scene.client(), scene.topic("a")
    packet_ids = [3, 1, 4, 15, 9, 2, 6]
    client.send(*(Publish(topic, b"x", 1, packet_id=packet_id) for packet_id in packet_ids))
    assert [client.expect(PubAck).packet_id for _ in packet_ids] == packet_ids


def test_mqtt_4_6_0_3_qos_2_is_received_and_completed_in_order(scene: Scene) -> None:
    """[MQTT-4.6.0-3] [MQTT-4.6.0-4] in both versions: PUBREC, and PUBCOMP in the order of PUBREL."""
    client, topic = scene.client(), scene.topic("a")
    packet_ids = [3, 1, 4, 15, 9, 2, 6]
    client.send(*(Publish(topic, b"x", 2, packet_id=packet_id) for packet_id in packet_ids))
    assert [client.expect(PubRec).packet_id for _ in packet_ids] == packet_ids
    client.send(*(PubRel(packet_id) for packet_id in packet_ids))
    assert [client.expect(PubComp).packet_id for _ in packet_ids] == packet_ids


def test_mqtt_4_6_0_4_pubrel_comes_in_the_order_of_pubrec(scene: Scene) -> None:
    """[MQTT-4.6.0-4] in both versions: of the server's own messages."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=2), scene.client("pub")
    for i in range(5):
        publisher.publish(topic, b"%d" % i, 2)
    packet_ids = [subscriber.expect(Publish).packet_id for _ in range(5)]
    subscriber.send(*(PubRec(packet_id) for packet_id in packet_ids))
    assert [subscriber.expect(PubRel).packet_id for _ in range(5)] == packet_ids


def test_mqtt_4_6_0_5_messages_that_waited_come_before_new_ones(scene: Scene) -> None:
    """[MQTT-4.6.0-5] in 5.0, [MQTT-4.6.0-6] in 3.1.1."""
    topic = scene.topic("a")
    session, publisher = scene.lasting(), scene.client("pub")
    session.subscribe(topic, qos=1)
    session.disconnect()
    for i in range(10):
        publisher.publish(topic, b"%d" % i, 1)
    back = scene.lasting()
    for i in range(10, 15):
        publisher.publish(topic, b"%d" % i, 1)
    back.expect_payloads([b"%d" % i for i in range(15)])


def test_mqtt_4_6_0_5_late_acknowledgements_do_not_change_the_order(scene: Scene) -> None:
    """[MQTT-4.6.0-5] in 5.0, [MQTT-4.6.0-6] in 3.1.1: acknowledged from the last to the first."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=1), scene.client("pub")
    for i in range(10):
        publisher.publish(topic, b"%d" % i, 1)
    found = [subscriber.expect(Publish) for _ in range(10)]
    for message in reversed(found):
        subscriber.send(PubAck(message.packet_id))
    publisher.publish(topic, b"10", 1)
    assert subscriber.expect_message().payload == b"10"
    assert [message.payload for message in found] == [b"%d" % i for i in range(10)]
