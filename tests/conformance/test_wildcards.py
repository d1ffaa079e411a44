"""Topic names and filters, chapter 4.7: which match, and which are none."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene
from tests.support.mqtt_client import messages_of
from tests.support.mqtt_wire import packet, short, string

from penstock.codecs.mqtt.packets import Subscription
from penstock.codecs.mqtt.reasons import ReasonCode

INVALID = (ReasonCode.TOPIC_FILTER_INVALID, ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR)

MATCHING = [
    ("a/b", "a/b"),
    ("a/#", "a"),
    ("a/#", "a/b"),
    ("a/#", "a/b/c/d"),
    ("a/#", "a/"),
    ("a/+", "a/b"),
    ("a/+", "a/"),
    ("+/b", "a/b"),
    ("+/b", "/b"),
    ("+/+", "a/b"),
    ("+/+", "/"),
    ("/+", "/a"),
    ("a/+/c", "a/b/c"),
    ("a/+/c", "a//c"),
    ("a/+/#", "a/b"),
    ("a/+/#", "a/b/c/d"),
    ("+/#", "a/b/c"),
    ("a//b", "a//b"),
    ("#", "a"),
    ("#", "/a/b"),
    ("a b/c", "a b/c"),
    ("a/$b", "a/$b"),
    ("a/+", "a/$b"),
]
NOT_MATCHING = [
    ("a/b", "a"),
    ("a/b", "a/b/c"),
    ("a/b", "A/b"),
    ("a/b", "a/b/"),
    ("a/b", "/a/b"),
    ("a/+", "a"),
    ("a/+", "a/b/c"),
    ("+", "a/b"),
    ("+", "/a"),
    ("+/b", "b"),
    ("a/#", "b/a"),
    ("a/#", "ab"),
    ("a/+/c", "a/c"),
    ("a/+/c", "a/b/b/c"),
    ("/a", "a"),
    ("a//b", "a/b"),
    ("a b", "a  b"),
]
UNLIKE = [
    ("e\u0301", "\u00e9"),
    ("\ufeffa", "a"),
    ("K", "\u212a"),
    ("a\u00adb", "ab"),
    ("\uff41", "a"),
]


@pytest.mark.parametrize(("filter", "topic"), MATCHING)
def test_mqtt_4_7_1_2_a_filter_gets_the_topics_it_matches(scene: Scene, filter: str, topic: str) -> None:
    """[MQTT-4.7.1-1] [MQTT-4.7.1-2] in 5.0, [MQTT-4.7.1-2] [MQTT-4.7.1-3] in 3.1.1."""
    subscriber, publisher = scene.subscriber(scene.topic(filter)), scene.client("pub")
    publisher.publish(scene.topic(topic), b"x")
    assert subscriber.expect_message().topic == scene.topic(topic)


@pytest.mark.parametrize(("filter", "topic"), NOT_MATCHING)
def test_mqtt_4_7_1_2_a_filter_gets_no_other_topics(scene: Scene, filter: str, topic: str) -> None:
    """[MQTT-4.7.1-1] [MQTT-4.7.1-2] in 5.0, [MQTT-4.7.1-2] [MQTT-4.7.1-3] in 3.1.1."""
    subscriber, publisher = scene.subscriber(scene.topic(filter)), scene.client("pub")
    publisher.publish(scene.topic(topic), b"x")
    subscriber.expect_nothing_from(publisher)


@pytest.mark.parametrize(("one", "other"), UNLIKE, ids=["accent", "byte_order_mark", "kelvin", "hyphen", "full_width"])
def test_mqtt_4_7_3_4_names_are_not_normalised(scene: Scene, one: str, other: str) -> None:
    """[MQTT-4.7.3-4] in both versions: what only looks alike does not match."""
    subscriber, publisher = scene.subscriber(scene.topic(one)), scene.client("pub")
    publisher.publish(scene.topic(other), b"other")
    publisher.publish(scene.topic(one), b"one")
    found = messages_of(subscriber.seen_after(publisher))
    assert [(message.topic, message.payload) for message in found] == [(scene.topic(one), b"one")]


@pytest.mark.parametrize("filter", [b"a/#/b", b"a#", b"#/a", b"a/b#", b"##", b"#a", b"a/##"])
def test_mqtt_4_7_1_1_a_multi_level_wildcard_in_the_wrong_place_closes(scene: Scene, filter: bytes) -> None:
    """[MQTT-4.7.1-1] in 5.0, [MQTT-4.7.1-2] in 3.1.1: it stands alone at the end."""
    client = scene.client()
    client.send_raw(packet(0x82, short(1) + (b"\0" if scene.is_v5 else b"") + string(filter) + b"\0"))
    scene.expect_refused(client, *INVALID)


@pytest.mark.parametrize("filter", [b"a+", b"+a", b"a/+b", b"a/b+/c", b"++", b"+#"])
def test_mqtt_4_7_1_2_a_single_level_wildcard_within_a_level_closes(scene: Scene, filter: bytes) -> None:
    """[MQTT-4.7.1-2] in 5.0, [MQTT-4.7.1-3] in 3.1.1: it is a level of its own."""
    client = scene.client()
    client.send_raw(packet(0x82, short(1) + (b"\0" if scene.is_v5 else b"") + string(filter) + b"\0"))
    scene.expect_refused(client, *INVALID)


def test_mqtt_4_7_3_1_an_empty_filter_closes(scene: Scene) -> None:
    """[MQTT-4.7.3-1] in both versions."""
    client = scene.client()
    client.send_raw(packet(0x82, short(1) + (b"\0" if scene.is_v5 else b"") + string(b"") + b"\0"))
    scene.expect_refused(client, *INVALID)


def test_mqtt_4_7_2_1_wildcards_at_the_start_do_not_match_dollar_topics(scene: Scene) -> None:
    """[MQTT-4.7.2-1] in both versions: neither retained nor live. `$SYS/#` begins with none, and shows that there are
    some."""
    wild = [scene.subscriber(filter, name=f"w{i}") for i, filter in enumerate(("#", "+/#", "+/+", "+"))]
    named, publisher = scene.subscriber("$SYS/#", name="named"), scene.client("pub")
    assert named.expect_message().topic.startswith("$SYS/")
    for client in wild:
        found = messages_of(client.seen_after(publisher))
        assert not [message.topic for message in found if message.topic.startswith("$")]


def test_mqtt_4_7_3_3_the_longest_topic_is_a_topic(scene: Scene) -> None:
    """[MQTT-4.7.3-3] in both versions: 65,535 bytes."""
    topic = scene.topic("x" * (65_535 - len(scene.topic(""))))
    subscriber = scene.subscriber(topic)
    scene.client("pub").publish(topic, b"x")
    assert subscriber.expect_message().topic == topic


def test_mqtt_4_7_1_2_many_levels_match(scene: Scene) -> None:
    """[MQTT-4.7.1-2] in 5.0, [MQTT-4.7.1-3] in 3.1.1."""
    levels = ["l"] * 100
    subscriber = scene.subscriber(scene.topic(*["+"] * 100), scene.topic(*["l"] * 50, "#"))
    publisher = scene.client("pub")
    publisher.publish(scene.topic(*levels), b"x")
    found = messages_of(subscriber.seen_after(publisher))
    assert {message.topic for message in found} == {scene.topic(*levels)}


def test_mqtt_4_7_1_2_many_filters_of_one_client_match(scene: Scene) -> None:
    """[MQTT-4.7.1-2] in 5.0, [MQTT-4.7.1-3] in 3.1.1."""
    client, publisher = scene.client(), scene.client("pub")
    client.subscribe(*(Subscription(scene.topic(str(i), "+")) for i in range(200)))
    for i in (0, 99, 199):
        publisher.publish(scene.topic(str(i), "x"), b"x")
    assert len(messages_of(client.seen_after(publisher))) == 3
