"""Session state, chapters 3.1.2.4, 4.1, 4.4: what is kept while a client is away, and what is sent again."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v3_only, v5_only
from tests.support.mqtt_client import messages_of

from penstock.codecs.mqtt.packets import PubAck, PubComp, Publish, PubRec, PubRel, Will
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

QOS_1_2 = pytest.mark.parametrize("qos", [1, 2])
LEAVING = pytest.mark.parametrize("is_cut", [False, True], ids=["disconnect", "cut"])


@LEAVING
def test_mqtt_3_1_2_5_a_session_is_resumed_with_its_subscriptions(scene: Scene, is_cut: bool) -> None:
    """[MQTT-3.1.2-5] [MQTT-3.1.2-23] in 5.0, [MQTT-3.1.2-4] in 3.1.1: without subscribing again."""
    topic = scene.topic("a")
    session = scene.lasting()
    session.subscribe(topic, qos=1)
    session.cut() if is_cut else session.disconnect()
    back = scene.lasting()
    assert back.connack.session_present
    scene.client("pub").publish(topic, b"live", 1)
    assert back.expect_message().payload == b"live"


@QOS_1_2
@LEAVING
def test_mqtt_4_5_0_1_messages_are_kept_while_a_client_is_away(scene: Scene, qos: int, is_cut: bool) -> None:
    """[MQTT-4.5.0-1] [MQTT-3.1.2-23] in 5.0, [MQTT-3.1.2-5] [MQTT-4.5.0-1] in 3.1.1: in their order."""
    topic = scene.topic("a")
    session, publisher = scene.lasting(), scene.client("pub")
    session.subscribe(topic, qos=qos)
    session.cut() if is_cut else session.disconnect()
    payloads = [b"%d" % i for i in range(15)]
    for payload in payloads:
        publisher.publish(topic, payload, qos)
    for message in scene.lasting().expect_payloads(payloads):
        assert (message.qos, message.retain) == (qos, False)
        # A server that had not seen the cut yet has sent it once already.
        assert not message.dup or is_cut


def test_mqtt_4_5_0_1_a_message_is_kept_with_the_lower_qos(scene: Scene) -> None:
    """[MQTT-4.5.0-1] [MQTT-3.8.4-8] in 5.0, [MQTT-3.8.4-6] in 3.1.1."""
    topic = scene.topic("a")
    session = scene.lasting()
    session.subscribe(topic, qos=1)
    session.disconnect()
    scene.client("pub").publish(topic, b"x", 2)
    assert scene.lasting().expect_message().qos == 1


@QOS_1_2
def test_mqtt_4_1_0_1_what_was_taken_does_not_come_again(scene: Scene, qos: int) -> None:
    """[MQTT-4.1.0-1] in 5.0, [MQTT-4.1.0-1] [MQTT-4.1.0-2] in 3.1.1: acknowledged is acknowledged."""
    topic = scene.topic("a")
    session, publisher = scene.lasting(), scene.client("pub")
    session.subscribe(topic, qos=qos)
    publisher.publish(topic, b"x", qos)
    session.expect_message()
    session.ping()
    session.cut()
    scene.lasting().expect_nothing_from(publisher)


def test_mqtt_3_1_2_4_a_clean_start_discards_the_session(scene: Scene) -> None:
    """[MQTT-3.1.2-4] in 5.0, [MQTT-3.1.2-6] in 3.1.1: its subscriptions and its messages."""
    topic = scene.topic("a")
    session, publisher = scene.lasting(), scene.client("pub")
    session.subscribe(topic, qos=1)
    session.disconnect()
    publisher.publish(topic, b"old", 1)
    fresh = scene.lasting(clean=True)
    publisher.publish(topic, b"new", 1)
    fresh.expect_nothing_from(publisher)


def test_mqtt_3_1_2_6_without_a_session_a_new_one_is_made(scene: Scene) -> None:
    """[MQTT-3.1.2-6] in 5.0, [MQTT-3.1.2-4] in 3.1.1: and is there the next time."""
    first = scene.lasting()
    assert not first.connack.session_present
    first.disconnect()
    assert scene.lasting().connack.session_present


@LEAVING
def test_mqtt_4_1_0_2_a_session_that_does_not_last_ends_with_its_connection(scene: Scene, is_cut: bool) -> None:
    """[MQTT-4.1.0-2] in 5.0 (no Session Expiry Interval), [MQTT-3.1.2-6] in 3.1.1 (clean session)."""
    topic = scene.topic("a")
    client, publisher = scene.client("s"), scene.client("pub")
    client.subscribe(topic, qos=1)
    client.cut() if is_cut else client.disconnect()
    if is_cut:
        # A connection that was cut is seen when the server gets to it; the next one with the identifier is behind it.
        scene.client("s").disconnect()
    publisher.publish(topic, b"x", 1)
    back = scene.lasting()
    assert not back.connack.session_present
    back.expect_nothing_from(publisher)


@v3_only
def test_mqtt311_3_1_2_6_a_clean_session_is_not_resumed(scene: Scene) -> None:
    """[MQTT-3.1.2-6] in 3.1.1: state of a clean session must not be reused, whatever the next CONNECT says."""
    scene.client("s", clean=True).disconnect()
    assert not scene.lasting().connack.session_present


@v5_only
def test_mqtt5_3_1_2_11_clean_start_and_expiry_are_independent(scene: Scene) -> None:
    """Chapter 3.1.2.11.2: a session begun clean lasts as long as its interval says."""
    scene.lasting(clean=True).disconnect()
    assert scene.lasting().connack.session_present


@v5_only
def test_mqtt5_3_1_2_11_the_interval_is_that_of_the_last_connect(scene: Scene) -> None:
    """Chapter 3.1.2.11.2: resumed without one, the session ends with that connection."""
    scene.lasting().disconnect()
    second = scene.client("s", clean=False)
    assert second.connack.session_present
    second.disconnect()
    assert not scene.lasting().connack.session_present


@v5_only
def test_mqtt_4_1_0_2_a_session_ends_when_its_interval_has_passed(scene: Scene) -> None:
    """[MQTT-4.1.0-2] [MQTT-3.1.2-23]: and not before."""
    scene.lasting(expiry_s=2).disconnect()
    resumed = scene.lasting(expiry_s=2)
    assert resumed.connack.session_present
    resumed.disconnect()
    watcher = scene.subscriber(scene.topic("w"))
    # A will with a delay of four seconds says when they are over, on the server's own clock.
    delayed = Will(scene.topic("w"), b"later", properties=Properties(will_delay_interval_s=4))
    scene.lasting("clock", will=delayed).cut()
    watcher.expect_message()
    assert not scene.lasting().connack.session_present


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_4_4_0_1_an_unacknowledged_message_is_sent_again(scene: Scene, qos: int) -> None:
    """[MQTT-4.4.0-1] [MQTT-3.3.1-1] [MQTT-4.3.2-3] [MQTT-4.3.3-3] in 5.0, [MQTT-4.4.0-1] [MQTT-3.3.1-1] in 3.1.1: with
    its packet identifier, and as a duplicate."""
    topic = scene.topic("a")
    session = scene.lasting()
    session.subscribe(topic, qos=qos)
    scene.client("pub").publish(topic, b"x", qos)
    first = session.expect(Publish)
    session.cut()
    again = scene.lasting().expect_message()
    assert (again.packet_id, again.payload, again.qos, again.dup) == (first.packet_id, b"x", qos, True)


def test_mqtt_4_4_0_1_an_uncompleted_pubrel_is_sent_again(scene: Scene) -> None:
    """[MQTT-4.4.0-1] [MQTT-4.3.3-5] [MQTT-4.3.3-6] in 5.0, [MQTT-4.4.0-1] [MQTT-4.3.3-1] in 3.1.1: and the message
    itself is not."""
    topic = scene.topic("a")
    session = scene.lasting()
    session.subscribe(topic, qos=2)
    scene.client("pub").publish(topic, b"x", 2)
    message = session.expect(Publish)
    session.send(PubRec(message.packet_id))
    assert session.expect(PubRel).packet_id == message.packet_id
    session.cut()
    back = scene.lasting()
    assert back.expect(PubRel).packet_id == message.packet_id
    back.send(PubComp(message.packet_id))
    assert back.came() == []


@QOS_1_2
def test_mqtt_4_6_0_1_messages_are_sent_again_in_their_order(scene: Scene, qos: int) -> None:
    """[MQTT-4.6.0-1] [MQTT-4.4.0-1] in 5.0, [MQTT-4.6.0-1] [MQTT-4.6.0-6] in 3.1.1: before what came later."""
    topic = scene.topic("a")
    session, publisher = scene.lasting(), scene.client("pub")
    session.subscribe(topic, qos=qos)
    for i in range(5):
        publisher.publish(topic, b"%d" % i, qos)
    first = [session.expect(Publish) for _ in range(5)]
    session.cut()
    publisher.publish(topic, b"5", qos)
    back = scene.lasting()
    again = [back.expect(Publish) for _ in range(6)]
    assert [message.payload for message in again] == [b"%d" % i for i in range(6)]
    assert [message.packet_id for message in again[:5]] == [message.packet_id for message in first]
    assert all(message.dup for message in again[:5])


@v5_only
@QOS_1_2
def test_mqtt_4_4_0_2_a_refused_message_is_not_sent_again(scene: Scene, qos: int) -> None:
    """[MQTT-4.4.0-2]: a PUBACK or PUBREC of 0x80 or above is an acknowledgement."""
    topic = scene.topic("a")
    session, publisher = scene.lasting(), scene.client("pub")
    session.subscribe(topic, qos=qos)
    publisher.publish(topic, b"x", qos)
    packet_id = session.expect(Publish).packet_id
    answer: type[PubAck | PubRec] = PubAck if qos == 1 else PubRec
    session.send(answer(packet_id, ReasonCode.UNSPECIFIED_ERROR))
    session.ping()
    session.cut()
    scene.lasting().expect_nothing_from(publisher)


@pytest.mark.parametrize("is_released", [False, True], ids=["received", "released"])
def test_mqtt_4_3_3_10_what_was_received_is_known_after_a_reconnect(scene: Scene, is_released: bool) -> None:
    """[MQTT-4.3.3-10] [MQTT-3.1.2-5] in 5.0, [MQTT-4.3.3-2] [MQTT-3.1.2-4] in 3.1.1: a QoS 2 message of the client is
    delivered once, whatever it sends again."""
    topic = scene.topic("a")
    watcher, session = scene.subscriber(topic, qos=2), scene.lasting()
    session.send(Publish(topic, b"x", 2, packet_id=77))
    assert session.expect(PubRec).packet_id == 77
    if is_released:
        session.send(PubRel(77))
        assert session.expect(PubComp).packet_id == 77
    session.cut()
    back = scene.lasting()
    if not is_released:
        back.send(Publish(topic, b"x", 2, dup=True, packet_id=77))
        assert back.expect(PubRec).packet_id == 77
    back.send(PubRel(77))
    assert back.expect(PubComp).packet_id == 77
    watcher.expect_payloads([b"x"])
    watcher.expect_nothing_from(back)


def test_mqtt_3_1_2_4_a_clean_start_forgets_what_was_received(scene: Scene) -> None:
    """[MQTT-3.1.2-4] in 5.0, [MQTT-3.1.2-6] in 3.1.1: the packet identifier is free again."""
    topic = scene.topic("a")
    session = scene.lasting()
    session.send(Publish(topic, b"old", 2, packet_id=77))
    session.expect(PubRec)
    session.cut()
    watcher, fresh = scene.subscriber(topic, qos=2), scene.lasting(clean=True)
    fresh.send(Publish(topic, b"new", 2, packet_id=77))
    assert fresh.expect(PubRec).packet_id == 77
    fresh.send(PubRel(77))
    assert fresh.expect(PubComp).packet_id == 77
    assert watcher.expect_message().payload == b"new"
    watcher.expect_nothing_from(fresh)


def test_mqtt_3_1_4_3_taking_over_keeps_the_session(scene: Scene) -> None:
    """[MQTT-3.1.4-3] [MQTT-3.1.2-5] in 5.0, [MQTT-3.1.4-2] [MQTT-3.1.2-4] in 3.1.1: unacknowledged messages go to the
    new connection."""
    topic = scene.topic("a")
    first = scene.lasting()
    first.subscribe(topic, qos=1)
    scene.client("pub").publish(topic, b"x", 1)
    packet_id = first.expect(Publish).packet_id
    second = scene.lasting()
    assert second.connack.session_present
    again = second.expect_message()
    assert (again.packet_id, again.dup) == (packet_id, True)


def test_mqtt_3_10_4_1_an_unsubscribed_filter_is_not_resumed(scene: Scene) -> None:
    """[MQTT-3.10.4-1] in both versions."""
    session, publisher = scene.lasting(), scene.client("pub")
    session.subscribe(scene.topic("a"), scene.topic("b"), qos=1)
    session.unsubscribe(scene.topic("a"))
    session.disconnect()
    publisher.publish(scene.topic("a"), b"a", 1)
    publisher.publish(scene.topic("b"), b"b", 1)
    back = scene.lasting()
    assert [message.payload for message in messages_of(back.seen_after(publisher))] == [b"b"]


def test_mqtt311_3_1_2_7_retained_messages_are_not_part_of_a_session(scene: Scene) -> None:
    """[MQTT-3.1.2-7] in 3.1.1, chapter 4.1 of 5.0: they stay when their publisher's session ends."""
    topic = scene.topic("a")
    scene.client("p").publish(topic, b"kept", 1, retain=True)
    scene.client("p").disconnect()
    assert scene.subscriber(topic).expect_message().payload == b"kept"


def test_mqtt_3_1_3_2_sessions_of_other_identifiers_are_not_touched(scene: Scene) -> None:
    """[MQTT-3.1.3-2] in both versions: identifiers are compared to the last character, case included."""
    topic = scene.topic("a")
    session = scene.lasting("name")
    session.subscribe(topic, qos=1)
    session.disconnect()
    for other in ("Name", "name ", "nam"):
        assert not scene.lasting(other, clean=False).connack.session_present
    scene.client("pub").publish(topic, b"x", 1)
    assert scene.lasting("name").expect_message().payload == b"x"
