"""The properties of PUBLISH that the server passes on, chapter 3.3.2.3, and request/response, chapter 4.10."""

from __future__ import annotations

import pytest
from tests.conformance.scene import V3, Scene, v5_only
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_wire import publish, string

from penstock.codecs.mqtt.packets import PubAck
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode

pytestmark = v5_only
MALFORMED, PROTOCOL_ERROR = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR
QOS = pytest.mark.parametrize("qos", [0, 1, 2])


def passed_on(scene: Scene, said: Properties, qos: int = 0) -> Properties:
    topic = scene.topic("a")
    subscriber = scene.subscriber(topic, qos=qos)
    scene.client("pub").publish(topic, b"text", qos, properties=said)
    return subscriber.expect_message().properties


@pytest.mark.parametrize("indicator", [0, 1])
def test_mqtt_3_3_2_4_the_payload_format_is_passed_on(scene: Scene, indicator: int) -> None:
    """[MQTT-3.3.2-4]: 0 says the same as none, so that it may be left out."""
    found = passed_on(scene, Properties(payload_format_indicator=indicator)).payload_format_indicator
    assert found == indicator or (found is None and not indicator)


@QOS
def test_mqtt_3_3_2_15_all_properties_are_passed_on_with_every_qos(scene: Scene, qos: int) -> None:
    """[MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-20]: unaltered, and nothing is added."""
    said = Properties(
        payload_format_indicator=1,
        content_type="application/json",
        response_topic="answers/für/mich",
        correlation_data=bytes(range(256)),
        user_properties=(("key", "value"),),
    )
    assert passed_on(scene, said, qos) == said


def test_mqtt_3_3_2_17_user_properties_keep_order_and_repetitions(scene: Scene) -> None:
    """[MQTT-3.3.2-17] [MQTT-3.3.2-18]: empty names and values too."""
    pairs = (("b", "1"), ("a", "2"), ("b", "1"), ("", ""), ("ü", "日本"), ("a", ""), ("b", "0"))
    assert passed_on(scene, Properties(user_properties=pairs)).user_properties == pairs


def test_mqtt_3_3_2_17_many_and_long_user_properties_are_passed_on(scene: Scene) -> None:
    """[MQTT-3.3.2-17]: so that the length of the properties needs more than one byte."""
    pairs = tuple((f"name {i}", "v" * 300) for i in range(100))
    assert passed_on(scene, Properties(user_properties=pairs)).user_properties == pairs


def test_mqtt_3_3_2_16_empty_correlation_data_is_passed_on(scene: Scene) -> None:
    """[MQTT-3.3.2-16]: it is not the same as none."""
    said = Properties(response_topic="answer", correlation_data=b"")
    assert passed_on(scene, said).correlation_data in (b"", None)


def test_mqtt_2_2_2_1_a_message_without_properties_comes_without(scene: Scene) -> None:
    """[MQTT-2.2.2-1]."""
    assert passed_on(scene, NO_PROPERTIES) == NO_PROPERTIES


def test_mqtt_3_3_2_17_a_client_of_3_1_1_gets_the_message_without_properties(scene: Scene) -> None:
    """Chapter 3.3.2.3: they have no place there, and the payload is what was published."""
    topic = scene.topic("a")
    old = MqttClient(scene.server.address, V3, scene.client_id("old"))
    old.connect()
    old.subscribe(topic)
    said = Properties(content_type="text/plain", user_properties=(("a", "b"),))
    scene.client("pub").publish(topic, b"text", properties=said)
    assert old.expect_message().payload == b"text"
    old.close()


