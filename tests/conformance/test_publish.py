"""PUBLISH and its acknowledgements, chapters 3.3 to 3.7 and 4.3: each QoS, in both directions."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v5_only
from tests.support.mqtt_client import ConnectionEnded, messages_of
from tests.support.mqtt_wire import publish

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.packets import PubAck, PubComp, Publish, PubRec, PubRel
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

MALFORMED, PROTOCOL_ERROR = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR
QOS = pytest.mark.parametrize("qos", [0, 1, 2])
# Where the remaining length needs one byte more, and well beyond what one read brings.
SIZES = [0, 1, 100, 127, 128, 16_383, 16_384, 300_000]


@pytest.mark.parametrize("granted", [0, 1, 2])
@QOS
def test_mqtt_3_8_4_8_a_message_comes_with_the_lower_qos(scene: Scene, qos: int, granted: int) -> None:
    """[MQTT-3.8.4-8] in 5.0, [MQTT-3.8.4-6] in 3.1.1: of the publisher's and the granted one."""
    topic = scene.topic("a")
    subscriber = scene.subscriber(topic, qos=granted)
    scene.client("pub").publish(topic, b"payload", qos)
    message = subscriber.expect_message()
    assert (message.topic, message.payload, message.qos) == (topic, b"payload", min(qos, granted))


@pytest.mark.parametrize("size_bytes", SIZES)
def test_mqtt_3_3_3_a_payload_arrives_as_it_was(scene: Scene, size_bytes: int) -> None:
    """Chapter 3.3.3 of both versions: also an empty one, and lengths at the edges of the remaining length."""
    topic = scene.topic("a")
    subscriber = scene.subscriber(topic)
    payload = bytes(range(256)) * (size_bytes // 256 + 1)
    scene.client("pub").publish(topic, payload[:size_bytes])
    assert subscriber.expect_message().payload == payload[:size_bytes]


@QOS
def test_mqtt_3_3_4_1_the_answer_follows_the_qos(scene: Scene, qos: int) -> None:
    """[MQTT-3.3.4-1] in both versions: nothing, PUBACK, or PUBREC and PUBCOMP, for the same packet."""
    client = scene.client()
    client.send(Publish(scene.topic("a"), b"x", qos, packet_id=7 if qos else 0))
    answers = client.came()
    if qos == 0:
        assert answers == []
        return
    expected: type[PubAck | PubRec] = PubAck if qos == 1 else PubRec
    assert len(answers) == 1 and isinstance(answers[0], expected)
    assert answers[0].packet_id == 7
    assert not answers[0].reason.is_refusal


@pytest.mark.parametrize("packet_id", [1, 255, 256, 65_535])
def test_mqtt_2_2_1_5_acknowledgements_name_the_packet(scene: Scene, packet_id: int) -> None:
    """[MQTT-2.2.1-5] in 5.0, [MQTT-2.3.1-6] in 3.1.1: whatever identifier the client took."""
    client, topic = scene.client(), scene.topic("a")
    client.send(Publish(topic, b"", 1, packet_id=packet_id))
    assert client.expect(PubAck).packet_id == packet_id
    client.send(Publish(topic, b"", 2, packet_id=packet_id))
    assert client.expect(PubRec).packet_id == packet_id
    client.send(PubRel(packet_id))
    assert client.expect(PubComp).packet_id == packet_id


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_2_2_1_3_a_publish_with_packet_identifier_0_closes(scene: Scene, qos: int) -> None:
    """[MQTT-2.2.1-3] in 5.0, [MQTT-2.3.1-1] in 3.1.1."""
    client = scene.client()
    client.send_raw(publish(scene.version, scene.topic("a").encode(), b"x", flags=qos << 1, packet_id=0))
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR)


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_2_2_1_4_the_servers_packet_identifiers_are_unused_and_not_0(scene: Scene, qos: int) -> None:
    """[MQTT-2.2.1-4] [MQTT-4.3.2-1] [MQTT-4.3.3-1] in 5.0, [MQTT-2.3.1-4] in 3.1.1: while none is acknowledged."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=qos), scene.client("pub")
    for _ in range(10):
        publisher.publish(topic, b"x", qos)
    packet_ids = {subscriber.expect(Publish).packet_id for _ in range(10)}
    assert len(packet_ids) == 10
    assert 0 not in packet_ids


@QOS
def test_mqtt_4_3_1_1_the_first_delivery_is_no_duplicate(scene: Scene, qos: int) -> None:
    """[MQTT-4.3.1-1] [MQTT-4.3.2-2] [MQTT-4.3.3-2] [MQTT-3.3.1-2] in 5.0, [MQTT-4.3.1-1] [MQTT-4.3.2-1]
    [MQTT-4.3.3-1] in 3.1.1."""
    topic = scene.topic("a")
    subscriber = scene.subscriber(topic, qos=qos)
    scene.client("pub").publish(topic, b"x", qos)
    assert not subscriber.expect_message().dup


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_3_3_1_3_the_duplicate_flag_is_not_passed_on(scene: Scene, qos: int) -> None:
    """[MQTT-3.3.1-3] in both versions."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=qos), scene.client("pub")
    publisher.send(Publish(topic, b"x", qos, dup=True, packet_id=9))
    if qos == 2:
        assert publisher.expect(PubRec).packet_id == 9
        publisher.send(PubRel(9))
    assert not subscriber.expect_message().dup


