"""Who may browse, follow and consume over HTTP."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http_gateway import HttpSetup, RunningHttp, running_http
from websockets.exceptions import ConnectionClosed, InvalidStatus

from penstock.broker.auth.options import AuthOptions
from penstock.broker.auth.rules import Action, Effect, Rule


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[RunningHttp]:
    """Users named for their roles, who have their names as passwords."""
    with running_http(tmp_path, HttpSetup(auth=AuthOptions(), heartbeat_s=0.02)) as http:
        for role in ("producer", "consumer", "read-only", "nobody"):
            roles = [] if role == "nobody" else [role]
            http.wait(http.access.users.add(role, f"password-{role}".encode(), roles=roles))
        http.declare()
        http.put("q", b"a")
        yield http


def login(role: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{role}:password-{role}".encode()).decode()}


@pytest.mark.parametrize(
    ("role", "reads", "consumes"),
    [("producer", 403, 403), ("consumer", 200, 101), ("read-only", 200, 403), ("nobody", 403, 403)],
)
def test_readers_look_and_consumers_consume(guarded: RunningHttp, role: str, reads: int, consumes: int) -> None:
    assert guarded.get("/queues/q/messages", login(role)).status == reads
    assert guarded.events("/queues/q/events", login(role)).status == reads
    try:
        with guarded.websocket("/queues/q/stream", login(role)):
            found = 101
    except InvalidStatus as refused:
        found = refused.response.status_code
    assert found == consumes


def test_who_has_not_logged_in_is_asked_to(guarded: RunningHttp) -> None:
    for path in ("/queues/q/messages", "/queues/q/events"):
        assert guarded.get(path).status == 401


def test_a_right_that_goes_ends_the_streams(guarded: RunningHttp) -> None:
    events = guarded.events("/queues/q/events", login("consumer"))
    with guarded.websocket("/queues/q/stream", login("consumer")) as socket:
        socket.recv(10)
        guarded.wait(guarded.access.users.add_rule(Rule(Effect.DENY, Action.CONSUME, "$queue/q", user="consumer")))
        while (event := events.next()) is not None and event.kind != "end":
            pass
        assert event is not None
        guarded.put("q", b"secret")
        with pytest.raises(ConnectionClosed):
            assert "secret" not in str(socket.recv(10))
