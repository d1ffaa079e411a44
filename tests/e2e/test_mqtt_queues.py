"""Queues over MQTT as a user meets them: a server of its own, workers of both versions, restarts in between."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support import servers
from tests.support.live_server import live_server
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import V3, V5, said, user
from tests.support.servers import RECEIVE_MAXIMUM, RunningServer

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Disconnect, PubAck, Publish
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode

WORK = user(consumer_group="workers", ack_mode="puback")
SHARE, DURABLE = "$share/team/plant/#", user(durable="true", ack_mode="puback")


class Server:
    """One that can be stopped and started again over the same data."""

    def __init__(self, running: RunningServer) -> None:
        self.running, self.clients = running, list[MqttClient]()

    def client(self, name: str, version: Version = V5, properties: Properties = NO_PROPERTIES) -> MqttClient:
        client = MqttClient(self.running.address, version, name)
        self.clients.append(client)
        assert client.connect(properties=properties).reason is ReasonCode.SUCCESS
        return client

    def publish(self, *payloads: bytes, topic: str = "$queue/orders") -> MqttClient:
        client = self.client("publisher")
        for payload in payloads:
            client.publish(topic, payload, 1)
        return client

    def worker(self, name: str, filter: str = "$queue/orders", terms: Properties = WORK, qos: int = 1) -> MqttClient:
        client = self.client(name)
        [reason] = client.subscribe(filter, qos=qos, properties=terms)
        assert not reason.is_refusal, reason
        return client


@contextmanager
def serving(directory: Path) -> Iterator[Server]:
    with servers.penstock(directory) as running:
        server = Server(running)
        try:
            yield server
        finally:
            for client in server.clients:
                client.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as made:
        yield made


def create(client: MqttClient, **settings: object) -> None:
    client.publish("$admin/queue/create", json.dumps(settings).encode(), 1)


def test_messages_wait_for_a_durable_share_while_all_members_are_away_and_over_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        first = server.worker("m1", SHARE, DURABLE)
        server.publish(b"1", topic="plant/a")
        first.expect_payloads([b"1"])
        first.disconnect()
        server.publish(b"2", topic="plant/b")
    with serving(tmp_path) as server:
        publisher = server.publish(b"3", topic="plant/a")
        second = server.worker("m2", SHARE, DURABLE)
        messages = [second.expect_message(), second.expect_message()]
        assert {(message.topic, message.payload) for message in messages} == {("plant/b", b"2"), ("plant/a", b"3")}
        assert said(messages[0])["consumer-group"] == "team"
        second.expect_nothing_from(publisher)


def test_shares_are_durable_where_the_configuration_says_so(tmp_path: Path) -> None:
    with live_server(tmp_path, ['mqtt.durable_shares=["plant/#"]', "storage.disk_reserve=0"]) as running:
        member, publisher = MqttClient(running.address, V3, "m"), MqttClient(running.address, V5, "p")
        for client in (member, publisher):
            client.connect()
        assert member.subscribe(SHARE, qos=1) == (ReasonCode.GRANTED_QOS_1,)
        member.disconnect()
        publisher.publish("plant/a", b"while all were away", 1)
        back = MqttClient(running.address, V3, "another")
        back.connect()
        back.subscribe(SHARE, qos=1)
        back.expect_payloads([b"while all were away"])
        for client in (member, back, publisher):
            client.close()


def test_members_of_a_durable_share_get_each_message_once_beside_ordinary_subscribers(server: Server) -> None:
    members = [server.worker(f"m{i}", SHARE, DURABLE) for i in range(2)]
    plain = server.client("plain")
    plain.subscribe("plant/#", qos=1)
    publishers = [server.client(f"p{i}") for i in range(10)]
    sent = sorted(b"%d" % i for i in range(10))
    for publisher, payload in zip(publishers, sent, strict=True):
        publisher.publish("plant/a", payload, 1)
    plain.expect_payloads(sent)
    found: list[bytes] = []
    for member in members:
        found += [packet.payload for packet in member.seen_after(publishers[0]) if isinstance(packet, Publish)]
    assert sorted(found) == sent


def test_a_share_that_was_not_durable_becomes_so_and_gets_nothing_twice(server: Server) -> None:
    member = server.worker("m", SHARE, NO_PROPERTIES)
    member.subscribe(SHARE, qos=1, properties=DURABLE)
    publisher = server.publish(b"1", topic="plant/a")
    member.expect_payloads([b"1"])
    member.expect_nothing_from(publisher)
    assert member.unsubscribe(SHARE) == (ReasonCode.SUCCESS,)


def test_workers_of_both_versions_share_a_queue_and_nothing_settled_comes_again(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server.client("admin"), name="orders", partitions=1)
        sent = [b"%03d" % i for i in range(100)]
        server.publish(*sent[:50])
        old = server.client("workers-1", V3)
        old.subscribe("$queue/orders", qos=1)
        assert [old.expect_message().payload for _ in range(20)] == sent[:20]
        old.disconnect()
    with serving(tmp_path) as server:
        server.publish(*sent[50:])
        new = server.worker("w", qos=2)
        assert [new.expect_message().payload for _ in range(80)] == sent[20:]
        new.disconnect()
    with serving(tmp_path) as server:
        publisher = server.client("p")
        server.worker("w").expect_nothing_from(publisher)


def test_a_message_that_no_worker_can_do_ends_among_the_dead_letters_where_it_is_seen_and_done(server: Server) -> None:
    create(server.client("admin"), name="orders", partitions=1, retry_policy={"max_retries": 1})
    worker = server.worker("w", terms=user(consumer_group="workers"))
    publisher = server.publish(b"bad")
    for count in ("1", "2"):
        message = worker.expect_message()
        assert said(message)["delivery-count"] == count
        properties = user(message_id=said(message)["message-id"], delay="0", reason="no such customer")
        publisher.publish("$queue/orders/$nack", b"", 1, properties=with_group(properties))
    letter = server.worker("l", "$dlq/orders").expect_message()
    assert letter.payload == b"bad"
    assert "no such customer" in said(letter).values()


def with_group(properties: Properties) -> Properties:
    return Properties(user_properties=(*properties.user_properties, ("consumer-group", "workers")))


def test_a_queue_collects_from_the_topics_it_is_bound_to(server: Server) -> None:
    create(server.client("admin"), name="orders", topics=["shop/+/orders", "web/#"])
    publisher = server.client("p")
    for topic in ("shop/eu/orders", "shop/eu/returns", "web/1/2", "$queue/orders/direct"):
        publisher.publish(topic, topic.encode(), 1)
    worker = server.worker("w")
    found = sorted(worker.expect_message().payload for _ in range(3))
    assert found == [b"$queue/orders/direct", b"shop/eu/orders", b"web/1/2"]
    worker.expect_nothing_from(publisher)


def test_stats_of_a_queue_are_published_while_somebody_listens(server: Server) -> None:
    watcher = server.client("watcher")
    watcher.subscribe("$admin/queue/orders/stats", qos=0)
    server.publish(b"1", b"2")
    stats = json.loads(watcher.expect(Publish).payload)
    assert stats["name"] == "orders"


def test_a_server_that_stops_answers_what_it_took_says_why_and_loses_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        watcher, publisher = server.client("watcher"), server.client("p")
        publisher.send(*[Publish("$queue/orders", b"%d" % i, 1, packet_id=i + 1) for i in range(RECEIVE_MAXIMUM)])
        publisher.expect(PubAck)
        os.kill(server.running.pid, signal.SIGTERM)
        *answers, word = publisher.ended()
        assert isinstance(word, Disconnect)
        assert word.reason is ReasonCode.SERVER_SHUTTING_DOWN
        goodbye = watcher.expect_closed()
        assert isinstance(goodbye, Disconnect)
        assert goodbye.reason is ReasonCode.SERVER_SHUTTING_DOWN
        acknowledged = 1 + len([packet for packet in answers if isinstance(packet, PubAck)])
    with serving(tmp_path) as server:
        worker = server.worker("w")
        found = [worker.expect_message().payload for _ in range(acknowledged)]
        assert set(found) >= {b"%d" % i for i in range(acknowledged)}
