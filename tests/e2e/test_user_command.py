"""`penstock user` and `penstock acl` as an operator types them."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from tests.support.access import credentials
from tests.support.cli import COMMAND, ENVIRONMENT, penstock, penstock_json
from tests.support.mqtt_client import MqttClient
from tests.support.scram_client import ScramClient

from penstock.broker.auth.access import Access
from penstock.broker.auth.identity import Identity
from penstock.broker.broker import Broker
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Auth, ConnAck, Connect, PubAck, Publish
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode


def said(*arguments: str | Path, given: bytes = b"", expected: int = 0) -> str:
    ran = penstock(*arguments, given=given, expected=expected)
    return (ran.stdout if expected == 0 else ran.stderr).decode()


def shown(*arguments: str | Path) -> Any:
    """JSON can be anything; what it must be, the test says."""
    return penstock_json(*arguments)


async def logged_in(directory: Path, user: str, password: str) -> Identity:
    async with await Broker.open(directory) as broker:
        access = await Access.open(broker.shard)
        try:
            return await access.login(credentials(user, password.encode()))
        finally:
            access.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """With a user `alice`."""
    directory = tmp_path / "data"
    said("user", "add", "--data", directory, "alice", "--role", "staff", given=b"wonderland\n")
    return directory


def test_a_user_that_was_added_can_log_in(data: Path) -> None:
    assert asyncio.run(logged_in(data, "alice", "wonderland")) == Identity("alice")
    [user] = shown("user", "list", "--data", data)["users"]
    assert (user["name"], user["roles"], user["login"]) == ("alice", ["staff"], ["password", "scram"])
    assert user["namespace"] == "default"
    assert user.keys() == {"name", "namespace", "roles", "login", "has_password", "created_ms", "changed_ms"}
    assert "alice" in said("user", "list", "--data", data)


def test_a_generated_password_is_printed_and_works(data: Path) -> None:
    found = re.search(r"password: (\S+)", said("user", "passwd", "--data", data, "alice", "--generate"))
    assert found is not None
    said("user", "roles", "--data", data, "alice", "admin")
    assert asyncio.run(logged_in(data, "alice", found[1])) == Identity("alice", is_admin=True)


def test_users_come_once_and_go(data: Path) -> None:
    assert "exists already" in said("user", "add", "--data", data, "alice", given=b"x\n", expected=1)
    assert "no password" in said("user", "add", "--data", data, "bob", given=b"\n", expected=1)
    said("user", "add", "--data", data, "pump", "--no-password")
    said("acl", "add", "--data", data, "allow", "publish", "a/#", "--user", "pump")
    assert "would be removed, and 1 rules" in said("user", "rm", "--data", data, "pump", "--dry-run")
    assert "and 1 rules" in said("user", "rm", "--data", data, "pump", "--yes")
    assert "no user 'pump'" in said("user", "rm", "--data", data, "pump", "--yes", expected=3)
    assert "no user 'pump'" in said("user", "passwd", "--data", data, "pump", "--generate", expected=3)
    assert [user["name"] for user in shown("user", "list", "--data", data)["users"]] == ["alice"]
    assert shown("acl", "list", "--data", data)["rules"] == []


def test_rules_are_added_listed_checked_and_removed(data: Path) -> None:
    said("acl", "add", "--data", data, "allow", "publish", "devices/%c/#", "--role", "staff")
    said("acl", "add", "--data", data, "allow", "consume", "orders", "--user", "alice")
    assert "already" in said("acl", "add", "--data", data, "allow", "consume", "$queue/orders", "--user", "alice")
    patterns = [(rule["action"], rule["pattern"]) for rule in shown("acl", "list", "--data", data)["rules"]]
    assert patterns == [("publish", "devices/%c/#"), ("consume", "$queue/orders")]
    assert "role staff" in said("acl", "list", "--data", data)
    check = "acl", "check", "--data", data, "alice"
    assert said(*check, "publish", "devices/pump/up", "--client-id", "pump").startswith("allowed: the rule `allow pub")
    said(*check, "publish", "devices/other/up", "--client-id", "pump", expected=1)
    assert said(*check, "consume", "orders").startswith("allowed: ")
    assert shown("acl", "check", "--data", data, "--user", "alice", "consume", "orders")["allowed"] is True
    said("acl", "rm", "--data", data, "allow", "consume", "orders", "--user", "alice")
    said(*check, "consume", "orders", expected=1)
    assert "no rule" in said("acl", "rm", "--data", data, "allow", "consume", "orders", "--user", "alice", expected=3)
    assert "wildcard" in said("acl", "add", "--data", data, "allow", "publish", "a#", expected=1)


def test_built_in_roles_are_listed_and_checked(data: Path) -> None:
    names = [role["name"] for role in shown("acl", "roles")["roles"]]
    assert names == ["admin", "producer", "consumer", "read-only", "monitor", "impersonator"]
    assert "read-only" in said("acl", "roles")
    said("user", "roles", "--data", data, "alice", "producer")
    assert (
        said("acl", "check", "--data", data, "--user", "alice", "publish", "a/b")
        == "allowed: the role producer allows it\n"
    )
    said("acl", "add", "--data", data, "deny", "publish", "a/#", "--role", "producer")
    denied = penstock("acl", "check", "--data", data, "--user", "alice", "publish", "a/b", expected=1).stdout
    assert denied == b"denied: the rule `deny publish a/# --role producer` denies it\n"
    penstock("acl", "check", "--data", data, "--user", "alice", "publsh", "a/b", expected=2)
    penstock("acl", "check", "--data", data, "publish", "a/b", expected=2)


def test_a_directory_that_a_server_holds_is_not_touched_and_the_server_is_named(data: Path) -> None:
    with server(data, "listeners: {mqtt: {port: 0}, mqtt_ws: null, http: {port: 0}}") as (process, _):
        url = json.loads((data / "server.json").read_text())["url"]
        refused = said("user", "add", "--data", data, "bob", given=b"x\n", expected=1)
        assert str(data) in refused
        assert f"process {process.pid}" in refused
        assert f"--url {url}" in refused
    assert not (data / "server.json").exists()


def test_a_password_is_printed_as_a_configuration_takes_it() -> None:
    assert said("user", "hash", given=b"wonderland\n").startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_no_output_has_the_password_or_its_hash(data: Path) -> None:
    text = said("user", "list", "--data", data) + said("user", "list", "--data", data, "-o", "json")
    assert "argon2" not in text
    assert "wonderland" not in text


# On a server


@contextmanager
def server(data: Path, configuration: str) -> Iterator[tuple[subprocess.Popen[bytes], tuple[str, int]]]:
    """With a configuration that can be written anew; the address of its MQTT listener."""
    place = data.parent
    file, ready, output = place / "penstock.yaml", place / "ready.json", place / "output"
    file.write_text(configuration)
    command = [*COMMAND, "serve", "-c", str(file), "--data", str(data), "--ready-file", str(ready)]
    command += ["--set", "listeners.mqtt.port=0", "--set", "listeners.mqtt_ws=null", "--set", "listeners.http.port=0"]
    with output.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said, env=ENVIRONMENT) as process:
        try:
            deadline = time.monotonic() + 60
            while not ready.exists():
                assert process.poll() is None and time.monotonic() < deadline, output.read_text()
                time.sleep(0.02)
            yield process, ("127.0.0.1", json.loads(ready.read_text())["listeners"]["mqtt"]["port"])
        finally:
            process.terminate()
            process.wait(60)


def client(address: tuple[str, int], username: str | None, password: bytes | None, name: str = "c1") -> MqttClient:
    made = MqttClient(address, Version.V5, name)
    made.connect(username=username, password=password)
    return made


def login_reason(address: tuple[str, int], username: str | None, password: bytes | None) -> ReasonCode:
    with closing(client(address, username, password, "another")) as made:
        return made.connack.reason


def publish_reason(client: MqttClient, topic: str) -> ReasonCode:
    client.send(Publish(topic, b"x", 1, packet_id=client.next_id()))
    return client.expect(PubAck).reason


def test_users_and_rules_hold_on_a_server(data: Path) -> None:
    said("acl", "add", "--data", data, "allow", "all", "a/%u/#", "--role", "staff")
    said("acl", "add", "--data", data, "deny", "publish", "a/+/secret")
    said("acl", "add", "--data", data, "allow", "consume", "orders", "--user", "alice")
    with server(data, "auth: {}\n") as (_, address):
        assert login_reason(address, None, None) is ReasonCode.NOT_AUTHORIZED
        assert login_reason(address, "alice", b"wrong") is ReasonCode.BAD_USER_NAME_OR_PASSWORD
        alice = client(address, "alice", b"wonderland")
        assert alice.connack.reason is ReasonCode.SUCCESS
        wanted = [
            "a/alice/#",
            "a/+/x",
            "#",
            "$SYS/#",
            "$queue/orders",
            "$queue/other",
            "$share/g/a/alice/x",
            "$share/g/b",
        ]
        granted = [reason < 0x80 for reason in alice.subscribe(*wanted)]
        assert granted == [True, False, False, False, True, False, True, False]
        assert publish_reason(alice, "a/alice/secret") is ReasonCode.NOT_AUTHORIZED
        assert publish_reason(alice, "a/bob/x") is ReasonCode.NOT_AUTHORIZED
        assert publish_reason(alice, "$queue/orders") is ReasonCode.NOT_AUTHORIZED
        alice.close()
        held = said("user", "add", "--data", data, "bob", given=b"x\n", expected=1)
        assert "penstock serve" in held or "is held by" in held


def test_a_running_server_is_told_of_users_by_publishing(data: Path) -> None:
    said("user", "add", "root", "--role", "admin", "--data", data, given=b"correct horse\n")
    (secret := data.parent / "secret").write_text("correct horse\n")
    with server(data, "auth: {}\n") as (_, (host, port)):
        login = ("-H", host, "-p", str(port), "-u", "root", "--password-file", secret)
        asked = json.dumps({"name": "bob", "password": "builder", "roles": ["staff"]}).encode()
        said("publish", "$admin/user/add", "--stdin", *login, given=asked)
        with closing(client((host, port), "bob", b"builder")) as bob:
            assert bob.connack.reason is ReasonCode.SUCCESS
        said("publish", "$admin/user/add", "--stdin", *login, given=asked, expected=1)
    assert "builder" not in (data.parent / "output").read_text()


def test_scram_is_a_login_on_a_server(data: Path) -> None:
    with server(data, "auth: {}\n") as (_, address):
        for password, reason in (("wonderland", ReasonCode.SUCCESS), ("wrong", ReasonCode.BAD_USER_NAME_OR_PASSWORD)):
            scram, alice = ScramClient("alice", password), MqttClient(address, Version.V5, "c1")
            first = Properties(authentication_method="SCRAM-SHA-256", authentication_data=scram.first())
            alice.send(Connect(Version.V5, "c1", properties=first))
            challenge = alice.expect(Auth).properties.authentication_data
            final = Properties(authentication_method="SCRAM-SHA-256", authentication_data=scram.final(challenge or b""))
            alice.send(Auth(ReasonCode.CONTINUE_AUTHENTICATION, final))
            answer = alice.expect(ConnAck)
            assert answer.reason is reason
            if answer.reason is ReasonCode.SUCCESS:
                assert scram.is_server(answer.properties.authentication_data or b"")
            alice.close()


def test_a_running_server_takes_users_rules_and_keys_of_tokens_from_its_configuration(data: Path) -> None:
    secret = "0123456789abcdef0123456789abcdef"
    hashed = said("user", "hash", given=b"secret\n").strip()
    token = jwt.encode({"sub": "pump", "exp": int(time.time()) + 600}, secret, "HS256").encode()
    with server(data, "auth: {}\n") as (process, address):
        alice = client(address, "alice", b"wonderland")
        assert publish_reason(alice, "a") is ReasonCode.NOT_AUTHORIZED
        users = {"name": "bob", "password_hash": hashed}
        rules = [{"effect": "allow", "action": "publish", "pattern": "a"}]
        auth = {"users": [users], "acl": rules, "jwt": {"algorithm": "HS256", "secret": secret}}
        (data.parent / "penstock.yaml").write_text(json.dumps({"auth": auth}))
        process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 30
        while publish_reason(alice, "a") is ReasonCode.NOT_AUTHORIZED:
            assert time.monotonic() < deadline
        alice.close()
        assert login_reason(address, "bob", b"secret") is ReasonCode.SUCCESS
        pump = client(address, None, token, "c3")
        assert pump.connack.reason is ReasonCode.SUCCESS
        assert publish_reason(pump, "a").value < 0x80
        pump.close()
        assert login_reason(address, "bob", token) is ReasonCode.BAD_USER_NAME_OR_PASSWORD
