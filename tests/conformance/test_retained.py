"""Retained messages, chapter 3.3.1.3, and the subscription options that deal with them."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v5_only
from tests.support.mqtt_client import messages_of

from penstock.codecs.mqtt.packets import RetainHandling, Subscription
from penstock.codecs.mqtt.properties import Properties


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_3_1_5_a_retained_message_waits_for_subscribers(scene: Scene, qos: int) -> None:
    """[MQTT-3.3.1-5] [MQTT-3.3.1-9] in 5.0, [MQTT-3.3.1-5] [MQTT-3.3.1-6] [MQTT-3.3.1-8] in 3.1.1: with its QoS, and
    marked as retained."""
    topic = scene.topic("a")
    publisher = scene.client("pub")
    publisher.publish(topic, b"kept", qos, retain=True)
    publisher.ping()
    for name in ("first", "second"):
        message = scene.subscriber(topic, qos=2, name=name).expect_message()
        assert (message.topic, message.payload, message.qos, message.retain) == (topic, b"kept", qos, True)


@pytest.mark.parametrize("granted", [0, 1, 2])
def test_mqtt_3_8_4_8_a_retained_message_comes_with_the_lower_qos(scene: Scene, granted: int) -> None:
    """[MQTT-3.8.4-8] in 5.0, [MQTT-3.8.4-6] in 3.1.1."""
    topic = scene.topic("a")
    scene.client("pub").publish(topic, b"kept", 2, retain=True)
    assert scene.subscriber(topic, qos=granted).expect_message().qos == granted


def test_mqtt_3_3_1_5_a_later_retained_message_replaces_the_earlier(scene: Scene) -> None:
    """[MQTT-3.3.1-5] in both versions: only the last one is kept."""
    topic = scene.topic("a")
    publisher = scene.client("pub")
    for payload in (b"1", b"2", b"3"):
        publisher.publish(topic, payload, 1, retain=True)
    late = scene.subscriber(topic)
    assert late.expect_only(1, publisher)[0].payload == b"3"


def test_mqtt311_3_3_1_7_qos_0_replaces_a_retained_message_too(scene: Scene) -> None:
    """[MQTT-3.3.1-7] in 3.1.1, [MQTT-3.3.1-5] in 5.0: the earlier one is never seen again."""
    topic = scene.topic("a")
    publisher = scene.client("pub")
    publisher.publish(topic, b"old", 1, retain=True)
    publisher.publish(topic, b"new", 0, retain=True)
    late = scene.subscriber(topic)
    assert late.expect_only(1, publisher)[0].payload == b"new"


def test_mqtt_3_3_1_6_an_empty_retained_message_removes_it(scene: Scene) -> None:
    """[MQTT-3.3.1-6] [MQTT-3.3.1-7] in 5.0, [MQTT-3.3.1-10] [MQTT-3.3.1-11] in 3.1.1: subscribers who are there get it
    as any other message."""
    topic = scene.topic("a")
    publisher = scene.client("pub")
    publisher.publish(topic, b"kept", 1, retain=True)
    watcher = scene.subscriber(topic)
    assert watcher.expect_message().payload == b"kept"
    publisher.publish(topic, b"", 1, retain=True)
    message = watcher.expect_message()
    assert (message.payload, message.retain) == (b"", False)
    scene.subscriber(topic, name="late").expect_only(0, publisher)


def test_mqtt_3_3_1_7_an_empty_retained_message_is_not_stored(scene: Scene) -> None:
    """[MQTT-3.3.1-7] in 5.0, [MQTT-3.3.1-11] in 3.1.1: where there was none either."""
    topic = scene.topic("a")
    publisher = scene.client("pub")
    publisher.publish(topic, b"", 1, retain=True)
    scene.subscriber(topic).expect_only(0, publisher)


@pytest.mark.parametrize("payload", [b"other", b""], ids=["payload", "empty"])
def test_mqtt_3_3_1_8_a_message_without_retain_changes_nothing(scene: Scene, payload: bytes) -> None:
    """[MQTT-3.3.1-8] in 5.0, [MQTT-3.3.1-12] in 3.1.1: it is neither stored, nor does it remove one."""
    topic = scene.topic("a")
    publisher = scene.client("pub")
    publisher.publish(scene.topic("b"), payload, 1)
    publisher.publish(topic, b"kept", 1, retain=True)
    publisher.publish(topic, payload, 1)
    late = scene.subscriber(scene.topic("+"))
    assert late.expect_only(1, publisher)[0].payload == b"kept"


def test_mqtt_3_3_1_12_a_live_message_is_not_marked_as_retained(scene: Scene) -> None:
    """[MQTT-3.3.1-12] in 5.0, [MQTT-3.3.1-9] in 3.1.1: to subscriptions that are there."""
    topic = scene.topic("a")
    watcher = scene.subscriber(topic)
    scene.client("pub").publish(topic, b"live", retain=True)
    assert not watcher.expect_message().retain


def test_mqtt311_3_3_1_6_a_wildcard_gets_every_retained_message_it_matches(scene: Scene) -> None:
    """[MQTT-3.3.1-6] in 3.1.1, [MQTT-3.3.1-9] in 5.0: one for each topic."""
    publisher = scene.client("pub")
    kept = [scene.topic(*levels) for levels in (("a",), ("a", "b"), ("a", "b", "c"), ("x", "b"), ("a", "y"))]
    for topic in kept:
        publisher.publish(topic, topic.encode(), 1, retain=True)
    for filter, expected in (
        (scene.topic("#"), kept),
        (scene.topic("+", "b"), [kept[1], kept[3]]),
        (scene.topic("a", "#"), [kept[0], kept[1], kept[2], kept[4]]),
    ):
        late = scene.client("late")
        late.subscribe(filter)
        found = late.expect_only(len(expected), publisher)
        assert sorted(message.topic for message in found) == sorted(expected)
        assert all(message.retain for message in found)


def test_mqtt_4_7_2_1_retained_messages_of_dollar_topics_need_their_name(scene: Scene) -> None:
    """[MQTT-4.7.2-1] in both versions: a filter that begins with a wildcard does not match them."""
    client = scene.client()
    client.subscribe("+/broker/version", "#")
    found = messages_of(client.seen_after(scene.client("pub")))
    assert not [message.topic for message in found if message.topic.startswith("$")]


@v5_only
def test_mqtt_3_3_1_9_retain_handling_0_sends_each_time(scene: Scene) -> None:
    """[MQTT-3.3.1-9]."""
    topic = scene.topic("a")
    scene.client("pub").publish(topic, b"kept", 1, retain=True)
    client = scene.client()
    for _ in range(3):
        client.subscribe(Subscription(topic, retain_handling=RetainHandling.SEND))
        assert client.expect_message().retain


@v5_only
def test_mqtt_3_3_1_10_retain_handling_1_sends_to_a_new_subscription(scene: Scene) -> None:
    """[MQTT-3.3.1-10]: not to one that was there, unless it was ended between."""
    topic = scene.topic("a")
    publisher, client = scene.client("pub"), scene.client()
    publisher.publish(topic, b"kept", 1, retain=True)
    asked = Subscription(topic, retain_handling=RetainHandling.SEND_IF_NEW)
    client.subscribe(asked)
    assert client.expect_message().retain
    client.subscribe(asked)
    client.expect_only(0, publisher)
    client.unsubscribe(topic)
    client.subscribe(asked)
    assert client.expect_message().retain


@v5_only
def test_mqtt_3_3_1_10_a_subscription_of_a_resumed_session_is_not_new(scene: Scene) -> None:
    """[MQTT-3.3.1-10]: the session holds it."""
    topic = scene.topic("a")
    publisher, session = scene.client("pub"), scene.lasting()
    asked = Subscription(topic, retain_handling=RetainHandling.SEND_IF_NEW)
    session.subscribe(asked)
    session.disconnect()
    back = scene.lasting()
    publisher.publish(topic, b"kept", 0, retain=True)
    back.expect_message()
    back.subscribe(asked)
    back.expect_only(0, publisher)


@v5_only
def test_mqtt_3_3_1_11_retain_handling_2_sends_nothing(scene: Scene) -> None:
    """[MQTT-3.3.1-11]: live messages come."""
    topic = scene.topic("a")
    publisher, client = scene.client("pub"), scene.client()
    publisher.publish(topic, b"kept", 1, retain=True)
    client.subscribe(Subscription(topic, retain_handling=RetainHandling.NEVER))
    publisher.publish(topic, b"live", 1)
    assert client.expect_only(1, publisher)[0].payload == b"live"


@v5_only
@pytest.mark.parametrize("is_retained", [True, False])
def test_mqtt_3_3_1_13_retain_as_published_keeps_the_flag(scene: Scene, is_retained: bool) -> None:
    """[MQTT-3.3.1-13]."""
    topic = scene.topic("a")
    client = scene.client()
    client.subscribe(Subscription(topic, retain_as_published=True))
    scene.client("pub").publish(topic, b"x", retain=is_retained)
    assert client.expect_message().retain is is_retained


@v5_only
def test_mqtt_3_3_1_13_retain_as_published_is_an_option_of_one_subscription(scene: Scene) -> None:
    """[MQTT-3.3.1-12] [MQTT-3.3.1-13]: another client's does not matter."""
    topic = scene.topic("a")
    keeping, plain = scene.client("keeping"), scene.client("plain")
    keeping.subscribe(Subscription(topic, retain_as_published=True))
    plain.subscribe(Subscription(topic))
    scene.client("pub").publish(topic, b"x", retain=True)
    assert keeping.expect_message().retain
    assert not plain.expect_message().retain


@v5_only
def test_mqtt5_3_3_1_3_a_retained_message_without_the_option_is_still_marked(scene: Scene) -> None:
    """Chapter 3.3.1.3: what is sent because of a SUBSCRIBE has the flag, whatever Retain As Published says."""
    topic = scene.topic("a")
    scene.client("pub").publish(topic, b"kept", 1, retain=True)
    client = scene.client()
    client.subscribe(Subscription(topic, retain_as_published=False))
    assert client.expect_message().retain


@v5_only
def test_mqtt5_3_3_2_3_a_retained_message_keeps_its_properties(scene: Scene) -> None:
    """[MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-20]."""
    topic = scene.topic("a")
    said = Properties(
        payload_format_indicator=1,
        content_type="text/plain",
        response_topic="answer/here",
        correlation_data=b"\x00\x01",
        user_properties=(("b", "1"), ("a", "2"), ("b", "3")),
    )
    scene.client("pub").publish(topic, b"kept", 1, retain=True, properties=said)
    assert scene.subscriber(topic).expect_message().properties == said
