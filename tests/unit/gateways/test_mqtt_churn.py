"""What a connection has made is gone when it is: counted in blocks of Python's memory, however the client left."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from itertools import count

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import BY_ANSWER, RunningGateway

from penstock.codecs.mqtt.packets import Publish, Will
from penstock.codecs.mqtt.properties import Properties

CONNECTS = 200
# A list that grows, a dictionary that is made larger: less than one block for two connects is nothing of each.
MOST_BLOCKS = CONNECTS // 2

names = count()


def bare(mqtt: RunningGateway) -> MqttClient:
    return mqtt.client(f"c{next(names)}")


def with_will(mqtt: RunningGateway) -> MqttClient:
    name = f"c{next(names)}"
    return mqtt.client(name, will=Will("gone", name.encode(), 1))


def with_subscriptions(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.client(f"c{next(names)}")
    client.subscribe(f"of/{client.client_id}/#", "+/all", qos=2)
    client.publish("to/others", b"x", 1)
    return client


def with_an_alias_and_an_open_handshake(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.client(f"c{next(names)}")
    client.publish("t/alias", b"x", 1, properties=Properties(topic_alias=1))
    client.send(Publish("t", b"y", 2, packet_id=7))
    client.receive()
    return client


def of_a_queue(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.client(f"c{next(names)}")
    client.subscribe("$queue/q", qos=1, properties=BY_ANSWER)
    return client


def with_half_a_packet(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.client(f"c{next(names)}")
    client.send_raw(b"\x30\x40half")
    return client


def without_a_connect(mqtt: RunningGateway) -> MqttClient:
    client = mqtt.opened("nobody")
    client.send_raw(b"\x10")
    return client


@pytest.mark.parametrize(
    "come",
    [
        bare, with_will, with_subscriptions, with_an_alias_and_an_open_handshake, of_a_queue, with_half_a_packet,
        without_a_connect,
    ],
)  # fmt: skip
@pytest.mark.parametrize("leave", [MqttClient.cut, MqttClient.close])
def test_a_connection_that_ends_without_disconnect_leaves_nothing(
    mqtt: RunningGateway, come: Callable[[RunningGateway], MqttClient], leave: Callable[[MqttClient], None]
) -> None:
    mqtt.declare()

    def blocks_after(connects: int) -> int:
        for _ in range(connects):
            leave(come(mqtt))
        mqtt.left_with(0)
        mqtt.settle()
        mqtt.wait(mqtt.broker.shard.checkpoint())  # what is to be written to segments is in memory until then
        mqtt._clients.clear()
        gc.collect()
        return sys.getallocatedblocks()

    blocks_after(CONNECTS)
    before = blocks_after(CONNECTS)
    grown = blocks_after(CONNECTS) - before
    assert grown <= MOST_BLOCKS, f"{grown} blocks for {CONNECTS} connects"
