"""Strings, chapters 1.5.4 and 1.5.7 of 5.0, 1.5.3 of 3.1.1: well-formed, without U+0000, and never changed."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v5_only
from tests.support.mqtt_wire import packet, publish, short, string

from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

ILL_FORMED = {
    "lone_continuation": b"a\x80",
    "cut_sequence": b"a\xe2\x82",
    "overlong_slash": b"\xc0\xaf",
    "overlong_nul": b"\xc0\x80",
    "surrogate": b"\xed\xa0\x80",
    "surrogate_pair": b"\xed\xa0\x80\xed\xb0\x80",
    "beyond_unicode": b"\xf4\x90\x80\x80",
    "invalid_byte": b"\xff",
}
TEXTS = pytest.mark.parametrize("text", list(ILL_FORMED.values()), ids=list(ILL_FORMED))
REASONS = (
    ReasonCode.MALFORMED_PACKET,
    ReasonCode.PROTOCOL_ERROR,
    ReasonCode.TOPIC_NAME_INVALID,
    ReasonCode.TOPIC_FILTER_INVALID,
)
STRINGS = ["\ufeff", "\ufeffname", "na\ufeffme", "日本語", "𝄞", "\U0010fffd", " ", "a b", "ß", "\u202eevil"]
ACCEPTED = pytest.mark.parametrize("text", STRINGS, ids=[text.encode("unicode_escape").decode() for text in STRINGS])


def connect_as(scene: Scene, client_id: bytes) -> bytes:
    properties = b"\0" if scene.is_v5 else b""
    return packet(0x10, string(b"MQTT") + bytes([scene.version, 2]) + short(60) + properties + string(client_id))


def subscribe_to(scene: Scene, head: int, filter: bytes) -> bytes:
    options = b"\0" if head == 0x82 else b""
    return packet(head, short(1) + (b"\0" if scene.is_v5 else b"") + string(filter) + options)


@TEXTS
def test_mqtt_1_5_4_1_an_ill_formed_topic_name_closes(scene: Scene, text: bytes) -> None:
    """[MQTT-1.5.4-1] in 5.0, [MQTT-1.5.3-1] in 3.1.1."""
    client = scene.client()
    client.send_raw(publish(scene.version, text, b"x"))
    scene.expect_refused(client, *REASONS)


@TEXTS
def test_mqtt_1_5_4_1_an_ill_formed_filter_closes(scene: Scene, text: bytes) -> None:
    """[MQTT-1.5.4-1] in 5.0, [MQTT-1.5.3-1] in 3.1.1."""
    client = scene.client()
    client.send_raw(subscribe_to(scene, 0x82, text))
    scene.expect_refused(client, *REASONS)


@TEXTS
def test_mqtt_1_5_4_1_an_ill_formed_client_identifier_closes(scene: Scene, text: bytes) -> None:
    """[MQTT-1.5.4-1] [MQTT-3.1.3-4] in 5.0, [MQTT-1.5.3-1] in 3.1.1."""
    client = scene.opened()
    client.send_raw(connect_as(scene, text))
    scene.expect_rejected(client, *REASONS, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)


@pytest.mark.parametrize("kind", ["topic", "filter", "unsubscribed", "client_id"])
def test_mqtt_1_5_4_2_a_string_with_nul_closes(scene: Scene, kind: str) -> None:
    """[MQTT-1.5.4-2] [MQTT-4.7.3-2] in 5.0, [MQTT-1.5.3-2] [MQTT-4.7.3-2] in 3.1.1."""
    if kind == "client_id":
        client = scene.opened()
        client.send_raw(connect_as(scene, b"a\0b"))
        scene.expect_rejected(client, *REASONS, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)
        return
    client = scene.client()
    if kind == "topic":
        client.send_raw(publish(scene.version, b"a\0b", b"x"))
    else:
        client.send_raw(subscribe_to(scene, 0x82 if kind == "filter" else 0xA2, b"a\0b"))
    scene.expect_refused(client, *REASONS)


@ACCEPTED
def test_mqtt_1_5_4_3_a_topic_is_passed_on_as_it_was(scene: Scene, text: str) -> None:
    """[MQTT-1.5.4-3] [MQTT-4.7.3-4] in 5.0, [MQTT-1.5.3-3] [MQTT-4.7.3-4] in 3.1.1: a byte order mark too."""
    topic = scene.topic(text)
    subscriber = scene.subscriber(topic)
    scene.client("pub").publish(topic, b"x")
    assert subscriber.expect_message().topic == topic


def test_mqtt_1_5_4_3_a_byte_order_mark_is_part_of_a_client_identifier(scene: Scene) -> None:
    """[MQTT-1.5.4-3] in 5.0, [MQTT-1.5.3-3] in 3.1.1: with and without it are two clients."""
    first, second = scene.client("\ufeffa"), scene.client("a")
    first.ping()
    second.ping()


def test_mqtt_3_3_3_a_payload_needs_not_be_text(scene: Scene) -> None:
    """Chapter 3.3.3 of both versions: any bytes, NUL and ill-formed text too."""
    topic, payload = scene.topic("a"), b"\0\xff\xc0\x80" + bytes(range(256))
    subscriber = scene.subscriber(topic)
    scene.client("pub").publish(topic, payload)
    assert subscriber.expect_message().payload == payload


@v5_only
@pytest.mark.parametrize("pair", [(b"\xff", b"v"), (b"k", b"\xed\xa0\x80"), (b"k\0", b"v"), (b"k", b"\0")])
def test_mqtt_1_5_7_1_both_strings_of_a_user_property_are_checked(scene: Scene, pair: tuple[bytes, bytes]) -> None:
    """[MQTT-1.5.7-1]."""
    client = scene.client()
    properties = b"\x26" + string(pair[0]) + string(pair[1])
    client.send_raw(publish(5, scene.topic("a").encode(), b"x", properties=properties))
    scene.expect_refused(client, *REASONS)


@v5_only
@ACCEPTED
def test_mqtt_1_5_7_1_user_properties_are_passed_on_as_they_were(scene: Scene, text: str) -> None:
    """[MQTT-1.5.7-1] [MQTT-1.5.4-3]."""
    topic = scene.topic("a")
    subscriber = scene.subscriber(topic)
    said = Properties(user_properties=((text, text),))
    scene.client("pub").publish(topic, b"x", properties=said)
    assert subscriber.expect_message().properties == said
