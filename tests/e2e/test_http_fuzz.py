"""The whole API as it describes itself, asked by schemathesis."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import jwt
import pytest
from tests.support.http_client import HttpClient
from tests.support.http_fuzz import ANY_LOGIN, fuzz, fuzz_accepted
from tests.support.http_fuzz_hooks import QUEUE
from tests.support.http_server import running_server
from tests.support.live_server import live_server

_SECRET = "0123456789abcdef0123456789abcdef"


@pytest.mark.faults
def test_a_live_server_keeps_to_its_description_whatever_it_is_asked(tmp_path: Path) -> None:
    with live_server(tmp_path / "server", ["storage.disk_reserve=0", "log.level=warning"]) as server:
        with closing(HttpClient(("127.0.0.1", server.ports["http"]))) as http:
            http.publish(QUEUE, "a", "b")
            http.receive(QUEUE, max=1)
            fuzz(f"http://127.0.0.1:{server.ports['http']}", tmp_path, 45, 1, ANY_LOGIN)
            assert server.is_up and http.get("/ready").status == 200
        assert "Traceback" not in server.said()


@pytest.mark.faults
def test_what_the_description_admits_is_not_refused_for_its_shape(tmp_path: Path) -> None:
    """But for changes of settings, which must go together with those that a queue has: what their schemas admit is
    tested in test_http_shapes.py. Users, whom development mode does not keep, have a test of their own."""
    with live_server(tmp_path / "server", ["storage.disk_reserve=0", "log.level=warning"]) as server:
        with closing(HttpClient(("127.0.0.1", server.ports["http"]))) as http:
            http.publish(QUEUE, "a", "b")
        settled = [
            "--exclude-tag",
            "Users and rules",
            "--exclude-path-regex",
            # What definitions of a RabbitMQ may say, and of a policy, is said in its own words.
            "/(config|import/rabbitmq|policies/[^/]+)$",
        ]
        fuzz_accepted(f"http://127.0.0.1:{server.ports['http']}", tmp_path, 20, 1, [*ANY_LOGIN, *settled])


@pytest.mark.faults
def test_users_keys_and_rules_keep_to_it_too(tmp_path: Path) -> None:
    """As somebody whose login is none of them, and cannot be revoked by accident."""
    claims = {"sub": "fuzzer", "exp": int(time.time()) + 3600, "roles": ["admin"]}
    login = f"Authorization:Bearer {jwt.encode(claims, _SECRET, 'HS256')}"
    tokens = {"algorithm": "HS256", "secret": _SECRET, "roles_claim": "roles"}
    with running_server(tmp_path / "server", auth={"jwt": tokens}) as server:
        server.with_roles("admin").post("users", {"name": "fuzzed"})
        host, port = server.address
        options = ["--include-tag", "Users and rules", "--header", login]
        fuzz(f"http://{host}:{port}", tmp_path, 15, 1, options)
        fuzz_accepted(f"http://{host}:{port}", tmp_path, 15, 1, options)
        assert server.works.http.app.state.counters.failures == 0