@pytest.mark.parametrize(
    "properties",
    [
        b"\x01\x02",
        b"\x01\x01" * 2,
        b"\x02\0\0\0\x05" * 2,
        (b"\x03" + string(b"t")) * 2,
        (b"\x08" + string(b"t")) * 2,
        (b"\x09" + string(b"t")) * 2,
        b"\x23\0\x01" * 2,
        b"\x11\0\0\0\x05",
        b"\x1f" + string(b"why"),
        b"\x7e\x00",
        b"\x03\0\x09t",
    ],
    ids=[
        "format_2",
        "format_twice",
        "expiry_twice",
        "content_type_twice",
        "response_topic_twice",
        "correlation_twice",
        "alias_twice",
        "session_expiry",
        "reason_string",
        "unknown",
        "cut",
    ],
)
def test_mqtt5_3_3_2_3_wrong_properties_close(scene: Scene, properties: bytes) -> None:
    """Chapter 3.3.2.3, [MQTT-4.13.1-1]."""
    client = scene.client()
    client.send_raw(publish(5, scene.topic("a").encode(), b"x", properties=properties))
    reasons = (PROTOCOL_ERROR, MALFORMED, ReasonCode.PAYLOAD_FORMAT_INVALID, ReasonCode.TOPIC_ALIAS_INVALID)
    scene.expect_refused(client, *reasons)


@pytest.mark.parametrize("id", [0x03, 0x08], ids=["content_type", "response_topic"])
def test_mqtt_3_3_2_13_text_that_is_not_utf8_closes(scene: Scene, id: int) -> None:
    """[MQTT-3.3.2-13] [MQTT-3.3.2-19]."""
    client = scene.client()
    client.send_raw(publish(5, scene.topic("a").encode(), b"x", properties=bytes([id]) + string(b"a\xff")))
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR, ReasonCode.TOPIC_NAME_INVALID)


@pytest.mark.parametrize("topic", [b"a/+", b"#", b"a/#/b"])
def test_mqtt_3_3_2_14_a_response_topic_with_wildcards_closes(scene: Scene, topic: bytes) -> None:
    """[MQTT-3.3.2-14]."""
    client = scene.client()
    client.send_raw(publish(5, scene.topic("a").encode(), b"x", properties=b"\x08" + string(topic)))
    scene.expect_refused(client, PROTOCOL_ERROR, MALFORMED, ReasonCode.TOPIC_NAME_INVALID)


def test_mqtt5_4_10_a_request_is_answered_on_its_response_topic(scene: Scene) -> None:
    """Chapter 4.10: with its correlation data."""
    requester, responder = scene.client("asks"), scene.subscriber(scene.topic("questions"), qos=1, name="answers")
    requester.subscribe(scene.topic("answers", "me"), qos=1)
    said = Properties(response_topic=scene.topic("answers", "me"), correlation_data=b"\x00id\xff")
    requester.publish(scene.topic("questions"), b"how much?", 1, properties=said)
    question = responder.expect_message()
    answer = Properties(correlation_data=question.properties.correlation_data)
    responder.publish(question.properties.response_topic or "", b"this much", 1, properties=answer)
    received = requester.expect_message()
    assert (received.payload, received.properties.correlation_data) == (b"this much", b"\x00id\xff")


def test_mqtt5_4_10_everyone_who_was_asked_may_answer(scene: Scene) -> None:
    """Chapter 4.10: several subscribers of the request topic, several answers."""
    responders = [scene.subscriber(scene.topic("q"), name=name) for name in "ab"]
    requester = scene.client("asks")
    requester.subscribe(scene.topic("answers"), qos=1)
    requester.publish(scene.topic("q"), b"?", properties=Properties(response_topic=scene.topic("answers")))
    for responder in responders:
        question = responder.expect_message()
        responder.publish(question.properties.response_topic or "", responder.client_id.encode(), 1)
    answers = {requester.expect_message().payload for _ in responders}
    assert answers == {responder.client_id.encode() for responder in responders}


def test_mqtt5_3_3_2_3_a_payload_that_is_not_the_text_it_says_is_refused_or_taken(scene: Scene) -> None:
    """Chapter 3.3.2.3.2: the receiver may check; it says 0x99 then, and goes on or closes."""
    client = scene.client()
    client.send_raw(publish(5, scene.topic("a").encode(), b"\xff", flags=2, packet_id=1, properties=b"\x01\x01"))
    answer = client.receive()
    if isinstance(answer, PubAck):
        assert not answer.reason.is_refusal or answer.reason is ReasonCode.PAYLOAD_FORMAT_INVALID
    else:
        scene.expect_refused(client, ReasonCode.PAYLOAD_FORMAT_INVALID)
