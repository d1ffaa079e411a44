"""RabbitMQ's management API as its tools ask it."""

from __future__ import annotations

import hashlib
import http.client
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.http_gateway import Answer, HttpSetup, RunningHttp, running_http

from penstock.broker.auth.options import AuthOptions
from penstock.broker.auth.rules import Action, Effect, rule

ADMIN, CLERK = ("root", "toor"), ("clerk", "pencil")
DEFINITIONS: dict[str, Any] = {
    "rabbit_version": "3.10.8",
    "vhosts": [{"name": "/"}, {"name": "/shop"}],
    "users": [],
    "permissions": [],
    "parameters": [{"component": "shovel", "vhost": "/", "name": "s", "value": {}}],
    "policies": [
        {
            "vhost": "/shop",
            "name": "ttl",
            "pattern": "^orders",
            "apply-to": "queues",
            "definition": {"message-ttl": 5000, "ha-mode": "all"},
            "priority": 1,
        }
    ],
    "exchanges": [{"vhost": "/shop", "name": "bus", "type": "topic", "durable": True, "arguments": {}}],
    "queues": [
        {"vhost": "/shop", "name": "orders.new", "durable": True, "auto_delete": False, "arguments": {}},
        {"vhost": "/shop", "name": "lazy//x", "durable": True, "arguments": {"x-queue-mode": "lazy"}},
        {"vhost": "/shop", "name": "short", "durable": False, "auto_delete": True, "arguments": {}},
    ],
    "bindings": [
        {
            "vhost": "/shop",
            "source": "bus",
            "destination": "orders.new",
            "destination_type": "queue",
            "routing_key": "eu.#",
            "arguments": {},
        },
        {
            "vhost": "/shop",
            "source": "amq.topic",
            "destination": "orders.new",
            "destination_type": "queue",
            "routing_key": "a.*",
            "arguments": {},
        },
        {"vhost": "/shop", "source": "bus", "destination": "short", "destination_type": "queue", "routing_key": "k"},
    ],
}


class Api:
    def __init__(self, server: RunningHttp, login: tuple[str, str] = ADMIN) -> None:
        self._server = server
        self._headers = {"Authorization": "Basic " + b64encode(":".join(login).encode()).decode()}

    def __call__(self, method: str, path: str, body: object = None) -> Answer:
        return self._server.request(method, f"/api/{path}", body, self._headers)

    def get(self, path: str) -> Any:
        answer = self("GET", path)
        assert answer.status == 200, answer
        return answer.json

    def status(self, method: str, path: str, body: object = None) -> int:
        return self(method, path, body).status


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningHttp]:
    with running_http(tmp_path, HttpSetup(auth=AuthOptions(), listener="rabbitmq_api")) as running:
        running.wait(running.access.users.add(*_user(ADMIN), ["admin"]))
        running.wait(running.access.users.add(*_user(CLERK), []))
        yield running


@pytest.fixture
def api(server: RunningHttp) -> Api:
    return Api(server)


def _user(login: tuple[str, str]) -> tuple[str, bytes]:
    return login[0], login[1].encode()


def test_a_queue_is_declared_shown_compared_and_deleted(api: Api) -> None:
    queue = {"durable": True, "arguments": {"x-message-ttl": 60_000}}
    assert api.status("PUT", "queues/%2F/orders.dlq", queue) == 201
    assert api.status("PUT", "queues/%2F/orders.dlq", queue) == 204
    answer = api("PUT", "queues/%2F/orders.dlq", {"arguments": {"x-message-ttl": 1}})
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert answer.json["reason"] == (
        "inequivalent arg 'x-message-ttl' for queue 'orders.dlq' in vhost '/': received '1' but current is '60000'"
    )
    answer = api("PUT", "queues/%2F/other", {"arguments": {"x-expires": 0}})
    assert answer.json["reason"] == "invalid arg 'x-expires' for queue 'other' in vhost '/': {value_zero,0}"
    assert api.status("PUT", "queues/%2F/amq.mine", {}) == 401
    [told] = api.get("queues/%2F")
    assert (told["name"], told["vhost"], told["arguments"]) == ("orders.dlq", "/", {"x-message-ttl": 60_000})
    assert api.status("DELETE", "queues/%2F/orders.dlq") == 204
    assert api.status("GET", "queues/%2F/orders.dlq") == 404
    assert api.status("DELETE", "queues/%2F/orders.dlq") == 404


