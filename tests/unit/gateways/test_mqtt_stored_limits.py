"""More messages than a session that is kept on disk may have waiting: what its policy makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import LONG_S, V3, V5, RunningGateway, Setup, running

from penstock.broker.sessions.session import Session
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Disconnect, PubAck, Publish
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.mqtt.options import MqttOptions, QueuedPolicy

SENT, ROOM = 6, 3
NEWEST, OLDEST, DISCONNECT = QueuedPolicy.DROP_NEWEST, QueuedPolicy.DROP_OLDEST, QueuedPolicy.DISCONNECT


def limited(policy: QueuedPolicy) -> Setup:
    return Setup(MqttOptions(sys_interval_s=0, max_queued_messages=ROOM, queued_policy=policy))


def numbered(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def send_all(mqtt: RunningGateway, qos: int = 1) -> MqttClient:
    """Each is acknowledged: that one subscriber has no room is not the publisher's fault."""
    publisher = mqtt.client("p")
    for payload in numbered(*range(SENT)):
        publisher.publish("t", payload, qos)
    return publisher


@pytest.mark.parametrize("version", [V3, V5], ids=["3.1.1", "5"])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(("policy", "kept"), [(NEWEST, (0, 1, 2)), (OLDEST, (3, 4, 5)), (DISCONNECT, (0, 1, 2))])
def test_a_session_that_is_away_keeps_what_its_policy_says(
    tmp_path: Path, policy: QueuedPolicy, kept: tuple[int, ...], qos: int, version: Version
) -> None:
    with running(tmp_path, limited(policy)) as mqtt:
        client = mqtt.lasting(version=version)
        client.subscribe("t", qos=qos)
        client.disconnect()
        mqtt.left_with(0)
        publisher = send_all(mqtt, qos)
        back = mqtt.lasting(version=version)
        assert back.connack.session_present
        back.expect_payloads(numbered(*kept))
        back.expect_nothing_from(publisher)
        assert mqtt.call(lambda: mqtt.gateway.counters.dropped) == SENT - len(kept)


@pytest.mark.parametrize(("policy", "kept"), [(NEWEST, (0, 1, 2)), (OLDEST, (3, 4, 5))])
def test_what_was_dropped_stays_so_after_a_restart(tmp_path: Path, policy: QueuedPolicy, kept: tuple[int, ...]) -> None:
    with running(tmp_path, limited(policy)) as mqtt:
        client = mqtt.lasting()
        client.subscribe("t", qos=1)
        client.disconnect()
        mqtt.left_with(0)
        send_all(mqtt)
        mqtt.restart()
        mqtt.lasting().expect_payloads(numbered(*kept))


@pytest.mark.parametrize(("policy", "kept"), [(NEWEST, (0, 1, 2)), (OLDEST, (0, 4, 5))])
def test_a_connected_client_that_confirms_nothing_keeps_what_it_was_sent_and_what_its_policy_says(
    tmp_path: Path, policy: QueuedPolicy, kept: tuple[int, ...]
) -> None:
    with running(tmp_path, limited(policy)) as mqtt:
        client = mqtt.lasting(receive_maximum=1)
        client.subscribe("t", qos=1)
        publisher = send_all(mqtt)
        client.expect_payloads(numbered(*kept))
        client.expect_nothing_from(publisher)


def test_a_connected_client_over_its_limit_is_told_to_go_and_finds_the_rest_when_it_comes_back(tmp_path: Path) -> None:
    with running(tmp_path, limited(DISCONNECT)) as mqtt:
        client = mqtt.lasting(receive_maximum=1)
        client.subscribe("t", qos=1)
        publisher = send_all(mqtt)
        word = client.expect_closed()
        assert isinstance(word, Disconnect)
        assert word.reason is ReasonCode.QUOTA_EXCEEDED
        back = mqtt.lasting()
        assert back.connack.session_present
        back.expect_payloads(numbered(0, 1, 2))
        publisher.publish("t", b"more", 1)
        back.expect_payloads([b"more"])


@pytest.mark.parametrize(("policy", "kept"), [(NEWEST, [b"a", b"b"]), (OLDEST, [b"b", b"c"])])
def test_bytes_are_a_limit_of_stored_sessions_too(tmp_path: Path, policy: QueuedPolicy, kept: list[bytes]) -> None:
    size_bytes = 1000
    options = MqttOptions(sys_interval_s=0, max_queued_bytes=2 * size_bytes + 500, queued_policy=policy)
    with running(tmp_path, Setup(options)) as mqtt:
        client, publisher = mqtt.lasting(), mqtt.client("p")
        client.subscribe("t", qos=1)
        client.disconnect()
        mqtt.left_with(1)
        for letter in (b"a", b"b", b"c"):
            publisher.publish("t", letter * size_bytes, 1)
        mqtt.lasting().expect_payloads([letter * size_bytes for letter in kept])


def test_one_session_without_room_takes_nothing_from_others(tmp_path: Path) -> None:
    with running(tmp_path, limited(NEWEST)) as mqtt:
        full, other = (
            mqtt.lasting("full"),
            mqtt.client("other", properties=Properties(session_expiry_interval_s=LONG_S)),
        )
        for client in (full, other):
            client.subscribe("t", qos=1)
        full.disconnect()
        mqtt.left_with(1)
        publisher = mqtt.client("p")
        for payload in numbered(*range(SENT)):
            publisher.publish("t", payload, 1)
            assert other.expect_message().payload == payload
        messages = [mqtt.lasting("full").expect(Publish).payload]
        assert messages == numbered(0)


def stored_session(mqtt: RunningGateway, name: str) -> Session:
    found = mqtt.gateway.registry.find("default", name)
    assert found is not None and found.stored is not None
    return found.stored


def refused(publisher: MqttClient, topic: str, times: int, *, retain: bool = False) -> None:
    for _ in range(times):
        publisher.send(Publish(topic, b"refused", 1, retain, packet_id=publisher.next_id()))
        assert publisher.expect(PubAck).reason.is_refusal


def test_a_refused_retained_message_keeps_no_room_in_sessions(tmp_path: Path) -> None:
    with running(tmp_path, limited(NEWEST)) as mqtt:
        client, publisher = mqtt.lasting(), mqtt.client("p")
        client.subscribe("#", qos=1)
        refused(publisher, "/".join(["a"] * 300), 2 * ROOM, retain=True)
        stored = stored_session(mqtt, "s")
        assert mqtt.call(lambda: (stored.reserved, stored.reserved_bytes)) == (0, 0)
        publisher.publish("t", b"taken", 1)
        client.expect_payloads([b"taken"])


@pytest.mark.parametrize("policy", [NEWEST, DISCONNECT])
def test_a_session_without_room_loses_nothing_by_a_publish_that_a_queue_refuses(
    tmp_path: Path, policy: QueuedPolicy
) -> None:
    with running(tmp_path, limited(policy)) as mqtt:
        full = mqtt.declare("full", topics=["t"], limits={"max_queue_depth": 1})
        mqtt.wait(mqtt.broker.group(full, "g"))
        client, publisher = mqtt.lasting(receive_maximum=1), mqtt.client("p")
        for topic in ("t", "u"):
            client.subscribe(topic, qos=1)
        for topic in ("t", *["u"] * (ROOM - 1)):
            publisher.publish(topic, topic.encode(), 1)
        refused(publisher, "t", SENT)
        assert mqtt.call(lambda: (mqtt.gateway.counters.dropped, stored_session(mqtt, "s").dropped)) == (0, 0)
        client.expect_payloads([b"t", *[b"u"] * (ROOM - 1)])
        client.ping()
