"""Who may do what over MQTT, while rules change, sessions last and namespaces stand side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import LONG_S, V3, RunningGateway, Setup, running, said, user

from penstock.broker.auth.options import AuthOptions
from penstock.broker.auth.rules import Action, Effect, Rule, rule
from penstock.codecs.mqtt.packets import Disconnect, PubAck, Publish, Will
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

DENIED = ReasonCode.NOT_AUTHORIZED
PASSWORD = b"correct horse"


@pytest.fixture
def mqtt(tmp_path: Path) -> Iterator[RunningGateway]:
    with running(tmp_path, Setup(auth=AuthOptions())) as made:
        made.wait(made.access.users.add("root", PASSWORD, roles=["admin"]))
        made.wait(made.access.users.add("ann", PASSWORD))
        made.wait(made.access.users.add("bob", PASSWORD))
        yield made


def rules(*texts: str) -> list[Rule]:
    """`ann allow publish a/#` and the like."""
    return [
        rule(Effect(effect), Action(action), pattern, user=name)
        for name, effect, action, pattern in map(str.split, texts)
    ]


def allow(mqtt: RunningGateway, *texts: str) -> None:
    for each in rules(*texts):
        mqtt.wait(mqtt.access.users.add_rule(each))


def forbid(mqtt: RunningGateway, *texts: str) -> None:
    for each in rules(*texts):
        mqtt.wait(mqtt.access.users.remove_rule(each))


def came(mqtt: RunningGateway, name: str, client_id: str | None = None, *, lasting: bool = False) -> MqttClient:
    properties = Properties(session_expiry_interval_s=LONG_S) if lasting else Properties()
    return mqtt.client(client_id or name, clean=not lasting, properties=properties, username=name, password=PASSWORD)


def reason_of(client: MqttClient, packet: Publish) -> ReasonCode:
    client.send(packet)
    return client.expect(PubAck).reason


def test_nobody_comes_in_without_a_login_or_with_a_wrong_one(mqtt: RunningGateway) -> None:
    for username, password in ((None, None), ("ann", b"wrong"), ("nobody", PASSWORD)):
        client = mqtt.opened("c")
        assert client.connect(username=username, password=password).reason.is_refusal
        client.expect_closed()
    assert len(mqtt.gateway.registry) == 0


def test_what_no_rule_allows_is_refused_each_in_its_own_way(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    client = came(mqtt, "ann")
    assert client.subscribe("t", "$share/g/t", "$queue/q", "$dlq/q", "$SYS/#", "$queue/new", qos=1) == (DENIED,) * 6
    for topic in ("t", "$queue/q", "$queue/new", "$queue/q/$ack", "$admin/queue/create"):
        assert reason_of(client, Publish(topic, b"{}", 1, packet_id=1, properties=user(message_id="q@1:0:0"))) is DENIED
    assert [queue.name for queue in mqtt.broker.queues] == ["q"]
    old = mqtt.client("old", V3, username="ann", password=PASSWORD)
    old.send(Publish("t", b"x", 1, packet_id=1))
    assert old.expect_closed() is None


def test_of_one_receive_the_allowed_messages_are_taken_and_the_others_refused(mqtt: RunningGateway) -> None:
    allow(mqtt, "ann allow publish a/#", "bob allow subscribe #")
    watcher, client = came(mqtt, "bob"), came(mqtt, "ann")
    watcher.subscribe("#", qos=1)
    client.send(*[Publish(("a/1", "b/1")[i % 2], b"%d" % i, 1, packet_id=i + 1) for i in range(6)])
    answers = [client.expect(PubAck) for _ in range(6)]
    assert [answer.packet_id for answer in answers] == [1, 2, 3, 4, 5, 6]
    assert [answer.reason for answer in answers] == [ReasonCode.SUCCESS, DENIED] * 3
    watcher.expect_payloads([b"0", b"2", b"4"])


def test_retained_messages_are_given_only_to_those_who_may_have_them(mqtt: RunningGateway) -> None:
    root = came(mqtt, "root")
    for topic in ("a/open", "a/secret"):
        root.publish(topic, topic.encode(), 1, retain=True)
    allow(mqtt, "ann allow subscribe a/open", "bob allow subscribe a/#")
    ann, bob = came(mqtt, "ann"), came(mqtt, "bob")
    assert ann.subscribe("a/#", qos=1) == (DENIED,)
    ann.subscribe("a/open", qos=1)
    ann.expect_payloads([b"a/open"])
    bob.subscribe("a/#", qos=1)
    assert sorted(bob.expect_message().payload for _ in range(2)) == [b"a/open", b"a/secret"]


def test_a_subscription_ends_when_its_rule_does(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    allow(mqtt, "ann allow subscribe t", "ann allow consume $queue/q")
    root, ann = came(mqtt, "root"), came(mqtt, "ann")
    ann.subscribe("t", "$queue/q", qos=1, properties=user(ack_mode="puback"))
    root.publish("t", b"1", 1)
    root.publish("$queue/q", b"2", 1)
    assert sorted(ann.expect_message().payload for _ in range(2)) == [b"1", b"2"]
    forbid(mqtt, "ann allow subscribe t", "ann allow consume $queue/q")
    [connection] = [each for each in mqtt.gateway.connections if each.name == "ann"]
    mqtt.until(lambda: not connection.session.subscriptions and not connection.deliveries.consumers)
    root.publish("t", b"3", 1)
    root.publish("$queue/q", b"4", 1)
    assert ann.came() == []


def test_a_session_that_was_away_when_its_rule_ended_gets_nothing_more(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    allow(mqtt, "ann allow subscribe t", "ann allow subscribe u", "ann allow consume $queue/q")
    root, ann = came(mqtt, "root"), came(mqtt, "ann", lasting=True)
    ann.subscribe("t", "u", "$queue/q", qos=1, properties=user(ack_mode="puback"))
    ann.disconnect()
    mqtt.left_with(1)
    forbid(mqtt, "ann allow subscribe t", "ann allow consume $queue/q")
    root.publish("t", b"0", 1)
    ann = came(mqtt, "ann", lasting=True)
    assert ann.connack.session_present
    root.publish("t", b"1", 1)
    root.publish("$queue/q", b"2", 1)
    root.publish("u", b"3", 1)
    ann.expect_payloads([b"3"])
    assert ann.came() == []


def test_a_client_id_of_another_user_cannot_be_taken_over(mqtt: RunningGateway) -> None:
    mine = came(mqtt, "ann", "device-1", lasting=True)
    thief = mqtt.opened("device-1")
    assert thief.connect(username="bob", password=PASSWORD).reason is ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
    mine.ping()
    mine.disconnect()
    thief = mqtt.opened("device-1")
    assert thief.connect(username="bob", password=PASSWORD).reason.is_refusal
    came(mqtt, "root", "device-1")


def test_names_in_rules_stand_for_the_client_and_the_user(mqtt: RunningGateway) -> None:
    allow(mqtt, "ann allow publish %u/%c/up", "ann allow subscribe %u/%c/down")
    client = came(mqtt, "ann", "dev7")
    assert reason_of(client, Publish("ann/dev7/up", b"x", 1, packet_id=1)) is ReasonCode.SUCCESS
    assert reason_of(client, Publish("ann/dev8/up", b"x", 1, packet_id=2)) is DENIED
    assert client.subscribe("ann/dev7/down", "ann/+/down", qos=1) == (ReasonCode.GRANTED_QOS_1, DENIED)


def test_a_will_that_may_not_be_published_lets_nobody_in(mqtt: RunningGateway) -> None:
    client = mqtt.opened("ann")
    answer = client.connect(username="ann", password=PASSWORD, will=Will("t", b"x"))
    assert answer.reason is DENIED


def test_whoever_may_consume_a_queue_may_settle_it_and_nothing_else(mqtt: RunningGateway) -> None:
    for name in ("q", "other"):
        mqtt.declare(name)
    allow(mqtt, "ann allow consume $queue/q")
    root, ann = came(mqtt, "root"), came(mqtt, "ann")
    assert ann.subscribe("$queue/q/eu/#", "$queue/other", qos=1) == (ReasonCode.GRANTED_QOS_1, DENIED)
    root.publish("$queue/q/eu/1", b"x", 1)
    message_id = said(ann.expect_message())["message-id"]
    elsewhere = Publish("$queue/other/$ack", b"", 1, packet_id=1, properties=user(partition=0, offset=0))
    assert reason_of(ann, elsewhere) is DENIED
    mine = Publish("$queue/q/$ack", b"", 1, packet_id=2, properties=user(message_id=message_id))
    assert reason_of(ann, mine) is ReasonCode.SUCCESS


def test_namespaces_see_nothing_of_each_other(mqtt: RunningGateway) -> None:
    mqtt.wait(mqtt.access.users.add("eve", PASSWORD, namespace="other"))
    mqtt.wait(mqtt.access.users.add_rule(rule(Effect.ALLOW, Action.ALL, "#", user="eve", namespace="other")))
    mqtt.wait(mqtt.access.users.add_rule(rule(Effect.ALLOW, Action.ALL, "$admin/#", user="eve", namespace="other")))
    mqtt.declare("q", topics=["t"])
    root, eve = came(mqtt, "root", "same"), came(mqtt, "eve", "same")
    root.subscribe("t", qos=1)
    eve.subscribe("t", qos=1)
    eve.publish("t", b"theirs")
    root.publish("t", b"ours", retain=True)
    root.expect_payloads([b"ours"])
    eve.expect_payloads([b"theirs"])
    mqtt.until(lambda: mqtt.messages_in("q") == 1)
    made = json.dumps({"name": "mine"}).encode()
    assert reason_of(eve, Publish("$admin/queue/create", made, 1, packet_id=8)) is ReasonCode.SUCCESS
    assert [queue.namespace for queue in mqtt.broker.queues if queue.name == "mine"] == ["other"]
    elsewhere = json.dumps({"name": "stolen", "namespace": "default"}).encode()
    assert reason_of(eve, Publish("$admin/queue/create", elsewhere, 1, packet_id=9)).is_refusal
    changed = Publish("$admin/queue/q/config", b'{"overflow": "drop-oldest"}', 1, packet_id=10)
    assert reason_of(eve, changed).is_refusal
    eve.subscribe("$admin/queue/+/stats", qos=0)
    mqtt.wait(mqtt.gateway.system.publish())
    told = [packet.topic for packet in eve.came() if isinstance(packet, Publish)]
    assert told == ["$admin/queue/mine/stats"]


@pytest.mark.parametrize("qos", [0, 1])
def test_a_namespace_begins_with_whoever_publishes_or_dies_in_it_first(mqtt: RunningGateway, qos: int) -> None:
    for name in ("eve", "fay"):
        mqtt.wait(mqtt.access.users.add(name, PASSWORD, namespace=name))
        mqtt.wait(mqtt.access.users.add_rule(rule(Effect.ALLOW, Action.ALL, "#", user=name, namespace=name)))
    eve = came(mqtt, "eve")
    eve.publish("t", b"x", qos, retain=True)
    eve.ping()
    eve.subscribe("t", qos=1)
    eve.expect_payloads([b"x"])
    will = Will("w", b"gone", 1, retain=True)
    mqtt.client("fay", will=will, username="fay", password=PASSWORD).cut()
    mqtt.left_with(1)
    fay = came(mqtt, "fay")
    fay.subscribe("#", qos=1)
    fay.expect_payloads([b"gone"])


def test_a_user_that_is_removed_may_do_nothing_more(mqtt: RunningGateway) -> None:
    allow(mqtt, "ann allow publish #", "ann allow subscribe #")
    ann = came(mqtt, "ann")
    ann.subscribe("t", qos=1)
    mqtt.wait(mqtt.access.users.remove("ann"))
    ann.send(Publish("t", b"x", 1, packet_id=1))
    packet = ann.receive()
    assert isinstance(packet, Disconnect) or (isinstance(packet, PubAck) and packet.reason is DENIED)
