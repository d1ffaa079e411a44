"""Who may declare exchanges, bind to them, see them and publish to them over HTTP."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http_gateway import HttpSetup, RunningHttp, running_http

from penstock.broker.auth.options import AuthOptions
from penstock.broker.auth.rules import Action, Effect, rule

RULES = (
    rule(Effect.ALLOW, Action.CONFIGURE, "$exchange/mine", role="owner"),
    rule(Effect.ALLOW, Action.CONFIGURE, "$queue/q", role="owner"),
    rule(Effect.DENY, Action.PUBLISH, "$queue/q", role="narrow"),
)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[RunningHttp]:
    """Users named for their roles, who have their names as passwords."""
    with running_http(tmp_path, HttpSetup(auth=AuthOptions(acl=RULES))) as http:
        for name in ("owner", "producer", "read-only", "nobody"):
            roles = [] if name == "nobody" else [name]
            http.wait(http.access.users.add(name, f"password-{name}".encode(), roles=roles))
        http.wait(http.access.users.add("narrow", b"password-narrow", roles=["producer", "narrow"]))
        http.declare()
        yield http


def status(http: RunningHttp, name: str, method: str, path: str, body: object = None) -> int:
    login = "Basic " + base64.b64encode(f"{name}:password-{name}".encode()).decode()
    return http.request(method, f"/{path}", body, {"Authorization": login}).status


def test_whoever_may_configure_an_exchange_declares_binds_and_deletes_it(guarded: RunningHttp) -> None:
    wanted = {"source": "mine", "queue": "q", "key": "k"}
    for name in ("producer", "read-only", "nobody"):
        assert status(guarded, name, "POST", "exchanges", {"name": "mine"}) == 403
    assert status(guarded, "owner", "POST", "exchanges", {"name": "other"}) == 403
    assert status(guarded, "owner", "POST", "exchanges", {"name": "mine"}) == 201
    assert status(guarded, "owner", "POST", "bindings", wanted) == 201
    for name in ("producer", "nobody"):
        assert status(guarded, name, "POST", "bindings", wanted) == 403
        assert status(guarded, name, "DELETE", "bindings", wanted) == 403
        assert status(guarded, name, "DELETE", "exchanges/mine") == 403
    # Both ends of a binding are the caller's to configure.
    assert status(guarded, "owner", "POST", "bindings", {"source": "amq.direct", "queue": "q"}) == 403
    assert status(guarded, "owner", "POST", "bindings", {"source": "mine", "exchange": "amq.fanout"}) == 403
    assert status(guarded, "owner", "DELETE", "bindings", wanted) == 204
    assert status(guarded, "owner", "DELETE", "exchanges/mine") == 204


def test_exchanges_are_seen_by_those_who_have_to_do_with_them(guarded: RunningHttp) -> None:
    for name, found in (("read-only", 200), ("producer", 200), ("nobody", 403), ("owner", 403)):
        assert status(guarded, name, "GET", "exchanges/amq.fanout") == found


def test_the_default_exchange_is_no_way_around_a_rule_about_a_queue(guarded: RunningHttp) -> None:
    sent = {"text": "m", "routing_key": "q"}
    assert status(guarded, "producer", "POST", "exchanges/amq.default/messages", sent) == 200
    assert status(guarded, "narrow", "POST", "exchanges/amq.default/messages", sent) == 403
    assert status(guarded, "nobody", "POST", "exchanges/amq.fanout/messages", sent) == 403
