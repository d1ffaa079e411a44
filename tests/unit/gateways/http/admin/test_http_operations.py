"""What operators do over HTTP: users, keys, rules, configuration, log level, backup, health."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from tests.support.http_client import HttpClient
from tests.support.http_server import RunningServer, running_server

from penstock.core.errors import DiskLow, JournalFailed
from penstock.log.shard import Shard

HOOK = {"url": "https://user:hunter2@hooks.example/T0", "secret": "a secret of some length"}


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningServer]:
    with tempfile.TemporaryDirectory() as directory, running_server(Path(directory), auth={}, webhooks=[HOOK]) as made:
        yield made


@pytest.fixture
def admin(server: RunningServer) -> HttpClient:
    return server.with_roles("admin")


# Users, keys, rules


def test_a_user_is_added_changed_and_removed(server: RunningServer, admin: HttpClient) -> None:
    made = admin.post("users", {"name": "alice", "password": "long enough", "roles": ["producer"]})
    assert (made.status, made.json["has_password"]) == (201, True)
    assert "password" not in made.json
    assert admin.post("users", {"name": "alice"}).code == "user-exists"
    server.mqtt("m", username="alice", password="long enough")
    assert admin.patch("users/alice", {"roles": ["consumer"]}).json["roles"] == ["consumer"]
    assert admin.get("users/alice").json["roles"] == ["consumer"]
    assert "alice" in [user["name"] for user in admin.get("users").json["items"]]
    assert admin.delete("users/alice").status == 204
    assert [answer.code for answer in (admin.get("users/alice"), admin.delete("users/alice"))] == ["no-such-user"] * 2
    assert admin.patch("users/alice", {}).code == "no-such-user"


@pytest.mark.parametrize(
    "user",
    [
        {},
        {"name": ""},
        {"name": "key:x"},
        {"name": "a\0"},
        {"name": "b", "roles": [""]},
        {"name": "b", "namespace": "a/b"},
    ],
)
def test_a_user_that_will_not_do_is_refused(admin: HttpClient, user: dict[str, object]) -> None:
    assert admin.post("users", user).status == 400


def test_a_key_is_made_used_and_revoked(server: RunningServer, admin: HttpClient) -> None:
    made = admin.post("keys", {"roles": ["read-only"], "description": "dashboard", "expires_in": "1h"}).json
    described = made["description"]
    assert described["expires_ms"] - described["created_ms"] in range(3_590_000, 3_610_000)
    assert server.http({"X-API-Key": made["key"]}).get("overview").status == 200
    assert described in admin.get("keys?limit=1000").json["items"]
    assert admin.delete(f"keys/{described['id']}").status == 204
    assert server.http({"X-API-Key": made["key"]}).get("overview").status == 401
    assert admin.delete(f"keys/{described['id']}").status == 404
    for wrong in (
        {"expires_in": 0},
        {"expires_in": "20000d"},
        {"roles": [""]},
        {"namespace": "\0"},
        {"expires_in": "x"},
    ):
        assert admin.post("keys", wrong).status == 400, wrong


def test_may_somebody_do_something(admin: HttpClient) -> None:
    admin.post("users", {"name": "bob"})
    question = {"user": "bob", "action": "publish", "topic": "devices/1"}
    assert admin.post("acl/check", question).json["allowed"] is False
    rule = {"effect": "allow", "action": "publish", "pattern": "devices/#", "user": "bob"}
    assert [admin.post("acl", rule).status for _ in range(2)] == [201, 200]
    assert admin.post("acl/check", question).json["allowed"] is True
    assert len([each for each in admin.get("acl").json["items"] if each["pattern"] == "devices/#"]) == 1
    assert admin.delete("acl", rule).status == 204
    assert admin.delete("acl", rule).code == "not-found"
    assert admin.post("acl/check", {**question, "user": "nobody"}).code == "no-such-user"
    assert admin.post("acl/check", {**question, "action": "dance"}).code == "malformed-body"
    assert admin.post("acl", {"effect": "allow"}).status == 400
    admin.delete("users/bob")


# Configuration


def test_the_configuration_is_shown_without_secrets(admin: HttpClient) -> None:
    shown = admin.get("config")
    assert shown.json["settings"]["listeners.http.port"] == 0
    assert not [word for word in (b"hunter2", b"a secret of some length") if word in shown.body]


def test_a_reload_is_shown_first_and_a_bad_one_changes_nothing(server: RunningServer, admin: HttpClient) -> None:
    server.write(log={"level": "error"}, mqtt={"max_packet_size": "1MiB"})
    changes = {change["path"]: change for change in admin.get("config/diff").json["changes"]}
    assert changes["log.level"]["needs_restart"] is False and changes["mqtt.max_packet_size"]["needs_restart"] is True
    report = admin.post("config/reload").json
    assert [change["path"] for change in report["applied"]] == ["log.level"]
    assert [change["path"] for change in report["waiting"]] == ["mqtt.max_packet_size"]
    server.write(logg={})
    for answer in (admin.get("config/diff"), admin.post("config/reload")):
        assert (answer.status, answer.code) == (400, "invalid-setting")
        assert "did you mean log" in answer.json["detail"]
    assert admin.get("config").json["settings"]["log.level"] == "error"
    server.write()
    assert admin.post("config/reload").status == 200


def test_the_log_level_is_changed_at_once(admin: HttpClient) -> None:
    before = admin.get("log/level").json
    assert admin.put("log/level", {"level": "critical"}).json == {"level": "critical"}
    assert admin.get("log/level").json == {"level": "critical"}
    assert admin.put("log/level", {"level": "loud"}).code == "malformed-body"
    admin.put("log/level", before)


def test_a_backup_is_made_where_it_is_told(admin: HttpClient, tmp_path: Path) -> None:
    report = admin.post("backup", {"target": str(tmp_path / "copy")})
    assert report.status == 201 and report.json["files"] > 0
    assert (tmp_path / "copy").is_dir()
    for target in ("relative", "", "a\0", str(tmp_path / "copy")):
        assert admin.post("backup", {"target": target}).status == 400


# The server as a whole


def test_the_server_at_a_glance(server: RunningServer, admin: HttpClient) -> None:
    server.declare("q")
    admin.publish("q", "a", "b")
    seen = admin.get("overview").json
    assert (seen["is_ready"], seen["queues"], seen["messages"]) == (True, 1, 2)
    assert seen["listeners"]["http"]["port"] == server.address[1]
    assert admin.get("cluster/status").json == {"status": "healthy", "nodes": 1, "mode": "single node"}
    assert len(admin.get("cluster/nodes").json["items"]) == 1


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_uptime_does_not_follow_a_clock_that_is_set(
    server: RunningServer, admin: HttpClient, jump_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_s, wall = admin.get("overview").json["uptime_s"], server.broker.wall
    monkeypatch.setattr(server.broker, "wall", lambda: wall() + jump_ms)
    assert before_s <= admin.get("overview").json["uptime_s"] < before_s + 600


def test_probes_need_no_login_and_tell_strangers_no_more_than_they_need(
    server: RunningServer, admin: HttpClient
) -> None:
    stranger = server.http()
    assert stranger.get("/health").json == {"status": "ok"}
    assert stranger.get("/ready").json == {"status": "ready", "problems": None, "warnings": None}
    assert admin.get("/ready").json == {"status": "ready", "problems": [], "warnings": []}
    assert stranger.get("/version").status == 200


def test_a_server_whose_journal_stopped_is_not_healthy_and_says_why_to_who_has_logged_in(place: Path) -> None:
    with running_server(place / "own", auth={}) as server:
        admin = server.with_roles("admin")
        commit = server.works.broker.shard._engine.commit
        server.call(lambda: commit.fail(JournalFailed("Input/output error")))
        stranger = server.http().get("/health")
        assert (stranger.status, list(stranger.json)) == (503, ["status"])
        assert "the journal stopped" in stranger.json["status"]
        answer = admin.get("/health")
        assert (answer.status, "Input/output error" in answer.json["reason"]) == (503, True)


def test_a_low_disk_leaves_the_server_ready_and_is_named(server: RunningServer, admin: HttpClient) -> None:
    with mock.patch.object(Shard, "disk_low", DiskLow(1, 2)):
        answer = admin.get("/ready")
        assert (answer.status, answer.json["problems"]) == (200, [])
        assert "publishes are refused" in answer.json["warnings"][0]
        assert server.http().get("/ready").json["warnings"] is None


def test_a_server_that_is_not_ready_says_so(place: Path) -> None:
    with running_server(place / "own") as server:
        server.call(server.operations.end)
        answer = server.http().get("/ready")
        assert (answer.status, answer.json["status"]) == (503, "not ready")
        assert server.http().get("/health").status == 200
        assert server.http().get("config").code == "closed"
