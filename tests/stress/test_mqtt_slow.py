"""Subscribers that stop reading: bounded memory, nobody else waits, and they go on when they read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.live_server import LiveServer, live_server
from tests.support.mqtt_client import MqttClient, messages_of

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import PubAck, Publish
from penstock.codecs.mqtt.properties import Properties

pytestmark = pytest.mark.faults

OUTBOUND_BYTES, QUEUED_BYTES, QUEUED = 1 << 20, 2 << 20, 500
PAYLOAD = bytes(10_000)
# 60 MB for one who does not read: far more than may lie in memory, and than sockets hold.
STORM = 6_000
# The interpreter's own ups and downs, and what sockets and the allocator hold.
SLACK_BYTES = 24 << 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    settings = [
        f"mqtt.max_outbound_size={OUTBOUND_BYTES}",
        f"mqtt.max_queued_size={QUEUED_BYTES}",
        f"mqtt.max_queued_messages={QUEUED}",
        "mqtt.sys_interval=1s",
        "storage.disk_reserve=0",
    ]
    with live_server(tmp_path / "server", settings) as running:
        yield running


def connected(server: LiveServer, name: str, version: Version = Version.V5, *, expiry_s: int = 0) -> MqttClient:
    client = MqttClient(server.address, version, name)
    properties = Properties(session_expiry_interval_s=expiry_s) if expiry_s else Properties()
    assert not client.connect(clean=not expiry_s, properties=properties).reason.is_refusal
    return client


def dropped(server: LiveServer) -> int:
    client = connected(server, "told")
    client.subscribe("$SYS/broker/messages/dropped")
    told = client.expect_message()
    client.close()
    return int(told.payload)


def storm(server: LiveServer, topic: str, qos: int, beside: MqttClient) -> int:
    """Publish to the slow one, and look after each part of it that another client gets what it should: how many bytes
    the server has grown at most."""
    publisher, before, grown = connected(server, f"storm-{qos}"), server.resident_bytes, 0
    for number in range(STORM):
        publisher.send(Publish(topic, b"%d " % number + PAYLOAD, qos, packet_id=number + 1 if qos else 0))
        if number % 500 == 499:
            publisher.publish("beside/it", b"%d" % number, 0)
            while qos and publisher.expect(PubAck).packet_id != number + 1:
                pass
            assert beside.expect_message().payload == b"%d" % number
            grown = max(grown, server.resident_bytes - before)
    publisher.ping()
    publisher.close()
    return grown


def test_qos_0_for_one_who_does_not_read_is_dropped_and_counted(server: LiveServer) -> None:
    slow, beside = connected(server, "slow"), connected(server, "beside")
    slow.subscribe("to/slow", qos=0)
    beside.subscribe("beside/it")
    assert storm(server, "to/slow", 0, beside) < OUTBOUND_BYTES + SLACK_BYTES
    numbers = [int(message.payload.split(b" ")[0]) for message in messages_of(slow.came())]
    assert numbers == sorted(set(numbers))
    assert 0 < len(numbers) < STORM
    assert dropped(server) == STORM - len(numbers)
    beside.publish("to/slow", b"1000000 reads again")
    slow.expect_payloads([b"1000000 reads again"])
    slow.close()
    beside.close()


@pytest.mark.parametrize("expiry_s", [0, 3600], ids=["clean", "persistent"])
def test_qos_1_for_one_who_does_not_read_is_bounded_and_goes_on(server: LiveServer, expiry_s: int) -> None:
    slow, beside = connected(server, "slow", expiry_s=expiry_s), connected(server, "beside")
    slow.subscribe("to/slow", qos=1)
    beside.subscribe("beside/it")
    assert storm(server, "to/slow", 1, beside) < OUTBOUND_BYTES + QUEUED_BYTES + SLACK_BYTES
    numbers = [int(message.payload.split(b" ")[0]) for message in read_all(slow, beside, "to/slow")]
    assert numbers == sorted(set(numbers))
    assert 0 < len(numbers) < STORM
    assert dropped(server) == STORM - len(numbers)
    slow.close()
    beside.close()


def read_all(slow: MqttClient, other: MqttClient, topic: str) -> list[Publish]:
    """Acknowledged until nothing comes any more, then one that comes after all of them."""
    found: list[Publish] = []
    while came := messages_of(slow.came()):
        slow.send(*[PubAck(message.packet_id) for message in came])
        found += came
    other.publish(topic, b"again", 1)
    while (message := slow.expect_message()).payload != b"again":
        found.append(message)
    return found
