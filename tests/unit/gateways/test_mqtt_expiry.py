"""What messages have left of their time when the wall clock is set while they wait: as much as if it had not been."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import BY_ANSWER, LONG_S, RunningGateway, consumer, running

from penstock.codecs.mqtt.packets import Publish
from penstock.codecs.mqtt.properties import Properties

HOUR_S = 3600
EXPIRING = Properties(message_expiry_interval_s=600)


def set_clock(mqtt: RunningGateway, jump_s: int) -> None:
    mqtt.clock.wall_ms += 1000 * jump_s
    mqtt.advance(2)


def left_s(message: Publish) -> int | None:
    return message.properties.message_expiry_interval_s


def waiting(mqtt: RunningGateway, *, is_lasting: bool) -> tuple[MqttClient, Publish]:
    """One message is not acknowledged, and another one waits behind it."""
    limits = Properties(receive_maximum=1, session_expiry_interval_s=LONG_S if is_lasting else None)
    client, publisher = mqtt.client("slow", properties=limits), mqtt.client("p")
    client.subscribe("t", qos=1)
    for payload in (b"first", b"second"):
        publisher.publish("t", payload, 1, properties=EXPIRING)
    return client, client.expect(Publish)


@pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S])
def test_what_waits_for_a_client_has_its_whole_time(tmp_path: Path, jump_s: int) -> None:
    with running(tmp_path) as mqtt:
        client, first = waiting(mqtt, is_lasting=False)
        set_clock(mqtt, jump_s)
        client.acknowledge(first)
        assert left_s(client.expect(Publish)) == 598


@pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S])
def test_what_waits_for_a_client_expires_in_time(tmp_path: Path, jump_s: int) -> None:
    with running(tmp_path) as mqtt:
        client, first = waiting(mqtt, is_lasting=False)
        set_clock(mqtt, jump_s)
        mqtt.advance(599)
        client.acknowledge(first)
        client.ping()


def test_what_waits_for_a_session_has_its_whole_time(tmp_path: Path) -> None:
    with running(tmp_path) as mqtt:
        client, first = waiting(mqtt, is_lasting=True)
        set_clock(mqtt, HOUR_S)
        client.acknowledge(first)
        assert left_s(client.expect(Publish)) == 598


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("is_lasting", [False, True])
def test_what_is_retained_has_its_whole_time(tmp_path: Path, is_lasting: bool, qos: int) -> None:
    with running(tmp_path) as mqtt:
        mqtt.client("p").publish("t", b"retained", 1, retain=True, properties=EXPIRING)
        set_clock(mqtt, HOUR_S)
        client = mqtt.lasting() if is_lasting else mqtt.client()
        client.subscribe("t", qos=qos)
        assert left_s(client.expect(Publish)) == 598


@pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S])
def test_what_is_retained_is_taken_away_in_time(tmp_path: Path, jump_s: int) -> None:
    with running(tmp_path) as mqtt:
        publisher = mqtt.client("p")
        publisher.publish("before", b"v", 1, retain=True, properties=EXPIRING)
        set_clock(mqtt, jump_s)
        publisher.publish("after", b"v", 1, retain=True, properties=EXPIRING)
        mqtt.wait(mqtt.topics.keep_up(mqtt.broker.now()))
        assert mqtt.retained.count == 2
        mqtt.advance(601)
        mqtt.wait(mqtt.topics.keep_up(mqtt.broker.now()))
        assert mqtt.retained.count == 0


def test_a_delivery_of_a_queue_says_how_much_time_is_left(tmp_path: Path) -> None:
    with running(tmp_path) as mqtt:
        mqtt.declare()
        mqtt.client("p").publish("$queue/q", b"v", 1, properties=EXPIRING)
        set_clock(mqtt, HOUR_S)
        assert left_s(consumer(mqtt, properties=BY_ANSWER).expect(Publish)) == 598
