"""QoS 2 with a partition or a producer's sequence, which go their own way through the server: whenever it is killed,
each message is in the queue once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.crash.mqtt_rounds import MqttFire
from tests.support.faults import kill
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import user

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import PubComp, Publish, PubRec, PubRel
from penstock.codecs.mqtt.properties import Properties

pytestmark = pytest.mark.faults

QUEUE, PARTITIONS, MESSAGES = "$queue/orders", 3, 60


def directed(kind: str, number: int) -> Properties:
    if kind == "partition":
        return user(partition=number % PARTITIONS)
    return user(producer_id="till", sequence=number)


@pytest.mark.parametrize("kind", ["partition", "producer-id"])
@pytest.mark.parametrize("answered", [0, 25, MESSAGES])
def test_a_directed_message_of_qos_2_is_stored_once_whenever_the_server_is_killed(
    tmp_path: Path, kind: str, answered: int
) -> None:
    """Killed after so many PUBRECs were read; what had none is sent again, what had one is released."""
    fire = MqttFire(tmp_path, seed=1)
    messages = [
        Publish(QUEUE, b"%d" % number, 2, packet_id=number + 1, properties=directed(kind, number))
        for number in range(MESSAGES)
    ]
    process = fire.start(tmp_path / "data")
    try:
        asyncio.run(fire.until_ready(process))
        client = connected(fire)
        client.send(*messages)
        received = {client.expect(PubRec).packet_id for _ in range(answered)}
        kill(process)
        client.close()
        process = fire.start(tmp_path / "data")
        asyncio.run(fire.until_ready(process))
        finish(connected(fire), messages, received)
        assert Counter(stored(fire)) == Counter(message.payload for message in messages)
    finally:
        kill(process)


def connected(fire: MqttFire) -> MqttClient:
    client = MqttClient(fire.load.address, Version.V5, "till")
    client.connect(clean=False, properties=Properties(session_expiry_interval_s=3600))
    return client


def finish(client: MqttClient, messages: list[Publish], received: set[int]) -> None:
    """As a client must that comes back to its session [MQTT-4.4.0-1]."""
    for message in messages:
        if message.packet_id not in received:
            client.send(again(message))
            received_now = client.expect(PubRec)
            assert (received_now.packet_id, received_now.reason.is_refusal) == (message.packet_id, False)
    for message in messages:
        client.send(PubRel(message.packet_id))
        complete = client.expect(PubComp)
        assert (complete.packet_id, complete.reason.is_refusal) == (message.packet_id, False)
    client.close()


def again(message: Publish) -> Publish:
    return Publish(QUEUE, message.payload, 2, dup=True, packet_id=message.packet_id, properties=message.properties)


def stored(fire: MqttFire) -> list[bytes]:
    """All that the queue has, up to a last one in each partition."""
    client = MqttClient(fire.load.address, Version.V5, "reader")
    client.connect()
    for partition in range(PARTITIONS):
        client.publish(QUEUE, b"end", 1, properties=user(partition=partition))
    client.subscribe(QUEUE, qos=1, properties=user(consumer_group="g", start="earliest", ack_mode="puback"))
    found: list[bytes] = []
    while found.count(b"end") < PARTITIONS:
        message = client.expect(Publish)
        client.acknowledge(message)
        found.append(message.payload)
    client.close()
    return [payload for payload in found if payload != b"end"]