def test_what_is_published_is_routed_counted_and_taken(api: Api) -> None:
    api("PUT", "queues/%2F/q", {})
    api("PUT", "exchanges/%2F/bus", {"type": "topic"})
    assert api.status("POST", "bindings/%2F/e/bus/q/q", {"routing_key": "eu.#"}) == 201
    message = {"routing_key": "eu.de", "payload": "hi", "payload_encoding": "string"}
    properties = {"delivery_mode": 2, "headers": {"n": 5}, "correlation_id": "c", "priority": 3}
    assert api("POST", "exchanges/%2F/bus/publish", {**message, "properties": properties}).json == {"routed": True}
    assert api("POST", "exchanges/%2F/bus/publish", {**message, "routing_key": "us"}).json == {"routed": False}
    direct = {"routing_key": "q", "payload": "AAH/", "payload_encoding": "base64", "properties": {}}
    assert api("POST", "exchanges/%2F/amq.default/publish", direct).json == {"routed": True}
    told = api.get("queues/%2F/q")
    assert (told["messages"], told["messages_ready"], told["messages_unacknowledged"]) == (2, 2, 0)
    assert told["message_stats"]["publish"] == 2
    wanted = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    first, second = api("POST", "queues/%2F/q/get", wanted).json
    assert (first["exchange"], first["routing_key"], first["payload"]) == ("bus", "eu.de", "hi")
    assert first["properties"] == properties
    assert (second["exchange"], second["routing_key"]) == ("", "q")
    assert (second["payload"], second["payload_encoding"], second["redelivered"]) == ("AAH/", "base64", False)
    [again] = api("POST", "queues/%2F/q/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}).json
    assert (again["payload"], again["redelivered"], again["message_count"]) == ("hi", True, 1)
    assert api.status("DELETE", "queues/%2F/q/contents") == 204
    assert api.get("queues/%2F/q")["messages"] == 0


def test_bindings_are_listed_named_and_removed(api: Api) -> None:
    api("PUT", "queues/%2F/q", {})
    api("PUT", "exchanges/%2F/h", {"type": "headers"})
    api("PUT", "exchanges/%2F/f", {"type": "fanout"})
    assert api.status("POST", "bindings/%2F/e/h/q/q", {"arguments": {"x-match": "all", "a": 1}}) == 201
    assert api.status("POST", "bindings/%2F/e/f/q/q", {}) == 201
    assert api.status("POST", "bindings/%2F/e/f/e/h", {"routing_key": "a/b"}) == 201
    assert api.status("POST", "bindings/%2F/e/none/q/q", {}) == 404
    found = {(each["source"], each["destination"], each["properties_key"]) for each in api.get("bindings/%2F")}
    assert ("", "q", "q") in found
    assert ("f", "q", "~") in found
    assert ("f", "h", "a%2Fb") in found
    [of_headers] = api.get("bindings/%2F/e/h/q/q")
    assert api.status("DELETE", f"bindings/%2F/e/h/q/q/{of_headers['properties_key']}") == 204
    assert api.get("exchanges/%2F/h/bindings/source") == []
    assert api.status("DELETE", "bindings/%2F/e/f/e/h/a%252Fb") == 204
    assert api.status("DELETE", "bindings/%2F/e/f/q/q/~") == 204
    assert api.get("exchanges/%2F/f/bindings/source") == []
    assert [each["source"] for each in api.get("queues/%2F/q/bindings")] == [""]


def test_lists_come_in_pages_by_name_sorted_and_with_columns(api: Api) -> None:
    for number in range(7):
        api("PUT", f"queues/%2F/q{number}", {})
    api("PUT", "queues/%2F/other", {})
    page = api.get("queues/%2F?page=2&page_size=3&name=^q&use_regex=true&sort=name&sort_reverse=true&columns=name")
    assert page["items"] == [{"name": "q3"}, {"name": "q2"}, {"name": "q1"}]
    assert (page["total_count"], page["filtered_count"], page["item_count"], page["page_count"]) == (8, 7, 3, 3)
    assert api.get("queues?columns=name,message_stats.publish&name=other") == [
        {"name": "other", "message_stats": {"publish": 0}}
    ]
    for wrong in ("page=9", "page=0", "page=x", "page_size=501&page=1", "name=(&use_regex=true"):
        assert api.status("GET", f"queues/%2F?{wrong}") == 400


def test_who_has_no_rights_sees_nothing_and_may_nothing(api: Api, server: RunningHttp) -> None:
    clerk, nobody = Api(server, CLERK), Api(server, ("clerk", "wrong"))
    api("PUT", "queues/%2F/secret", {})
    api("PUT", "queues/%2F/mine", {})
    allow = rule(Effect.ALLOW, Action.CONSUME, "$queue/mine", user="clerk")
    server.wait(server.access.users.add_rule(allow))
    assert [each["name"] for each in clerk.get("queues")] == ["mine"]
    assert clerk.status("GET", "queues/%2F/secret") == 404
    assert clerk.status("PUT", "queues/%2F/new", {}) == 401
    assert clerk.status("DELETE", "queues/%2F/mine") == 401
    assert clerk.status("DELETE", "queues/%2F/mine/contents") == 204
    for path in ("users", "permissions", "definitions"):
        assert clerk.status("GET", path) == 401
    for method, path in (("PUT", "vhosts/x"), ("PUT", "users/x"), ("POST", "definitions"), ("PUT", "policies/%2F/p")):
        assert clerk.status(method, path, {"pattern": ".*", "definition": {"max-length": 1}}) == 401
    answer = nobody("GET", "overview")
    assert (answer.status, answer.json) == (401, {"error": "not_authorised", "reason": "Login failed"})
    assert answer.headers["www-authenticate"].startswith("Basic")
    assert clerk.get("whoami")["name"] == "clerk"
    assert api.get("whoami")["tags"] == ["administrator"]


def test_virtual_hosts_are_made_used_and_removed_when_empty(api: Api) -> None:
    assert api.status("GET", "vhosts/%2Fshop") == 404
    assert api.status("PUT", "queues/%2Fshop/q", {}) == 404
    assert api.status("PUT", "vhosts/%2Fshop", {"description": "the shop"}) == 201
    assert api.status("PUT", "vhosts/%2Fshop", {"description": "the shop"}) == 204
    assert {each["name"] for each in api.get("vhosts")} == {"/", "/shop"}
    assert api.status("PUT", "queues/%2Fshop/q", {}) == 201
    assert api.get("queues/%2F") == []
    assert [each["vhost"] for each in api.get("queues")] == ["/shop"]
    assert api.status("DELETE", "vhosts/%2Fshop") == 400
    assert api.status("DELETE", "queues/%2Fshop/q") == 204
    assert api.status("DELETE", "vhosts/%2Fshop") == 204
    assert api.status("GET", "vhosts/%2Fshop") == 404


def test_users_have_permissions_that_are_rules(api: Api, server: RunningHttp) -> None:
    assert api.status("PUT", "users/app", {"password": "secret", "tags": "monitoring,own"}) == 201
    assert api.status("PUT", "users/app", {"password": "secret2", "tags": ["management"]}) == 204
    assert api.get("users/app")["tags"] == []
    said = {"configure": "^(mine|yours)$", "write": ".*", "read": ""}
    assert api.status("PUT", "permissions/%2F/app", said) == 201
    assert api.get("permissions/%2F/app") == {"user": "app", "vhost": "/", **said}
    app = Api(server, ("app", "secret2"))
    assert app.status("PUT", "queues/%2F/mine", {}) == 201
    assert app.status("PUT", "queues/%2F/other", {}) == 401
    assert api.status("PUT", "permissions/%2F/app", {**said, "read": "^celery"}) == 400
    assert api.get("users/app/permissions") == [{"user": "app", "vhost": "/", **said}]
    assert api.status("DELETE", "permissions/%2F/app") == 204
    assert app.status("PUT", "queues/%2F/yours", {}) == 401
    assert api.status("DELETE", "users/app") == 204
    assert app.status("GET", "whoami") == 401


def test_policies_are_put_and_followed(api: Api) -> None:
    api("PUT", "queues/%2F/q", {})
    policy = {"pattern": "^q", "definition": {"message-ttl": 1000}, "priority": 5, "apply-to": "queues"}
    assert api.status("PUT", "policies/%2F/ttl", policy) == 201
    assert api.get("policies/%2F/ttl") == {"vhost": "/", "name": "ttl", **policy}
    told = api.get("queues/%2F/q")
    assert (told["policy"], told["effective_policy_definition"]) == ("ttl", {"message-ttl": 1000})
    assert api.status("PUT", "policies/%2F/bad", {"pattern": "(", "definition": {"message-ttl": 1}}) == 400
    assert api.status("PUT", "policies/%2F/bad", {"pattern": ".", "definition": {"strange": 1}}) == 400
    assert api.status("DELETE", "policies/%2F/ttl") == 204
    assert api.get("policies") == []
    assert api.get("queues/%2F/q")["policy"] is None


def test_definitions_come_in_whole_and_what_means_nothing_is_named(api: Api, server: RunningHttp) -> None:
    salt = b"\1\2\3\4"
    hashed = b64encode(salt + hashlib.sha256(salt + b"rabbit").digest()).decode()
    user = {"name": "bunny", "password_hash": hashed, "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ""}
    permission = {"user": "bunny", "vhost": "/shop", "configure": ".*", "write": ".*", "read": ".*"}
    other = {**permission, "vhost": "/", "write": "^part"}
    body = {**DEFINITIONS, "users": [user], "permissions": [permission, other]}
    answer = api("POST", "definitions", body)
    assert answer.status == 200, answer
    assert answer.json["imported"] == {
        "vhosts": 1,
        "users": 1,
        "permissions": 1,
        "policies": 1,
        "exchanges": 1,
        "queues": 2,
        "bindings": 2,
    }
    notes = "\n".join(answer.json["notes"])
    for said in ("parameters: 1", "ha-mode", "x-queue-mode", "short", "^part", "SCRAM"):
        assert said in notes
    assert {each["name"] for each in api.get("queues/%2Fshop")} == {"orders.new", "lazy//x"}
    assert api.get("queues/%2Fshop/orders.new")["policy"] == "ttl"
    message = {"payload": "x", "payload_encoding": "string", "properties": {}}
    for exchange, key in (("bus", "eu.de"), ("amq.topic", "a.b")):
        said_of = {**message, "routing_key": key}
        assert api("POST", f"exchanges/%2Fshop/{exchange}/publish", said_of).json == {"routed": True}
    bunny = Api(server, ("bunny", "rabbit"))
    assert [each["name"] for each in bunny.get("queues/%2Fshop")] == ["lazy//x", "orders.new"]
    assert bunny.get("queues/%2F") == []
    kept = server.call(lambda: server.access.users.find("bunny"))
    assert kept is not None and kept.scram is not None
    assert (kept.password_hash or "").startswith("$argon2id$")
    assert bunny.status("GET", "whoami") == 200
    server.restart()
    assert {each["name"] for each in api.get("queues/%2Fshop")} == {"orders.new", "lazy//x"}
    assert {(each["source"], each["routing_key"]) for each in api.get("queues/%2Fshop/orders.new/bindings")} == {
        ("", "orders.new"),
        ("bus", "eu.#"),
        ("amq.topic", "a.*"),
    }
    exported = api.get("definitions")
    assert {each["name"] for each in exported["queues"]} == {"orders.new", "lazy//x"}
    assert api("POST", "definitions", {**exported, "users": []}).json["imported"]["queues"] == 0


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("queues", {"vhost": "/shop", "name": "q", "arguments": {"x-expires": 0}}),
        ("queues", {"vhost": "/shop", "name": 7}),
        ("exchanges", {"vhost": "/shop", "name": "x", "type": "strange"}),
        ("policies", {"vhost": "/", "name": "p", "pattern": "(", "definition": {"max-length": 1}}),
        ("bindings", {"vhost": "/shop", "source": "none", "destination": "orders.new", "routing_key": ""}),
        ("users", {"name": "u", "password_hash": "AAAA", "tags": ""}),
        ("vhosts", {"name": ""}),
    ],
)
def test_of_definitions_with_a_mistake_nothing_comes_in(api: Api, kind: str, wrong: dict[str, object]) -> None:
    body = {**DEFINITIONS, kind: [*DEFINITIONS[kind], wrong]}
    answer = api("POST", "definitions", body)
    assert answer.status in (400, 404), answer
    assert [each["name"] for each in api.get("vhosts")] == ["/"]
    assert api.get("queues") == []
    assert api.get("policies") == []
    assert {each["name"] for each in api.get("users")} == {"root", "clerk"}


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff"])
def test_a_body_that_is_no_object_is_refused(api: Api, server: RunningHttp, body: bytes) -> None:
    headers = {"Authorization": "Basic " + b64encode(b"root:toor").decode()}
    answer = server.request("PUT", "/api/queues/%2F/q", body, headers, is_raw=True)
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert api.status("PUT", "queues/%2F/q", {"arguments": []}) in (201, 400)
    assert api.status("PUT", "queues/%2F/q", {"durable": "perhaps"}) == 400
    assert api.status("POST", "queues/%2F/q/get", {"count": -1}) == 400


