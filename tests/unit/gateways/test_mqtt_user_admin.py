"""Users and rules of a running server, changed by publishing to it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import RunningGateway, Setup, running

from penstock.broker.auth.options import AuthOptions
from penstock.broker.auth.rules import Action, Effect, rule
from penstock.codecs.mqtt.packets import PubAck, Publish
from penstock.codecs.mqtt.reasons import ReasonCode

PASSWORD = b"correct horse"
SUCCESS, DENIED = ReasonCode.SUCCESS, ReasonCode.NOT_AUTHORIZED
UNREADABLE, BAD_NAME = ReasonCode.PAYLOAD_FORMAT_INVALID, ReasonCode.TOPIC_NAME_INVALID


@pytest.fixture
def mqtt(tmp_path: Path) -> Iterator[RunningGateway]:
    with running(tmp_path, Setup(auth=AuthOptions())) as made:
        made.wait(made.access.users.add("root", PASSWORD, roles=["admin"]))
        yield made


def came(mqtt: RunningGateway, name: str, password: bytes = PASSWORD) -> MqttClient:
    return mqtt.client(name, username=name, password=password)


def ask(client: MqttClient, topic: str, **said: object) -> ReasonCode:
    client.send(Publish(f"$admin/{topic}", json.dumps(said).encode(), 1, packet_id=client.next_id()))
    return client.expect(PubAck).reason


def may_come_in(mqtt: RunningGateway, name: str, password: bytes) -> bool:
    client = mqtt.opened(name)
    return not client.connect(username=name, password=password).reason.is_refusal


def test_a_user_that_was_added_comes_in_and_does_what_rules_say(mqtt: RunningGateway) -> None:
    root = came(mqtt, "root")
    assert ask(root, "user/add", name="alice", password="wonderland", roles=["staff"]) is SUCCESS
    alice = came(mqtt, "alice", b"wonderland")
    assert alice.subscribe("users/alice/#", qos=1) == (DENIED,)
    assert ask(root, "acl/add", effect="allow", action="subscribe", pattern="users/%u/#", role="staff") is SUCCESS
    assert alice.subscribe("users/alice/#", qos=1) == (ReasonCode.GRANTED_QOS_1,)
    assert ask(root, "acl/rm", effect="allow", action="subscribe", pattern="users/%u/#", role="staff") is SUCCESS
    assert alice.subscribe("users/alice/x", qos=1) == (DENIED,)


def test_what_was_changed_is_there_after_a_restart(mqtt: RunningGateway) -> None:
    assert ask(came(mqtt, "root"), "user/add", name="alice", password="wonderland") is SUCCESS
    mqtt.restart()
    assert may_come_in(mqtt, "alice", b"wonderland")


def test_a_new_password_counts_and_the_old_one_does_not(mqtt: RunningGateway) -> None:
    root = came(mqtt, "root")
    ask(root, "user/add", name="alice", password="old")
    assert ask(root, "user/passwd", name="alice", password="new") is SUCCESS
    assert may_come_in(mqtt, "alice", b"new")
    assert not may_come_in(mqtt, "alice", b"old")


def test_a_user_that_was_removed_may_do_nothing_more(mqtt: RunningGateway) -> None:
    root = came(mqtt, "root")
    ask(root, "user/add", name="alice", password="wonderland", roles=["admin"])
    alice = came(mqtt, "alice", b"wonderland")
    assert ask(root, "user/rm", name="alice") is SUCCESS
    assert ask(alice, "user/add", name="bob", password="x") is DENIED
    assert not may_come_in(mqtt, "alice", b"wonderland")


def test_who_was_an_admin_when_it_came_and_is_none_now_changes_nothing(mqtt: RunningGateway) -> None:
    root = came(mqtt, "root")
    ask(root, "user/add", name="alice", password="wonderland", roles=["admin"])
    ask(root, "acl/add", effect="allow", action="admin", pattern="$admin/#", user="alice")
    alice = came(mqtt, "alice", b"wonderland")
    assert ask(root, "user/roles", name="alice", roles=[]) is SUCCESS
    assert ask(alice, "user/roles", name="alice", roles=["admin"]) is DENIED


def test_who_may_administer_queues_makes_no_admins(mqtt: RunningGateway) -> None:
    mqtt.wait(mqtt.access.users.add("ops", PASSWORD))
    mqtt.wait(mqtt.access.users.add_rule(rule(Effect.ALLOW, Action.ADMIN, "$admin/#", user="ops")))
    ops = came(mqtt, "ops")
    assert ask(ops, "queue/create", name="q") is SUCCESS
    assert ask(ops, "user/add", name="mine", password="x", roles=["admin"]) is DENIED
    assert ask(ops, "acl/add", effect="allow", action="all", pattern="#", user="ops") is DENIED


@pytest.mark.parametrize(
    ("topic", "said", "reason"),
    [
        ("user/add", {"name": "root", "password": "x"}, BAD_NAME),
        ("user/rm", {"name": "nobody"}, BAD_NAME),
        ("user/add", {"name": "a", "pasword": "secret-word"}, UNREADABLE),
        ("user/add", {"name": "a", "password": 5}, UNREADABLE),
        ("user/add", {"name": "a", "password": ""}, UNREADABLE),
        ("user/passwd", {"name": "root"}, UNREADABLE),
        ("user/add", {"name": " ", "password": "secret-word"}, UNREADABLE),
        ("user/rename", {"name": "root"}, UNREADABLE),
        ("acl/add", {"effect": "maybe", "action": "all", "pattern": "#"}, UNREADABLE),
        ("acl/rm", {"effect": "allow", "action": "all", "pattern": "#"}, UNREADABLE),
    ],
)
def test_what_will_not_do_is_refused_and_no_password_is_in_the_log(
    mqtt: RunningGateway, caplog: pytest.LogCaptureFixture, topic: str, said: dict[str, object], reason: ReasonCode
) -> None:
    caplog.set_level(logging.DEBUG, "penstock")
    root = came(mqtt, "root")
    assert ask(root, topic, **said) is reason
    assert "admin request refused" in caplog.text
    assert "secret-word" not in caplog.text
    root.ping()


def test_requests_reach_nobody_else_and_passwords_no_log(
    mqtt: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "penstock")
    root, watcher = came(mqtt, "root"), mqtt.client("watcher", username="root", password=PASSWORD)
    watcher.subscribe("$admin/#", qos=1)
    assert ask(root, "user/add", name="alice", password="wonderland") is SUCCESS
    watcher.expect_nothing_from(root)
    assert "users or rules changed by=root request=$admin/user/add about=alice" in caplog.text
    assert "wonderland" not in caplog.text


def test_in_development_mode_there_are_no_users(tmp_path: Path) -> None:
    with running(tmp_path) as mqtt:
        assert ask(mqtt.client("c"), "user/add", name="alice", password="x") is DENIED


def test_an_admin_of_a_namespace_changes_that_one_only(mqtt: RunningGateway) -> None:
    mqtt.wait(mqtt.access.users.add("tina", PASSWORD, ["admin"], "tenant"))
    tina = came(mqtt, "tina")
    assert ask(tina, "user/add", name="theirs", password="wonderland") is SUCCESS
    made = mqtt.access.users.find("theirs")
    assert made is not None and made.namespace == "tenant"
    assert ask(tina, "user/add", name="eve", password="wonderland", namespace="default") is DENIED
    for request, more in (("user/rm", {}), ("user/roles", {"roles": []}), ("user/passwd", {"password": "x"})):
        assert ask(tina, request, name="root", **more) is BAD_NAME
    rule_said = {"effect": "allow", "action": "publish", "pattern": "a"}
    assert ask(tina, "acl/add", **rule_said) is SUCCESS
    assert [found.namespace for found in mqtt.access.users.rules] == ["tenant"]
    assert ask(tina, "acl/add", **rule_said, namespace="*") is DENIED
    assert ask(tina, "queue/create", name="q", namespace="default") is DENIED
    assert ask(tina, "queue/create", name="q") is SUCCESS
    assert [queue.namespace for queue in mqtt.broker.queues] == ["tenant"]
