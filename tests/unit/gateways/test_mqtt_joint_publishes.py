"""Small publishes of many clients in one frame: with the same outcome as one by one, and none pays for another."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias
from unittest import mock

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import V3, V5, RunningGateway, consumer, said

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Disconnect, PubAck, Publish
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import DiskLow, OutcomeUnknown
from penstock.gateways.mqtt.connection import Connection
from penstock.kernels.turn import PUBLISHES

Ints: TypeAlias = "array[int]"
FULL, DONE = ReasonCode.QUOTA_EXCEEDED, ReasonCode.SUCCESS
PATIENCE_S = 30.0


def watched(mqtt: RunningGateway) -> list[bool]:
    """Of each receive with publishes from now on: whether it goes together with others."""
    joint, found = mqtt.gateway.turns.joint, list[bool]()
    take = joint.take

    def watch(connections: Sequence[Connection], heads: Ints, regions: Ints, contents: Ints) -> Ints:
        taken = take(connections, heads, regions, contents)
        found.extend([bool(mine) for mine, what in zip(taken, contents, strict=True) if what & PUBLISHES])
        return taken

    mqtt.call(lambda: setattr(joint, "take", watch))
    return found


def barred(mqtt: RunningGateway) -> None:
    def refuse(connections: Sequence[Connection], *_: object) -> Ints:
        return array("i", bytes(4 * len(connections)))

    mqtt.call(lambda: setattr(mqtt.gateway.turns.joint, "take", refuse))


@contextmanager
def one_turn(mqtt: RunningGateway) -> Iterator[None]:
    """All that is sent inside is received in one turn of the loop."""
    begun, over = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        over.wait(PATIENCE_S)

    mqtt._loop.call_soon_threadsafe(hold)
    begun.wait(PATIENCE_S)
    yield
    over.set()


def warm(mqtt: RunningGateway, *topics: str) -> None:
    """Partitions are made when they are first needed, which takes the long way."""
    client = mqtt.client("first")
    for topic in topics:
        client.publish(topic, b"first", 1)
    client.close()


def reason(client: MqttClient) -> ReasonCode:
    return client.expect(PubAck).reason


def packet(number: int, topic: str = "$queue/q", payload: bytes | None = None) -> Publish:
    return Publish(topic, b"%d" % number if payload is None else payload, 1, packet_id=number)


def payloads(client: MqttClient, count: int) -> list[bytes]:
    return [client.expect_message().payload for _ in range(count)]


@pytest.mark.parametrize(
    ("topic", "qos", "retain", "properties", "is_joint"),
    [
        ("$queue/q", 1, False, NO_PROPERTIES, True),
        ("$queue/q/a/b", 1, False, NO_PROPERTIES, True),
        ("$queue/q", 0, False, NO_PROPERTIES, True),
        ("t/1", 1, False, NO_PROPERTIES, True),
        ("$queue/q", 2, False, NO_PROPERTIES, False),
        ("t/1", 1, True, NO_PROPERTIES, False),
        ("t/1", 1, False, Properties(user_properties=(("a", "b"),)), True),
        ("t/1", 1, False, Properties(message_expiry_interval_s=60), False),
        ("t/heard", 1, False, NO_PROPERTIES, False),
        ("t/both", 1, False, NO_PROPERTIES, True),
    ],
)
def test_a_message_goes_with_others_only_where_the_same_becomes_of_it(
    mqtt: RunningGateway, topic: str, qos: int, retain: bool, properties: Properties, is_joint: bool
) -> None:
    mqtt.declare("q", topics=["t/#"])
    mqtt.declare("other", topics=["t/both"])
    warm(mqtt, "$queue/q", "$queue/other")
    mqtt.client("listener").subscribe("t/heard", qos=0)
    client, ways = consumer(mqtt), watched(mqtt)
    payloads(client, 1)
    found = []
    for is_barred in (False, True):
        if is_barred:
            barred(mqtt)
        mqtt.client("p").publish(topic, b"x", qos, retain=retain, properties=properties)
        message = client.expect_message()
        told = {name: value for name, value in said(message).items() if name not in ("message-id", "offset")}
        found.append((message.topic, message.payload, message.qos, message.retain, told))
    assert ways == [is_joint]
    assert found[0] == found[1]


def test_what_many_clients_send_in_one_turn_is_one_frame_and_each_is_answered(mqtt: RunningGateway) -> None:
    mqtt.declare("q", partitions=4)
    mqtt.declare("r")
    clients = [mqtt.client(f"p{number}") for number in range(8)]
    topics = [f"$queue/q/{number}" if number % 2 else f"$queue/r/{number}" for number in range(8)]
    for client, topic in zip(clients, topics, strict=True):
        client.publish(topic, b"first", 1)
    mqtt.settle()
    frames, before = mqtt.broker.shard.metrics.frames, mqtt.messages_in("q") + mqtt.messages_in("r")
    with one_turn(mqtt):
        for client, topic in zip(clients, topics, strict=True):
            client.send(packet(1, topic), packet(2, topic), packet(3, topic))
    for client in clients:
        assert [client.expect(PubAck).packet_id for _ in range(3)] == [1, 2, 3]
    assert mqtt.broker.shard.metrics.frames == frames + 1
    assert mqtt.messages_in("q") + mqtt.messages_in("r") == before + 24


def test_messages_of_a_client_keep_their_order_whichever_way_they_go(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client, publisher, ways = consumer(mqtt), mqtt.client("p"), watched(mqtt)
    payloads(client, 1)
    special = Properties(message_expiry_interval_s=60)
    packets = [
        Publish("$queue/q", b"%d" % n, 1, packet_id=n, properties=special if n % 40 == 5 else NO_PROPERTIES)
        for n in range(1, 201)
    ]
    for some in (packets[:4], packets[4:7], packets[7:60], packets[60:]):
        with one_turn(mqtt):
            for one in some:
                publisher.send(one)
        assert [publisher.expect(PubAck).packet_id for _ in some] == [one.packet_id for one in some]
    assert payloads(client, 200) == [b"%d" % n for n in range(1, 201)]
    assert set(ways) == {True, False}


def test_a_queue_takes_no_more_than_its_depth_whoever_comes_in_the_same_turn(mqtt: RunningGateway) -> None:
    mqtt.declare("q", limits={"max_queue_depth": 3})
    mqtt.declare("r")
    warm(mqtt, "$queue/q", "$queue/r")
    payloads(consumer(mqtt), 1)
    mqtt.settle()
    mqtt.until(lambda: not mqtt.broker.queue("q").depth())
    clients, other = [mqtt.client(f"p{number}") for number in range(5)], mqtt.client("other")
    with one_turn(mqtt):
        for client in clients:
            client.send(packet(1))
        other.send(packet(1, "$queue/r"))
    reasons = [reason(client) for client in clients]
    assert (reasons.count(DONE), reasons.count(FULL)) == (3, 2)
    assert mqtt.unsettled() == 3
    assert reason(other) is DONE


def test_a_message_that_is_too_large_is_refused_alone(mqtt: RunningGateway) -> None:
    mqtt.declare("q", limits={"max_message_size": "10B"})
    warm(mqtt, "$queue/q")
    large, small = mqtt.client("large"), mqtt.client("small")
    with one_turn(mqtt):
        small.send(packet(1))
        large.send(packet(1, payload=b"more than ten"))
        small.send(packet(2))
    assert reason(large) is FULL
    assert [reason(small), reason(small)] == [DONE, DONE]


@pytest.mark.parametrize("version", [V3, V5])
def test_what_cannot_be_staged_is_refused_as_the_version_can_say(mqtt: RunningGateway, version: Version) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client = mqtt.client("p", version)
    low = mock.Mock(side_effect=DiskLow(1, 2))
    with mock.patch.multiple(mqtt.broker.shard, stage_now=low, commit=low, commit_spread=low):
        client.send(packet(1))
        if version is V5:
            assert reason(client) is FULL
        else:
            client.expect_closed()
    assert mqtt.messages_in("q") == 1
    assert mqtt.gateway.counters.refused_rows.total() == 1
    mqtt.client("again").publish("$queue/q", b"x", 1)
    assert mqtt.messages_in("q") == 2


def test_where_nobody_knows_the_outcome_nothing_is_answered(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client = mqtt.client("p")
    with mock.patch.object(mqtt.broker.shard, "stage_now", mock.Mock(side_effect=OutcomeUnknown("test"))):
        client.send(packet(1))
        assert isinstance(client.expect_closed(), Disconnect)


def test_what_has_to_wait_for_room_is_committed_then_and_the_rest_of_the_client_stays_behind_it(
    mqtt: RunningGateway,
) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client, publisher, shard = consumer(mqtt), mqtt.client("p"), mqtt.broker.shard
    payloads(client, 1)
    stage, refusals = shard.stage_now, [True]

    def busy_once(*arguments: object) -> Sequence[int] | None:
        return None if refusals and refusals.pop() else stage(*arguments)  # type: ignore[arg-type]  # passed on as they are

    special = Properties(message_expiry_interval_s=60)
    with mock.patch.object(shard, "stage_now", busy_once):
        publisher.send(packet(1))
        publisher.send(Publish("$queue/q", b"2", 1, packet_id=2, properties=special))
        publisher.send(packet(3))
        assert [publisher.expect(PubAck).packet_id for _ in range(3)] == [1, 2, 3]
    assert not refusals
    assert payloads(client, 3) == [b"1", b"2", b"3"]


def test_more_than_a_frame_takes_are_several(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    clients = [mqtt.client(f"p{number}") for number in range(30)]
    with one_turn(mqtt):
        for client in clients:
            client.send(packet(1, payload=bytes(10_000)))
    assert [reason(client) for client in clients] == [DONE] * 30
    assert mqtt.messages_in("q") == 31


def test_a_client_that_leaves_in_the_same_turn_has_published(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client = mqtt.client("p")
    client.send(packet(1), Disconnect())
    mqtt.left_with(0)
    mqtt.settle()
    assert mqtt.messages_in("q") == 2
