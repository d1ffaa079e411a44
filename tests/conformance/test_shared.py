"""Shared subscriptions, chapter 4.8.2."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v5_only
from tests.support.mqtt_client import ConnectionEnded, MqttClient, messages_of
from tests.support.mqtt_wire import packet, short, string

from penstock.codecs.mqtt.packets import Disconnect, PubAck, Publish, PubRec, SubAck, Subscription
from penstock.codecs.mqtt.reasons import ReasonCode

pytestmark = v5_only
MALFORMED, PROTOCOL_ERROR = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR
QOS = pytest.mark.parametrize("qos", [0, 1, 2])


def members(scene: Scene, shared: str, count: int, qos: int = 1) -> list[MqttClient]:
    return [scene.subscriber(shared, qos=qos, name=f"m{i}") for i in range(count)]


def taken(clients: list[MqttClient], publisher: MqttClient) -> list[list[bytes]]:
    """The payloads each one got, by client; acknowledged."""
    found = []
    for client in clients:
        messages = messages_of(client.seen_after(publisher))
        for message in messages:
            client.acknowledge(message)
        found.append([message.payload for message in messages])
    return found


@QOS
def test_mqtt5_4_8_2_each_message_goes_to_one_member(scene: Scene, qos: int) -> None:
    """Chapter 4.8.2: to one of them, and every message to some."""
    topic, publisher = scene.topic("a"), scene.client("pub")
    clients = members(scene, f"$share/g/{topic}", 3, qos)
    payloads = [b"%02d" % i for i in range(12)]
    for payload in payloads:
        publisher.publish(topic, payload, qos)
    found = taken(clients, publisher)
    assert sorted(payload for each in found for payload in each) == payloads


def test_mqtt5_4_8_2_the_work_is_spread(scene: Scene) -> None:
    """Chapter 4.8.2: how is left to the server, but with many messages nobody stays idle."""
    topic, publisher = scene.topic("a"), scene.client("pub")
    clients = members(scene, f"$share/g/{topic}", 3, 0)
    for i in range(60):
        publisher.publish(topic, b"%d" % i)
    assert all(taken(clients, publisher))


def test_mqtt5_4_8_2_groups_are_independent(scene: Scene) -> None:
    """Chapter 4.8.2: each share name gets every message, and so does a subscription that is not shared."""
    topic, publisher = scene.topic("a"), scene.client("pub")
    clients = [
        scene.subscriber(filter, qos=1, name=f"n{i}")
        for i, filter in enumerate((f"$share/one/{topic}", f"$share/two/{topic}", topic))
    ]
    publisher.publish(topic, b"x", 1)
    assert taken(clients, publisher) == [[b"x"]] * 3


def test_mqtt5_4_8_2_groups_are_told_apart_by_their_filter(scene: Scene) -> None:
    """Chapter 4.8.2: the same share name with another filter is another subscription."""
    publisher = scene.client("pub")
    wide = scene.subscriber(f"$share/g/{scene.topic('+')}", name="wide")
    narrow = scene.subscriber(f"$share/g/{scene.topic('a')}", name="narrow")
    publisher.publish(scene.topic("a"), b"x")
    assert taken([wide, narrow], publisher) == [[b"x"]] * 2


def test_mqtt5_4_8_2_one_client_may_have_both_kinds(scene: Scene) -> None:
    """Chapter 4.8.2: shared and not shared, it gets a copy for each."""
    topic, publisher = scene.topic("a"), scene.client("pub")
    client = scene.subscriber(f"$share/g/{topic}", topic)
    publisher.publish(topic, b"x")
    assert taken([client], publisher) == [[b"x", b"x"]]


@pytest.mark.parametrize("filter", ["a/#", "a/+", "+/b", "a/b"])
def test_mqtt5_4_8_2_a_shared_filter_may_have_wildcards(scene: Scene, filter: str) -> None:
    """Chapter 4.8.2: what follows the share name is a filter like others."""
    client, publisher = scene.subscriber(f"$share/g/{scene.topic(filter)}"), scene.client("pub")
    publisher.publish(scene.topic("a", "b"), b"x")
    publisher.publish(scene.topic("c", "d"), b"y")
    assert taken([client], publisher) == [[b"x"]]


@pytest.mark.parametrize(
    "filter", [b"$share//a", b"$share/g+/a", b"$share/g#/a", b"$share/+/a", b"$share/g", b"$share/g/", b"$share/"]
)
def test_mqtt_4_8_2_1_a_malformed_share_name_is_refused(scene: Scene, filter: bytes) -> None:
    """[MQTT-4.8.2-1] [MQTT-4.8.2-2]: by closing, or with 0x8F or another refusal of the filter."""
    client = scene.client()
    client.send_raw(packet(0x82, short(1) + b"\0" + string(filter) + b"\0"))
    try:
        answer = client.receive()
    except ConnectionEnded:
        assert not scene.server.tells_reasons
    else:
        assert isinstance(answer, SubAck | Disconnect)
        reasons = answer.reasons if isinstance(answer, SubAck) else (answer.reason,)
        assert reasons[0] in (ReasonCode.TOPIC_FILTER_INVALID, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_8_3_4_no_local_with_a_shared_filter_closes(scene: Scene) -> None:
    """[MQTT-3.8.3-4]."""
    client = scene.client()
    client.send_raw(packet(0x82, short(1) + b"\0" + string(b"$share/g/a") + b"\x04"))
    scene.expect_refused(client, PROTOCOL_ERROR)


def test_mqtt_4_8_2_3_each_member_gets_its_granted_qos(scene: Scene) -> None:
    """[MQTT-4.8.2-3]."""
    topic, publisher = scene.topic("a"), scene.client("pub")
    clients = [scene.subscriber(f"$share/g/{topic}", qos=qos, name=f"q{qos}") for qos in (0, 1, 2)]
    for i in range(12):
        publisher.publish(topic, b"%d" % i, 2)
    for qos, client in enumerate(clients):
        assert {message.qos for message in messages_of(client.seen_after(publisher))} <= {qos}


def test_mqtt_4_8_2_4_a_qos_2_delivery_is_completed_by_its_member(scene: Scene) -> None:
    """[MQTT-4.8.2-4]: when it comes back, and nobody else gets the message."""
    topic, publisher = scene.topic("a"), scene.client("pub")
    shared = f"$share/g/{topic}"
    session = scene.lasting()
    session.subscribe(shared, qos=2)
    publisher.publish(topic, b"x", 2)
    first = session.expect(Publish)
    other = scene.subscriber(shared, qos=2, name="other")
    session.cut()
    again = scene.lasting().expect_message()
    assert (again.payload, again.packet_id) == (b"x", first.packet_id)
    other.expect_nothing_from(publisher)


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_4_8_2_6_a_refused_message_goes_to_nobody_else(scene: Scene, qos: int) -> None:
    """[MQTT-4.8.2-6]: it is discarded."""
    topic, publisher = scene.topic("a"), scene.client("pub")
    shared = f"$share/g/{topic}"
    client = scene.subscriber(shared, qos=qos)
    publisher.publish(topic, b"x", qos)
    packet_id = client.expect(Publish).packet_id
    other = scene.subscriber(shared, qos=qos, name="other")
    answer: type[PubAck | PubRec] = PubAck if qos == 1 else PubRec
    client.send(answer(packet_id, ReasonCode.UNSPECIFIED_ERROR))
    client.ping()
    client.cut()
    other.expect_nothing_from(publisher)


def test_mqtt5_4_8_2_retained_messages_are_not_sent_to_a_shared_subscription(scene: Scene) -> None:
    """Chapter 4.8.2: when it is made."""
    topic, publisher = scene.topic("a"), scene.client("pub")
    publisher.publish(topic, b"kept", 1, retain=True)
    scene.subscriber(f"$share/g/{topic}").expect_only(0, publisher)


def test_mqtt5_4_8_2_the_others_go_on_when_a_member_unsubscribes(scene: Scene) -> None:
    """Chapter 4.8.2."""
    topic, publisher = scene.topic("a"), scene.client("pub")
    shared = f"$share/g/{topic}"
    first, second = members(scene, shared, 2)
    assert first.unsubscribe(shared) == (ReasonCode.SUCCESS,)
    for i in range(4):
        publisher.publish(topic, b"%d" % i, 1)
    assert taken([first, second], publisher) == [[], [b"0", b"1", b"2", b"3"]]


def test_mqtt5_4_8_2_the_others_go_on_when_a_member_leaves(scene: Scene) -> None:
    """Chapter 4.8.2: one whose session ended gets no share."""
    topic, publisher = scene.topic("a"), scene.client("pub")
    first, second = members(scene, f"$share/g/{topic}", 2)
    first.disconnect()
    for i in range(4):
        publisher.publish(topic, b"%d" % i, 1)
    assert taken([second], publisher) == [[b"0", b"1", b"2", b"3"]]


def test_mqtt_3_10_4_1_the_plain_filter_does_not_end_a_shared_subscription(scene: Scene) -> None:
    """[MQTT-3.10.4-1]: the share name is part of what is compared."""
    topic, publisher = scene.topic("a"), scene.client("pub")
    client = scene.subscriber(f"$share/g/{topic}")
    assert client.unsubscribe(topic, f"$share/h/{topic}") == (ReasonCode.NO_SUBSCRIPTION_EXISTED,) * 2
    publisher.publish(topic, b"x")
    assert taken([client], publisher) == [[b"x"]]


def test_mqtt_4_7_2_1_a_shared_wildcard_does_not_match_dollar_topics(scene: Scene) -> None:
    """[MQTT-4.7.2-1]: the filter behind the share name begins with the wildcard."""
    client, publisher = scene.subscriber("$share/g/+/broker/uptime"), scene.client("pub")
    client.subscribe(Subscription(scene.topic("clock")))
    assert not [message for message in messages_of(client.seen_after(publisher)) if message.topic.startswith("$")]
