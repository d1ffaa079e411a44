"""Bytes that are no packet, and packets that no client sends: each closes its connection, and no other one."""

from __future__ import annotations

import pytest
from tests.conformance.scene import Scene, v5_only
from tests.support.mqtt_wire import acknowledgement, packet, short, string

from penstock.codecs.mqtt.packets import Publish
from penstock.codecs.mqtt.reasons import ReasonCode

MALFORMED, PROTOCOL_ERROR = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR
EITHER = (MALFORMED, PROTOCOL_ERROR)

BOTH_VERSIONS = {
    "type_0": b"\x00\x00",
    "length_of_5_bytes": b"\x30\xff\xff\xff\xff\x01",
    "publish_cut_topic": b"\x30\x03\x00\x05a",
    "publish_cut_packet_id": b"\x32\x04\x00\x01a\x00",
    "publish_no_packet_id": b"\x32\x03\x00\x01a",
    "puback_empty": b"\x40\x00",
    "puback_cut": b"\x40\x01\x00",
    "puback_flags": b"\x41\x02\x00\x01",
    "pubrec_flags": b"\x51\x02\x00\x01",
    "pubrel_flags": b"\x60\x02\x00\x01",
    "pubrel_flags_3": b"\x63\x02\x00\x01",
    "pubrel_cut": b"\x62\x01\x00",
    "pubcomp_flags": b"\x74\x02\x00\x01",
    "subscribe_empty": b"\x82\x00",
    "unsubscribe_empty": b"\xa2\x00",
    "connack": b"\x20\x02\x00\x00",
    "suback": packet(0x90, short(1) + b"\x00"),
    "suback_v5": packet(0x90, short(1) + b"\x00\x00"),
    "unsuback": packet(0xB0, short(1)),
    "pingresp": b"\xd0\x00",
}
VERSION_5 = {
    "publish_overlong_length": b"\x30\x84\x00\x00\x01a\x00",
    "publish_cut_properties": b"\x30\x04\x00\x01a\x05",
    "publish_no_properties": b"\x30\x03\x00\x01a",
    "publish_overlong_property_length": b"\x30\x05\x00\x01a\x80\x00",
    "puback_unknown_reason": acknowledgement(4, 1, 0x01),
    "puback_reason_of_another": acknowledgement(4, 1, 0x92),
    "pubrec_unknown_reason": acknowledgement(5, 1, 0x7F),
    "pubrel_unknown_reason": acknowledgement(6, 1, 0x80),
    "pubcomp_unknown_reason": acknowledgement(7, 1, 0x10),
    "puback_alien_property": acknowledgement(4, 1, 0, b"\x01\x00"),
    "puback_reason_string_twice": acknowledgement(4, 1, 0, (b"\x1f" + string(b"w")) * 2),
    "puback_trailing": packet(0x40, short(1) + b"\x00\x00\x00"),
    "unsubscribe_alien_property": packet(0xA2, short(1) + b"\x02\x0b\x01" + string(b"a")),
}


@pytest.mark.parametrize("raw", list(BOTH_VERSIONS.values()), ids=list(BOTH_VERSIONS))
def test_mqtt_4_13_1_1_a_malformed_packet_closes_its_connection(scene: Scene, raw: bytes) -> None:
    """[MQTT-4.13.1-1] [MQTT-2.1.3-1] [MQTT-3.6.1-1] [MQTT-2.2.1-2] in 5.0, [MQTT-4.8.0-1] [MQTT-2.2.2-1] [MQTT-2.2.2-2]
    [MQTT-3.6.1-1] [MQTT-2.3.1-5] in 3.1.1: and others go on."""
    other = scene.client("other")
    client = scene.client()
    client.send_raw(raw)
    scene.expect_refused(client, *EITHER)
    other.ping()


@v5_only
@pytest.mark.parametrize("raw", list(VERSION_5.values()), ids=list(VERSION_5))
def test_mqtt_4_13_1_1_a_packet_that_is_malformed_in_5_0_closes(scene: Scene, raw: bytes) -> None:
    """[MQTT-4.13.1-1] [MQTT-1.5.5-1] [MQTT-2.2.2-1] [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1]."""
    client = scene.client()
    client.send_raw(raw)
    scene.expect_refused(client, *EITHER)


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", bytes(64), b"\xff" * 64])
def test_mqtt_3_1_0_1_what_is_no_mqtt_at_all_closes(scene: Scene, raw: bytes) -> None:
    """[MQTT-3.1.0-1] [MQTT-4.13.1-1] in 5.0, [MQTT-3.1.0-1] [MQTT-4.8.0-1] in 3.1.1."""
    client = scene.opened()
    client.send_raw(raw)
    assert client.ended() == []


def test_mqtt_4_13_1_1_what_came_before_a_malformed_packet_counts(scene: Scene) -> None:
    """Chapter 4.13 of 5.0, 4.8 of 3.1.1: it was taken, and what follows is not."""
    topic = scene.topic("a")
    watcher, publisher, client = scene.subscriber(topic), scene.client("pub"), scene.client()
    client.send(Publish(topic, b"before"))
    client.send_raw(b"\x00\x00")
    client.send(Publish(topic, b"after"))
    client.expect_closed()
    assert watcher.expect_message().payload == b"before"
    watcher.expect_nothing_from(publisher)


@pytest.mark.parametrize("kind", [0x40, 0x50, 0x70], ids=["puback", "pubrec", "pubcomp"])
def test_mqtt5_4_3_an_acknowledgement_of_nothing_harms_nobody(scene: Scene, kind: int) -> None:
    """Chapter 4.13.2 of 5.0: of an identifier that is not in use. The sender may be answered, ignored or closed."""
    other, client = scene.client("other"), scene.client()
    client.send_raw(bytes([kind, 2, 0x30, 0x39]))
    other.ping()
