"""Webhooks are told who connected and who left."""

from __future__ import annotations

from tests.support.mqtt_gateway import V3, RunningGateway
from tests.support.receiver import receiving

from penstock.broker.webhooks.events import Event, Hook
from penstock.codecs.mqtt.packets import ConnAck


def test_each_client_is_told_once_when_it_comes_and_once_when_it_goes(mqtt: RunningGateway) -> None:
    with receiving() as receiver:
        mqtt.call(lambda: mqtt.broker.webhooks.apply([Hook(receiver.url)]))
        client = mqtt.client("c", V3)
        client.publish("t", b"1", 1)
        client.disconnect()
        mqtt.left_with(0)
        mqtt.wait(mqtt.broker.webhooks.idle())
        came, left = [request.facts for request in receiver.requests]
    assert (came["event"], left["event"]) == ("connected", "disconnected")
    for facts in (came, left):
        assert (facts["client_id"], facts["namespace"], facts["protocol"]) == ("c", "default", "mqtt-3.1.1")
        assert (facts["listener"], facts["peer"]) == ("mqtt", "127.0.0.1")
    assert isinstance(left["connected_s"], float)


def test_who_was_taken_over_left_and_who_was_never_let_in_did_not_come(mqtt: RunningGateway) -> None:
    with receiving() as receiver:
        mqtt.call(lambda: mqtt.broker.webhooks.apply([Hook(receiver.url, frozenset({Event.DISCONNECTED}))]))
        mqtt.opened("stranger").close()
        mqtt.client("c")
        assert isinstance(mqtt.client("c").connack, ConnAck)
        mqtt.left_with(1)
        mqtt.wait(mqtt.broker.webhooks.idle())
        assert [request.facts["client_id"] for request in receiver.requests] == ["c"]
