"""Clients as operators see them, and what they can do to them."""

from __future__ import annotations

import pytest
from tests.support.mqtt_gateway import EXPLICIT, LONG_S, V3, RunningGateway, consumer, publish, user

from penstock.broker.clients import SubscriptionDescription
from penstock.codecs.mqtt.packets import Disconnect, Will
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode


def test_a_client_that_is_connected_is_described(mqtt: RunningGateway) -> None:
    client = mqtt.client("c", keep_alive_s=30, properties=Properties(session_expiry_interval_s=LONG_S))
    client.subscribe("t", "u", qos=1)
    client.publish("other", b"1")
    publish(mqtt, b"1", b"2", b"3", topic="t")
    assert len(client.came()) == 3
    found = mqtt.call(lambda: mqtt.gateway.directory.client("default", "c"))
    assert found is not None
    assert (found.protocol, found.listener, found.peer, found.is_connected) == ("mqtt-5", "mqtt", "127.0.0.1", True)
    assert (found.keep_alive_s, found.session_expiry_s, found.subscriptions) == (30, LONG_S, 2)
    assert (found.received, found.sent, found.in_flight, found.queued) == (1, 3, 3, 3)
    now = mqtt.call(mqtt.broker.now)
    assert found.connected_ms is not None and now - 60_000 < found.connected_ms <= now
    assert mqtt.call(lambda: mqtt.gateway.directory.client("elsewhere", "c")) is None


def test_a_session_whose_client_is_away_is_described(mqtt: RunningGateway) -> None:
    away = mqtt.lasting("away", V3)
    away.subscribe("t", qos=1)
    away.close()
    mqtt.left_with(0)
    mqtt.client("p").publish("t", b"1", 1)
    [found] = [each for each in mqtt.call(lambda: list(mqtt.gateway.directory.clients())) if each.client_id == "away"]
    assert (found.is_connected, found.protocol, found.peer, found.connected_ms) == (False, None, None, None)
    assert (found.subscriptions, found.queued) == (1, 1)


def test_subscriptions_to_topics_shares_and_queues_are_listed(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    client = consumer(mqtt, "c", EXPLICIT)
    client.subscribe("t/#", qos=2)
    client.subscribe("$share/g2/u")
    found = mqtt.call(lambda: list(mqtt.gateway.directory.subscriptions()))
    assert found == [
        SubscriptionDescription(client_id="c", namespace="default", filter="t/#", qos=2),
        SubscriptionDescription(client_id="c", namespace="default", filter="$share/g2/u", qos=0, share="g2"),
        SubscriptionDescription(client_id="c", namespace="default", filter="$queue/q", qos=1, queue="q", group="g"),
    ]


@pytest.mark.parametrize(("said", "group"), [(user(consumer_group="g"), "g"), (user(), "away")])
def test_a_queue_that_a_client_will_consume_again_is_listed(mqtt: RunningGateway, said: Properties, group: str) -> None:
    mqtt.declare("q")
    away = mqtt.lasting("away")
    away.subscribe("$queue/q", qos=1, properties=said)
    away.disconnect()
    mqtt.left_with(0)
    [found] = mqtt.call(lambda: list(mqtt.gateway.directory.subscriptions()))
    assert (found.filter, found.queue, found.group, found.qos) == ("$queue/q", "q", group, 1)


def test_an_operator_disconnects_a_client_which_is_told_why_and_keeps_its_session(mqtt: RunningGateway) -> None:
    client = mqtt.lasting("c")
    client.subscribe("t", qos=1)
    assert mqtt.wait(mqtt.gateway.directory.disconnect("default", "c", "too\n loud"))
    told = client.expect(Disconnect)
    assert (told.reason, told.properties.reason_string) == (ReasonCode.ADMINISTRATIVE_ACTION, "too loud")
    client.expect_closed()
    found = mqtt.call(lambda: mqtt.gateway.directory.client("default", "c"))
    assert found is not None and not found.is_connected and found.subscriptions == 1
    assert not mqtt.wait(mqtt.gateway.directory.disconnect("default", "c", ""))


def test_the_will_of_a_client_that_was_put_out_is_published(mqtt: RunningGateway) -> None:
    watcher = mqtt.client("w")
    watcher.subscribe("wills/#")
    mqtt.client("c", V3, will=Will("wills/c", b"gone"))
    assert mqtt.wait(mqtt.gateway.directory.disconnect("default", "c", "bye"))
    watcher.expect_payloads([b"gone"])


def test_a_reason_that_a_client_has_no_room_for_is_left_out(mqtt: RunningGateway) -> None:
    client = mqtt.client("c", properties=Properties(maximum_packet_bytes=40))
    mqtt.wait(mqtt.gateway.directory.disconnect("default", "c", "x" * 1000))
    assert client.expect(Disconnect).properties.reason_string is None


def test_nobody_is_disconnected_who_is_not_there(mqtt: RunningGateway) -> None:
    mqtt.client("c")
    assert not mqtt.wait(mqtt.gateway.directory.disconnect("default", "other", ""))
    assert not mqtt.wait(mqtt.gateway.directory.disconnect("elsewhere", "c", ""))
    assert mqtt.call(lambda: mqtt.gateway.connection_count) == 1