def test_numbers_have_the_names_that_dashboards_know(tmp_path: Path) -> None:
    with running_http(tmp_path) as server:
        server.declare("a", partitions=1)
        server.declare("b#", namespace="shop")
        server.put("a", b"1", b"2")
        page = _page(server, "/metrics/detailed?family=queue_coarse_metrics")
        assert 'rabbitmq_detailed_queue_messages_ready{vhost="/",queue="a"} 2\n' in page
        assert 'rabbitmq_detailed_queue_messages{vhost="shop",queue="b#"} 0\n' in page
        assert "queue_consumers" not in page
        page = _page(server, "/metrics/detailed?family=queue_consumer_count,queue_metrics&vhost=shop")
        assert 'rabbitmq_detailed_queue_consumers{vhost="shop",queue="b#"} 0\n' in page
        assert 'queue="a"' not in page
        assert _page(server, "/metrics/detailed") == ""
        page = _page(server, "/metrics/per-object")
        assert 'rabbitmq_queue_messages_ready{vhost="/",queue="a"} 2\n' in page
        assert 'rabbitmq_queue_messages_published_total{vhost="/",queue="a"} 2\n' in page


def _page(server: RunningHttp, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_clients_are_shown_as_connections(api: Api) -> None:
    assert api.get("connections") == []
    assert api.get("channels") == []
    assert api.get("consumers") == []
    assert api.status("DELETE", "connections/none") == 404
    [node] = api.get("nodes")
    assert node["running"] is True
    told = api.get("overview")
    assert told["rabbitmq_version"] == "3.13.7"
    assert told["object_totals"]["queues"] == 0
    assert api.status("GET", "parameters") == 200