def test_mqtt_3_3_1_2_a_duplicate_of_qos_0_closes(scene: Scene) -> None:
    """[MQTT-3.3.1-2] in both versions."""
    client = scene.client()
    client.send_raw(publish(scene.version, scene.topic("a").encode(), b"x", flags=0x08))
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_3_1_4_qos_3_closes(scene: Scene) -> None:
    """[MQTT-3.3.1-4] in both versions."""
    client = scene.client()
    client.send_raw(publish(scene.version, scene.topic("a").encode(), b"x", flags=0x06, packet_id=1))
    scene.expect_refused(client, MALFORMED)


def test_mqtt_4_3_2_5_the_same_identifier_after_puback_is_a_new_message(scene: Scene) -> None:
    """[MQTT-4.3.2-5] [MQTT-4.3.2-4] in 5.0, [MQTT-4.3.2-2] in 3.1.1: whatever its duplicate flag."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=1), scene.client("pub")
    for dup in (False, True, False):
        publisher.send(Publish(topic, b"x", 1, dup=dup, packet_id=3))
        assert publisher.expect(PubAck).packet_id == 3
    subscriber.expect_payloads([b"x"] * 3)


@pytest.mark.parametrize("dup", [True, False])
def test_mqtt_4_3_3_10_a_repeated_publish_is_received_again_and_delivered_once(scene: Scene, dup: bool) -> None:
    """[MQTT-4.3.3-10] [MQTT-4.3.3-8] in 5.0, [MQTT-4.3.3-2] in 3.1.1: until PUBREL. A server of 5.0 may take the
    identifier for one in use if the duplicate flag is not set, and say so, but must not deliver twice."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=2), scene.client("pub")
    publisher.send(Publish(topic, b"x", 2, packet_id=5))
    assert publisher.expect(PubRec).packet_id == 5
    publisher.send(Publish(topic, b"x", 2, dup=dup, packet_id=5))
    assert publisher.expect(PubRec).packet_id == 5
    publisher.send(PubRel(5))
    assert publisher.expect(PubComp).packet_id == 5
    subscriber.expect_payloads([b"x"])
    subscriber.expect_nothing_from(publisher)


