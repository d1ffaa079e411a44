"""Flow control, chapters 3.3.4 and 4.9: how many messages may be under way, in both directions."""

from __future__ import annotations

import pytest
from tests.conformance.scene import LONG_S, Scene, v5_only
from tests.support.mqtt_client import MqttClient, messages_of

from penstock.codecs.mqtt.packets import PubAck, PubComp, Publish, PubRec, PubRel
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

pytestmark = v5_only
LIMIT = 3
QOS_1_2 = pytest.mark.parametrize("qos", [1, 2])


def limited_subscriber(scene: Scene, topic: str, qos: int) -> MqttClient:
    client = scene.client("sub", properties=Properties(receive_maximum=LIMIT))
    client.subscribe(topic, qos=qos)
    return client


@QOS_1_2
def test_mqtt_3_3_4_9_the_server_sends_no_more_than_the_receive_maximum(scene: Scene, qos: int) -> None:
    """[MQTT-3.3.4-9] [MQTT-4.9.0-1] [MQTT-4.9.0-2]: until it is acknowledged."""
    topic = scene.topic("a")
    client, publisher = limited_subscriber(scene, topic, qos), scene.client("pub")
    payloads = [b"%d" % i for i in range(8)]
    for payload in payloads:
        publisher.publish(topic, payload, qos)
    under_way = messages_of(client.seen_after(publisher))
    assert [message.payload for message in under_way] == payloads[:LIMIT]
    for message in under_way:
        client.acknowledge(message)
    client.expect_payloads(payloads[LIMIT:])


def test_mqtt_4_9_0_2_a_puback_makes_room_for_one(scene: Scene) -> None:
    """[MQTT-4.9.0-2] [MQTT-3.3.4-9]."""
    topic = scene.topic("a")
    client, publisher = limited_subscriber(scene, topic, 1), scene.client("pub")
    for i in range(LIMIT + 2):
        publisher.publish(topic, b"%d" % i, 1)
    under_way = messages_of(client.seen_after(publisher))
    client.send(PubAck(under_way[0].packet_id))
    assert client.expect(Publish).payload == b"%d" % LIMIT
    assert client.seen_after(publisher) == []


def test_mqtt_4_9_0_2_pubrec_does_not_make_room_and_pubcomp_does(scene: Scene) -> None:
    """[MQTT-4.9.0-2] [MQTT-3.3.4-9]: a QoS 2 message is under way until PUBCOMP."""
    topic = scene.topic("a")
    client, publisher = limited_subscriber(scene, topic, 2), scene.client("pub")
    for i in range(LIMIT + 1):
        publisher.publish(topic, b"%d" % i, 2)
    packet_id = messages_of(client.seen_after(publisher))[0].packet_id
    client.send(PubRec(packet_id))
    assert client.expect(PubRel).packet_id == packet_id
    assert client.seen_after(publisher) == []
    client.send(PubComp(packet_id))
    assert client.expect(Publish).payload == b"%d" % LIMIT


def test_mqtt_4_9_0_2_a_refusing_pubrec_makes_room(scene: Scene) -> None:
    """[MQTT-3.3.4-9] [MQTT-4.9.0-2]: with 0x80 or above it ends the exchange."""
    topic = scene.topic("a")
    client, publisher = limited_subscriber(scene, topic, 2), scene.client("pub")
    for i in range(LIMIT + 1):
        publisher.publish(topic, b"%d" % i, 2)
    packet_id = messages_of(client.seen_after(publisher))[0].packet_id
    client.send(PubRec(packet_id, ReasonCode.UNSPECIFIED_ERROR))
    assert client.expect(Publish).payload == b"%d" % LIMIT


def test_mqtt_3_3_4_10_other_packets_are_not_held_back(scene: Scene) -> None:
    """[MQTT-3.3.4-10] [MQTT-4.9.0-3] [MQTT-3.3.4-8]: nor messages of QoS 0."""
    topic = scene.topic("a")
    client, publisher = limited_subscriber(scene, topic, 1), scene.client("pub")
    for _ in range(LIMIT + 1):
        publisher.publish(topic, b"held", 1)
    assert len(messages_of(client.seen_after(publisher))) == LIMIT
    client.ping()
    client.subscribe(scene.topic("b"))
    client.publish(scene.topic("c"), b"", 1)
    client.publish(scene.topic("c"), b"", 2)
    client.unsubscribe(scene.topic("c"))
    publisher.publish(topic, b"QoS 0", 0)
    assert client.expect(Publish).payload == b"QoS 0"


@QOS_1_2
def test_mqtt_3_3_4_9_the_maximum_holds_after_a_reconnect(scene: Scene, qos: int) -> None:
    """[MQTT-3.3.4-9] [MQTT-4.4.0-1]: what is sent again counts, and the maximum is that of the new connection."""
    topic = scene.topic("a")
    properties = Properties(receive_maximum=LIMIT, session_expiry_interval_s=LONG_S)
    session, publisher = scene.client("s", clean=False, properties=properties), scene.client("pub")
    session.subscribe(topic, qos=qos)
    payloads = [b"%d" % i for i in range(8)]
    for payload in payloads:
        publisher.publish(topic, payload, qos)
    session.seen_after(publisher)
    session.cut()
    smaller = Properties(receive_maximum=2, session_expiry_interval_s=LONG_S)
    back = scene.client("s", clean=False, properties=smaller)
    under_way = [back.expect(Publish), back.expect(Publish)]
    assert back.seen_after(publisher) == []
    assert [message.payload for message in under_way] == payloads[:2]
    for message in under_way:
        back.acknowledge(message)
    back.expect_payloads(payloads[2:])


def test_mqtt_3_3_4_7_a_client_beyond_the_servers_maximum_is_disconnected(scene: Scene) -> None:
    """[MQTT-3.3.4-7]: with 0x93, if the server's maximum is below the number of packet identifiers."""
    client = scene.client()
    maximum = client.connack.properties.receive_maximum or 65_535
    assert maximum < 65_535, "the server under test is started with a small maximum"
    for i in range(maximum + 1):
        client.send(Publish(scene.topic("a"), b"", 2, packet_id=i + 1))
    scene.expect_refused(client, ReasonCode.RECEIVE_MAXIMUM_EXCEEDED)


def test_mqtt_3_3_4_7_as_many_as_the_maximum_are_taken(scene: Scene) -> None:
    """[MQTT-3.3.4-7]: and as many again when those are completed."""
    client = scene.client()
    maximum = client.connack.properties.receive_maximum or 65_535
    packet_ids = range(1, min(maximum, 100) + 1)
    for _ in range(2):
        client.send(*(Publish(scene.topic("a"), b"", 2, packet_id=packet_id) for packet_id in packet_ids))
        assert [client.expect(PubRec).packet_id for _ in packet_ids] == list(packet_ids)
        client.send(*(PubRel(packet_id) for packet_id in packet_ids))
        assert [client.expect(PubComp).packet_id for _ in packet_ids] == list(packet_ids)
