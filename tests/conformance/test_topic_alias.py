"""Topic aliases, chapter 3.3.2.3.4: of the client, and of the server where the client allows them."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v5_only
from tests.support.mqtt_client import MqttClient, messages_of

from penstock.codecs.mqtt.packets import Publish, PubRec, PubRel
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

pytestmark = v5_only
INVALID, PROTOCOL_ERROR = ReasonCode.TOPIC_ALIAS_INVALID, ReasonCode.PROTOCOL_ERROR


def alias_maximum(client: MqttClient) -> int:
    maximum = client.connack.properties.topic_alias_maximum or 0
    if not maximum:
        pytest.skip("the server takes no topic aliases")
    return maximum


def aliased(topic: str, payload: bytes, alias: int, qos: int = 0, packet_id: int = 0) -> Publish:
    return Publish(topic, payload, qos, packet_id=packet_id, properties=Properties(topic_alias=alias))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_3_2_12_an_alias_stands_for_its_topic(scene: Scene, qos: int) -> None:
    """[MQTT-3.3.2-12]: and is not passed on."""
    topic = scene.topic("a")
    watcher, client = scene.subscriber(topic), scene.client()
    alias_maximum(client)
    client.send(aliased(topic, b"1", 1))
    client.send(aliased("", b"2", 1, qos, 9 if qos else 0))
    if qos == 2:
        client.expect(PubRec)
        client.send(PubRel(9))
    for message in watcher.expect_payloads([b"1", b"2"]):
        assert message.topic == topic
        assert message.properties.topic_alias is None


def test_mqtt_3_3_2_12_every_alias_up_to_the_maximum_is_taken(scene: Scene) -> None:
    """[MQTT-3.3.2-12]."""
    watcher, client = scene.subscriber(scene.topic("#")), scene.client()
    aliases = sorted({1, 2, alias_maximum(client)})
    for alias in aliases:
        client.send(aliased(scene.topic(str(alias)), b"long", alias))
    for alias in aliases:
        client.send(aliased("", b"short", alias))
    topics = [scene.topic(str(alias)) for alias in aliases]
    assert [watcher.expect_message().topic for _ in range(2 * len(aliases))] == topics * 2


def test_mqtt5_3_3_2_3_an_alias_may_be_given_to_another_topic(scene: Scene) -> None:
    """Chapter 3.3.2.3.4."""
    watcher, client = scene.subscriber(scene.topic("#")), scene.client()
    alias_maximum(client)
    for topic, payload in ((scene.topic("a"), b"1"), ("", b"2"), (scene.topic("b"), b"3"), ("", b"4")):
        client.send(aliased(topic, payload, 1))
    found = [watcher.expect_message() for _ in range(4)]
    assert [message.topic for message in found] == [scene.topic("a")] * 2 + [scene.topic("b")] * 2


def test_mqtt_3_3_2_8_alias_0_closes(scene: Scene) -> None:
    """[MQTT-3.3.2-8]."""
    client = scene.client()
    topic = scene.topic("a").encode()
    body = len(topic).to_bytes(2, "big") + topic + b"\x03\x23\0\0"
    client.send_raw(bytes([0x30, len(body)]) + body)
    scene.expect_refused(client, INVALID, PROTOCOL_ERROR)


def test_mqtt_3_3_2_9_an_alias_above_the_maximum_closes(scene: Scene) -> None:
    """[MQTT-3.3.2-9] [MQTT-3.2.2-17] [MQTT-3.2.2-18]: the maximum is 0 where CONNACK says none."""
    client = scene.client()
    maximum = client.connack.properties.topic_alias_maximum or 0
    client.send(aliased(scene.topic("a"), b"x", maximum + 1))
    scene.expect_refused(client, INVALID)


def test_mqtt5_3_3_2_3_an_alias_that_stands_for_nothing_closes(scene: Scene) -> None:
    """Chapter 3.3.2.3.4: a Protocol Error."""
    client = scene.client()
    alias_maximum(client)
    client.send(aliased("", b"x", 1))
    scene.expect_refused(client, PROTOCOL_ERROR)


def test_mqtt_3_3_2_7_an_alias_ends_with_its_connection(scene: Scene) -> None:
    """[MQTT-3.3.2-7]: though the session goes on."""
    client = scene.lasting()
    alias_maximum(client)
    client.send(aliased(scene.topic("a"), b"x", 1))
    client.disconnect()
    back = scene.lasting()
    back.send(aliased("", b"x", 1))
    scene.expect_refused(back, PROTOCOL_ERROR)


def test_mqtt_3_3_2_7_aliases_of_two_clients_are_their_own(scene: Scene) -> None:
    """[MQTT-3.3.2-7]: chapter 3.3.2.3.4, each direction of each connection has its mappings."""
    watcher, first, second = scene.subscriber(scene.topic("#")), scene.client("a"), scene.client("b")
    alias_maximum(first)
    first.send(aliased(scene.topic("a"), b"", 1))
    watcher.expect_message()
    second.send(aliased(scene.topic("b"), b"", 1))
    watcher.expect_message()
    first.send(aliased("", b"", 1))
    assert watcher.expect_message().topic == scene.topic("a")
    second.send(aliased("", b"", 1))
    assert watcher.expect_message().topic == scene.topic("b")


@pytest.mark.parametrize("maximum", [None, 0])
def test_mqtt_3_1_2_27_a_client_that_allows_no_aliases_gets_none(scene: Scene, maximum: int | None) -> None:
    """[MQTT-3.1.2-27]."""
    client = scene.client("sub", properties=Properties(topic_alias_maximum=maximum))
    client.subscribe(scene.topic("#"))
    publisher = scene.client("pub")
    for i in range(4):
        publisher.publish(scene.topic(str(i % 2)), b"x")
    for message in messages_of(client.seen_after(publisher)):
        assert message.properties.topic_alias is None and message.topic


@pytest.mark.parametrize("maximum", [1, 2, 10])
def test_mqtt_3_1_2_26_the_servers_aliases_stay_within_the_clients_maximum(scene: Scene, maximum: int) -> None:
    """[MQTT-3.1.2-26] [MQTT-3.3.2-11] [MQTT-3.3.2-10] [MQTT-3.3.2-8]: if it uses any, they stand for what they said."""
    client = scene.client("sub", properties=Properties(topic_alias_maximum=maximum))
    client.subscribe(scene.topic("#"))
    publisher = scene.client("pub")
    for i in range(20):
        publisher.publish(scene.topic(str(i % 5)), b"%d" % (i % 5))
    known: dict[int, str] = {}
    for _ in range(20):
        message = client.expect_message()
        alias = message.properties.topic_alias
        if alias is not None:
            assert 1 <= alias <= maximum
            known[alias] = message.topic or known[alias]
        assert (message.topic or known[alias or 0]) == scene.topic(message.payload.decode())
