"""Message expiry, chapter 3.3.2.3.3. What must grow old does so once, for all tests of this file together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.conformance.scene import V5, Scene, v5_only
from tests.support.mqtt_client import MqttClient
from tests.support.servers import RunningServer

from penstock.codecs.mqtt.packets import PubComp, Publish, PubRec, PubRel, Will
from penstock.codecs.mqtt.properties import Properties

pytestmark = v5_only
SHORT_S, LONG_S = 1, 1000


def expiring(interval_s: int) -> Properties:
    return Properties(message_expiry_interval_s=interval_s)


class Aged(NamedTuple):
    """Everything in it was sent before the short interval passed."""

    number: int
    """of the scene in which it was"""
    sent: Publish
    """not acknowledged by the session `sent`, which is away"""
    full: MqttClient
    """takes one message at a time, and has not acknowledged its first one"""
    first: Publish
    """that one"""
    publishing: MqttClient
    """has begun with a message of QoS 2, packet identifier 5"""


@pytest.fixture(scope="module")
def aged(server: RunningServer) -> Iterator[Aged]:
    scene = Scene(server, V5)
    publisher = scene.client("pub")
    _leave_waiting(scene, publisher)
    sent = _leave_sent(scene, publisher)
    full, first = _leave_full(scene, publisher)
    publishing = scene.client("publishing")
    publishing.send(Publish(scene.topic("a"), b"x", 2, packet_id=5, properties=expiring(SHORT_S)))
    assert publishing.expect(PubRec).packet_id == 5
    _let_pass(scene)
    yield Aged(scene.number, sent, full, first, publishing)
    scene.close()


@pytest.fixture
def later(scene: Scene, aged: Aged) -> Scene:
    """The scene of `aged`, when the short interval has passed."""
    scene.number = aged.number
    return scene


def _leave_waiting(scene: Scene, publisher: MqttClient) -> None:
    """For the session `s`, and as retained messages."""
    session = scene.lasting()
    session.subscribe(scene.topic("queued"), qos=1)
    session.disconnect()
    for topic, is_retained in ((scene.topic("queued"), False), (scene.topic("kept"), True)):
        publisher.publish(topic, b"long", 1, retain=is_retained, properties=expiring(LONG_S))
    publisher.publish(scene.topic("queued"), b"forever", 1)
    publisher.publish(scene.topic("queued"), b"short", 1, properties=expiring(SHORT_S))
    publisher.publish(scene.topic("gone"), b"short", 1, retain=True, properties=expiring(SHORT_S))


def _leave_sent(scene: Scene, publisher: MqttClient) -> Publish:
    session = scene.lasting("sent")
    session.subscribe(scene.topic("sent"), qos=2)
    publisher.publish(scene.topic("sent"), b"x", 2, properties=expiring(SHORT_S))
    message = session.expect(Publish)
    session.cut()
    return message


def _leave_full(scene: Scene, publisher: MqttClient) -> tuple[MqttClient, Publish]:
    client, topic = scene.client("full", properties=Properties(receive_maximum=1)), scene.topic("full")
    client.subscribe(topic, qos=1)
    publisher.publish(topic, b"first", 1)
    publisher.publish(topic, b"expires", 1, properties=expiring(SHORT_S))
    publisher.publish(topic, b"last", 1)
    return client, client.expect(Publish)


def _let_pass(scene: Scene) -> None:
    """Returns when two seconds are over on the server's own clock: by a will with such a delay."""
    topic = scene.topic("clock")
    watcher = scene.subscriber(topic, name="watch")
    will = Will(topic, b"over", properties=Properties(will_delay_interval_s=2))
    scene.lasting("clock", will=will).cut()
    watcher.expect_message()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_3_2_6_a_message_that_did_not_wait_keeps_its_interval(scene: Scene, qos: int) -> None:
    """[MQTT-3.3.2-6]: but for the moment in which it passes."""
    topic = scene.topic("a")
    subscriber = scene.subscriber(topic, qos=qos)
    scene.client("pub").publish(topic, b"x", qos, properties=expiring(LONG_S))
    found = subscriber.expect_message().properties.message_expiry_interval_s
    assert found is not None and LONG_S - 5 <= found <= LONG_S


def test_mqtt_3_3_2_6_without_an_interval_none_is_added(scene: Scene) -> None:
    """[MQTT-3.3.2-6]: such a message does not expire."""
    topic = scene.topic("a")
    subscriber = scene.subscriber(topic)
    scene.client("pub").publish(topic, b"x")
    assert subscriber.expect_message().properties.message_expiry_interval_s is None


def test_mqtt_3_3_2_5_a_message_expires_where_it_waits(later: Scene) -> None:
    """[MQTT-3.3.2-5] [MQTT-3.3.2-6]: for a session that is away, and as a retained one; others that waited as long come
    with what is left of their interval."""
    publisher = later.client("other")
    queued = later.lasting().expect_only(2, publisher)
    kept = later.subscriber(later.topic("kept"), later.topic("gone")).expect_only(1, publisher)
    assert [message.payload for message in queued] == [b"long", b"forever"]
    assert [message.payload for message in kept] == [b"long"]
    assert queued[1].properties.message_expiry_interval_s is None
    for message in (queued[0], kept[0]):
        left_s = message.properties.message_expiry_interval_s
        assert left_s is not None and LONG_S - 60 <= left_s < LONG_S


def test_mqtt_3_3_2_5_a_message_that_waits_for_room_expires(later: Scene, aged: Aged) -> None:
    """[MQTT-3.3.2-5]: behind the receive maximum, its delivery was not begun."""
    aged.full.wait_at_most(later.deadline_s)
    aged.full.acknowledge(aged.first)
    assert aged.full.expect_message().payload == b"last"


def test_mqtt_4_3_3_7_a_message_that_was_sent_does_not_expire(later: Scene, aged: Aged) -> None:
    """[MQTT-4.3.3-7] [MQTT-4.3.3-13]: its exchange goes on after a reconnect."""
    back = later.lasting("sent")
    again = back.expect(Publish)
    assert (again.payload, again.packet_id, again.dup) == (b"x", aged.sent.packet_id, True)
    back.send(PubRec(again.packet_id))
    assert back.expect(PubRel).packet_id == again.packet_id
    back.send(PubComp(again.packet_id))
    back.ping()


def test_mqtt_4_3_3_13_an_expired_message_of_the_client_is_still_acknowledged(later: Scene, aged: Aged) -> None:
    """[MQTT-4.3.3-13]: the receiver completes the exchange."""
    aged.publishing.send(PubRel(5))
    assert aged.publishing.expect(PubComp).packet_id == 5


def test_mqtt5_3_1_3_2_the_expiry_of_a_will_is_that_of_its_message(scene: Scene) -> None:
    """Chapter 3.1.3.2.4: counted from its publication."""
    topic = scene.topic("w")
    watcher = scene.subscriber(topic)
    scene.client(will=Will(topic, b"gone", properties=expiring(LONG_S))).cut()
    found = watcher.expect_message().properties.message_expiry_interval_s
    assert found is not None and LONG_S - 5 <= found <= LONG_S