def test_mqtt_4_3_3_12_the_same_identifier_after_pubcomp_is_a_new_message(scene: Scene) -> None:
    """[MQTT-4.3.3-12] [MQTT-4.3.3-11] in 5.0, [MQTT-4.3.3-2] in 3.1.1."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=2), scene.client("pub")
    for payload in (b"1", b"2"):
        publisher.send(Publish(topic, payload, 2, packet_id=5))
        assert publisher.expect(PubRec).packet_id == 5
        publisher.send(PubRel(5))
        assert publisher.expect(PubComp).packet_id == 5
    subscriber.expect_payloads([b"1", b"2"])


def test_mqtt_4_3_3_11_pubrel_is_answered_with_pubcomp_each_time(scene: Scene) -> None:
    """[MQTT-4.3.3-11] in 5.0, [MQTT-4.3.3-2] in 3.1.1: 5.0 may say 0x92 to one that is not known any more."""
    client = scene.client()
    client.publish(scene.topic("a"), b"x", 2)
    client.send(PubRel(1))
    answer = client.expect(PubComp)
    assert answer.packet_id == 1
    assert answer.reason in (ReasonCode.SUCCESS, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)


@v5_only
def test_mqtt_3_7_2_1_pubcomp_says_that_a_packet_identifier_is_not_known(scene: Scene) -> None:
    """[MQTT-3.7.2-1]: one of its two reason codes, and 0x92 is the one for this."""
    client = scene.client()
    client.send(PubRel(4321))
    answer = client.expect(PubComp)
    assert answer.packet_id == 4321
    assert answer.reason is ReasonCode.PACKET_IDENTIFIER_NOT_FOUND


def test_mqtt_4_3_3_4_pubrec_is_answered_with_pubrel(scene: Scene) -> None:
    """[MQTT-4.3.3-4] [MQTT-4.3.3-5] in 5.0, [MQTT-4.3.3-1] in 3.1.1: with the packet identifier of the PUBLISH."""
    topic = scene.topic("a")
    subscriber = scene.subscriber(topic, qos=2)
    scene.client("pub").publish(topic, b"x", 2)
    message = subscriber.expect(Publish)
    subscriber.send(PubRec(message.packet_id))
    assert subscriber.expect(PubRel).packet_id == message.packet_id
    subscriber.send(PubComp(message.packet_id))
    assert subscriber.came() == []


@v5_only
def test_mqtt_4_3_3_4_a_refusing_pubrec_gets_no_pubrel(scene: Scene) -> None:
    """[MQTT-4.3.3-4]: the exchange is over with a reason of 0x80 or above."""
    topic = scene.topic("a")
    subscriber = scene.subscriber(topic, qos=2)
    scene.client("pub").publish(topic, b"x", 2)
    subscriber.send(PubRec(subscriber.expect(Publish).packet_id, ReasonCode.UNSPECIFIED_ERROR))
    assert subscriber.came() == []


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_4_4_0_1_an_unacknowledged_message_is_not_sent_again_on_the_same_connection(
    scene: Scene, qos: int
) -> None:
    """[MQTT-4.4.0-1] [MQTT-4.3.2-3] [MQTT-4.3.3-3] in 5.0: only after a reconnect."""
    topic = scene.topic("a")
    subscriber, publisher = scene.subscriber(topic, qos=qos), scene.client("pub")
    publisher.publish(topic, b"1", qos)
    publisher.publish(topic, b"2", qos)
    assert [message.payload for message in messages_of(subscriber.seen_after(publisher))] == [b"1", b"2"]
    subscriber.expect_nothing_from(publisher)


@pytest.mark.parametrize("topic", [b"a/+", b"#", b"a/#", b"+/a", b"a+", b"a#b"])
def test_mqtt_3_3_2_2_a_topic_name_with_wildcards_closes(scene: Scene, topic: bytes) -> None:
    """[MQTT-3.3.2-2] [MQTT-4.7.0-1] in 5.0, [MQTT-3.3.2-2] [MQTT-4.7.1-1] in 3.1.1."""
    client = scene.client()
    client.send_raw(publish(scene.version, topic, b"x"))
    scene.expect_refused(client, ReasonCode.TOPIC_NAME_INVALID, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_3_2_1_a_publish_without_topic_name_closes(scene: Scene) -> None:
    """[MQTT-3.3.2-1] in both versions: it ends where the name should be."""
    client = scene.client()
    client.send_raw(b"\x30\x00")
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR)


def test_mqtt_3_3_2_1_a_topic_name_that_is_not_utf8_closes(scene: Scene) -> None:
    """[MQTT-3.3.2-1] in both versions."""
    client = scene.client()
    client.send_raw(publish(scene.version, b"t/\xff", b"x"))
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR, ReasonCode.TOPIC_NAME_INVALID)


def test_mqtt_4_7_3_1_an_empty_topic_name_closes(scene: Scene) -> None:
    """[MQTT-4.7.3-1] in both versions: 5.0 allows it with a topic alias only."""
    client = scene.client()
    client.send_raw(publish(scene.version, b"", b"x"))
    scene.expect_refused(client, PROTOCOL_ERROR, MALFORMED, ReasonCode.TOPIC_NAME_INVALID)


def test_mqtt_3_3_2_3_a_message_comes_with_the_topic_it_was_published_to(scene: Scene) -> None:
    """[MQTT-3.3.2-3] in both versions: also through a wildcard."""
    subscriber = scene.subscriber(scene.topic("+", "b"))
    scene.client("pub").publish(scene.topic("a", "b"), b"x")
    assert subscriber.expect_message().topic == scene.topic("a", "b")


def test_mqtt_4_5_0_1_every_matching_subscriber_gets_a_copy(scene: Scene) -> None:
    """[MQTT-4.5.0-1] in both versions."""
    topic = scene.topic("a")
    subscribers = [scene.subscriber(topic, qos=qos, name=f"s{qos}{i}") for qos in (0, 1, 2) for i in range(3)]
    scene.client("pub").publish(topic, b"x", 2)
    assert [subscriber.expect_message().qos for subscriber in subscribers] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_mqtt_4_5_0_1_a_publisher_gets_its_own_messages(scene: Scene) -> None:
    """[MQTT-4.5.0-1] in both versions: it is a subscriber like others, unless it asks not to be."""
    topic = scene.topic("a")
    client = scene.subscriber(topic, qos=1)
    client.send(Publish(topic, b"mine", 1, packet_id=100))
    came = client.came()
    assert [message.payload for message in messages_of(came)] == [b"mine"]


def test_mqtt_3_3_4_2_overlapping_subscriptions_give_the_highest_qos(scene: Scene) -> None:
    """[MQTT-3.3.4-2] in 5.0, [MQTT-3.3.5-1] in 3.1.1: in one copy, or in one for each subscription."""
    subscriber, publisher = scene.client("sub"), scene.client("pub")
    subscriber.subscribe(scene.topic("#"), qos=0)
    subscriber.subscribe(scene.topic("+"), qos=1)
    subscriber.subscribe(scene.topic("a"), qos=2)
    publisher.publish(scene.topic("a"), b"x", 2)
    found = sorted(message.qos for message in messages_of(subscriber.seen_after(publisher)))
    assert found in ([2], [0, 1, 2])


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_2_2_1_5_both_directions_may_use_one_packet_identifier(scene: Scene, qos: int) -> None:
    """Chapter 2.2.1 of 5.0, 2.3.1 of 3.1.1: client and server assign theirs independently."""
    topic = scene.topic("a")
    client, publisher = scene.subscriber(topic, qos=qos), scene.client("pub")
    publisher.publish(topic, b"down", qos)
    message = client.expect(Publish)
    client.send(Publish(scene.topic("up"), b"up", qos, packet_id=message.packet_id))
    answer: type[PubAck | PubRec] = PubAck if qos == 1 else PubRec
    assert client.expect(answer).packet_id == message.packet_id
    client.acknowledge(message)
    client.ping()


def test_mqtt_4_2_0_1_packets_in_single_bytes_and_in_one_piece_are_the_same(scene: Scene) -> None:
    """[MQTT-4.2-1] in 5.0, [MQTT-7.1.1-1] in 3.1.1."""
    topic = scene.topic("a")
    client = scene.subscriber(topic)
    raw = b"".join(encode(Publish(topic, bytes([i])), scene.version) for i in range(20))
    for byte in raw:
        client.send_raw(bytes([byte]))
    client.send_raw(raw)
    client.expect_payloads([bytes([i]) for i in range(20)] * 2)


@v5_only
@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_3_4_2_1_nobody_to_receive_is_a_success(scene: Scene, qos: int) -> None:
    """[MQTT-3.4.2-1] [MQTT-3.5.2-1]: 0x00, or 0x10 which says just that."""
    client = scene.client()
    client.send(Publish(scene.topic("nobody"), b"x", qos, packet_id=1))
    kind: type[PubAck | PubRec] = PubAck if qos == 1 else PubRec
    assert client.expect(kind).reason in (ReasonCode.SUCCESS, ReasonCode.NO_MATCHING_SUBSCRIBERS)


@v5_only
def test_mqtt_3_3_4_6_a_clients_publish_with_a_subscription_identifier_closes(scene: Scene) -> None:
    """[MQTT-3.3.4-6]."""
    client = scene.client()
    client.send(Publish(scene.topic("a"), b"x", properties=Properties(subscription_identifiers=(1,))))
    scene.expect_refused(client, PROTOCOL_ERROR, MALFORMED)


@v5_only
def test_mqtt_4_3_3_9_the_identifier_of_a_refused_message_is_free(scene: Scene) -> None:
    """[MQTT-4.3.3-9] [MQTT-3.5.2-1]: nobody may publish below $SYS, and the next message with it is a new one."""
    topic = scene.topic("a")
    watcher, client = scene.subscriber(topic), scene.client()
    client.send(Publish("$SYS/mine", b"x", 2, packet_id=4))
    refusal = client.expect(PubRec)
    assert (refusal.packet_id, refusal.reason.is_refusal) == (4, True)
    client.send(Publish(topic, b"new", 2, packet_id=4))
    assert client.expect(PubRec) == PubRec(4)
    client.send(PubRel(4))
    assert client.expect(PubComp).packet_id == 4
    assert watcher.expect_message().payload == b"new"


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt311_3_3_5_2_a_refused_message_is_acknowledged_or_closes(scene: Scene, qos: int) -> None:
    """[MQTT-3.3.5-2] in 3.1.1; 5.0 says why. It reaches nobody either way."""
    watcher, publisher, client = scene.subscriber("$SYS/mine"), scene.client("pub"), scene.client()
    client.send(Publish("$SYS/mine", b"x", qos, packet_id=4 if qos else 0))
    try:
        answers = client.came()
    except ConnectionEnded:
        assert not scene.is_v5
    else:
        assert len(answers) == (1 if qos else 0)
    watcher.expect_nothing_from(publisher)
