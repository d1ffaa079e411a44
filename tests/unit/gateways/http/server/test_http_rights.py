"""Who may do what: every route by every kind of caller."""

from __future__ import annotations

import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jwt
import pytest
import trustme
from tests.support.http_client import HttpClient, basic
from tests.support.http_server import ROLES, RunningServer, running_server

from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import WEBSOCKET, Route
from penstock.gateways.http.table import ROUTES

SECRET = "0123456789abcdef0123456789abcdef"
EVERYBODY = frozenset({"none", *ROLES})
LOOK = frozenset({"producer", "consumer", "read-only", "admin"})
BROWSE = frozenset({"consumer", "read-only", "admin"})
CONSUME = frozenset({"consumer", "admin"})
PUBLISH = frozenset({"producer", "admin"})
CONFIGURE = frozenset({"admin"})
TOO_MANY_STREAMS = 503
VERBS = ("ack", "nack", "reject", "extend", "release")
BY_RIGHT = {
    Right.NUMBERS: frozenset({"monitor", "read-only", "admin"}),
    Right.READ: frozenset({"read-only", "admin"}),
    Right.ADMIN: frozenset({"admin"}),
    Right.SERVER: frozenset({"admin"}),
}
TENANT = "tenant"
"""a namespace: a role with its name in front is that role there"""
# Routes that ask the rules: which roles these let through.
BY_RULES = {
    "POST /queues/{queue}/messages": PUBLISH,
    "GET /queues/{queue}/messages": BROWSE,
    "GET /queues/{queue}/events": BROWSE,
    "WEBSOCKET /queues/{queue}/stream": CONSUME,
    "GET /topics/events": CONSUME,
    "POST /queues/{queue}/receive": CONSUME,
    "POST /queues/{queue}/claim": CONSUME,
    **{f"POST /{place}/{verb}": CONSUME for place in ("messages", "queues/{queue}") for verb in VERBS},
    "POST /topics/{topic}/messages": PUBLISH,
    "POST /publish": PUBLISH,
    "GET /queues": EVERYBODY,
    "GET /queues/{queue}": LOOK,
    "GET /queues/{queue}/config": LOOK,
    "GET /queues/{queue}/stats": LOOK,
    "GET /queues/{queue}/consumers": LOOK,
    "GET /queues/{queue}/partitions": LOOK,
    "GET /queues/{queue}/groups": LOOK,
    "POST /queues/{queue}/groups": CONSUME,
    "GET /queues/{queue}/groups/{group}": LOOK,
    "POST /queues/{queue}/groups/{group}/commit": CONSUME,
    "GET /queues/{queue}/dlq": BROWSE,
    "GET /exchanges": EVERYBODY,
    "POST /exchanges": CONFIGURE,
    "GET /exchanges/{exchange}": PUBLISH | {"read-only"},
    "DELETE /exchanges/{exchange}": CONFIGURE,
    "POST /exchanges/{exchange}/messages": PUBLISH,
    "GET /bindings": EVERYBODY,
    "POST /bindings": CONFIGURE,
    "DELETE /bindings": CONFIGURE,
}
# What is read before it is known what the request is about.
BODIES: Mapping[str, dict[str, object]] = {
    "/exchanges": {"name": "absent", "type": "direct"},
    "/bindings": {"source": "absent", "queue": "absent"},
}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@dataclass(frozen=True)
class Scene:
    server: RunningServer
    authority: trustme.CA
    receipt: str
    callers: Mapping[str, tuple[str, HttpClient]]
    """by a name for the test's report: the role, and a client"""


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with tempfile.TemporaryDirectory() as directory:
        place, authority = Path(directory), trustme.CA()
        users = [{"name": f"device-{role}", "roles": [role]} for role in ROLES]
        auth = {
            "jwt": {"algorithm": "HS256", "secret": SECRET, "roles_claim": "roles"},
            "users": users,
            "max_failed_logins_per_user": 1_000_000,
        }
        # Event streams would not end: who may open one is told that there are too many.
        settings = {"auth": auth, "http": {"max_streams": 0}, "listeners": listeners(place, authority)}
        with running_server(place, **settings) as server:
            server.declare("q")
            callers = dict(all_callers(server, authority))
            admin = callers["key of admin"][1]
            admin.publish("q", "x")
            [message] = admin.receive("q", visibility="1h")
            yield Scene(server, authority, message["receipt"], callers)
            for _, client in callers.values():
                client.close()


def listeners(place: Path, authority: trustme.CA) -> dict[str, object]:
    certificate, roots = place / "server.pem", place / "roots.pem"
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(certificate))
    authority.cert_pem.write_to_path(str(roots))
    tls = {"certificate": str(certificate), "key": str(certificate), "client_ca": str(roots)}
    return {"mqtt": {"port": 0}, "mqtt_ws": {"port": 0}, "http": {"port": 0, "tls": tls}}


def all_callers(server: RunningServer, authority: trustme.CA) -> Iterator[tuple[str, tuple[str, HttpClient]]]:
    def client(headers: Mapping[str, str], name: str | None = None) -> HttpClient:
        return HttpClient(server.address, headers, context(authority, name))

    users = server.works.ports.access.users
    yield "nobody", ("", client({}))
    yield "wrong password", ("", client(basic("user-admin", "wrong")))
    yield "no scheme", ("", client({"Authorization": "admin"}))
    yield "expired key", ("", client({"X-API-Key": expired(server)}))
    yield "revoked key", ("", client({"X-API-Key": revoked(server)}))
    yield "expired token", ("", client({"Authorization": "Bearer " + token("admin", -3600)}))
    yield "token of another", ("", client({"Authorization": "Bearer " + token("admin", secret=SECRET[::-1])}))
    yield "key without roles", ("none", client({"X-API-Key": server.key()}))
    yield "certificate of a stranger", ("none", client({}, "stranger"))
    for role in ROLES:
        server.wait(users.add(f"user-{role}", b"secret of a user", [role]))
        yield f"key of {role}", (role, client({"X-API-Key": server.key(role)}))
        yield f"bearer key of {role}", (role, client({"Authorization": "Bearer " + server.key(role)}))
        yield f"token of {role}", (role, client({"Authorization": "Bearer " + token(role)}))
        yield f"password of {role}", (role, client(basic(f"user-{role}", "secret of a user")))
        yield f"certificate of {role}", (role, client({}, f"device-{role}"))
        tenants_key = server.key(role, namespace=TENANT)
        yield f"key of {role} of a tenant", (f"{TENANT} {role}", client({"X-API-Key": tenants_key}))


def expired(server: RunningServer) -> str:
    end_ms = server.call(server.broker.now) + 50
    key = server.key("admin", expires_ms=end_ms)
    server.until(lambda: server.broker.now() > end_ms)
    return key


def revoked(server: RunningServer) -> str:
    key = server.key("admin")
    server.wait(server.works.ports.access.users.remove_key(key.split("_")[1]))
    return key


def token(role: str, left_s: int = 3600, secret: str = SECRET) -> str:
    return jwt.encode({"sub": f"token-{role}", "exp": int(time.time()) + left_s, "roles": [role]}, secret, "HS256")


def context(authority: trustme.CA, name: str | None) -> ssl.SSLContext:
    made = ssl.create_default_context()
    authority.configure_trust(made)
    if name is not None:
        authority.issue_cert("client.example", common_name=name).configure_cert(made)
    return made


def spelled(route: Route) -> str:
    return f"{route.method} {route.path.removeprefix('/api/v1')}"


def allowed(route: Route) -> frozenset[str]:
    """The same in every namespace, but for what is the server's, and for who counts it."""
    if route.right is Right.LOGIN:
        assert spelled(route) in BY_RULES, "say here which roles the rules let through"
        roles = BY_RULES[spelled(route)]
    else:
        roles = BY_RIGHT[route.right]
    tenants = frozenset[str]() if route.right is Right.SERVER else roles
    if spelled(route).startswith("POST /messages/"):
        tenants = EVERYBODY  # who is told that the receipt leads nowhere
    if route.right is Right.NUMBERS:
        tenants -= {"monitor"}
    return roles | {f"{TENANT} {role}" for role in tenants}


def request(route: Route, receipt: str) -> tuple[str, str, dict[str, object] | None, dict[str, str]]:
    """One that changes nothing that others need: what it names is not there."""
    path = route.path
    for name in route.parameters:
        path = path.replace(f"{{{name}}}", "absent")
    if path.endswith("/topics/events"):
        path += "?filter=a"
    if route.method == WEBSOCKET:
        return "GET", path, None, UPGRADE
    body = None if route.method == "GET" else BODIES.get(path.removeprefix("/api/v1"), {})
    if path.rpartition("/")[2] in VERBS:
        body = {"receipts": [receipt]}
    elif route.path.endswith(("/messages", "/publish")) and route.method == "POST":
        body = {"text": "x", **({"topic": "t"} if path.endswith("/publish") else {})}
    return route.method, path, body, {}


@pytest.mark.parametrize("route", [route for route in ROUTES if route.right is not Right.PUBLIC], ids=spelled)
def test_a_route_answers_those_who_may_and_no_others(scene: Scene, route: Route) -> None:
    method, path, body, headers = request(route, scene.receipt)
    found: dict[str, tuple[str, int]] = {}
    for name, (role, client) in scene.callers.items():
        found[name] = role, client.status(method, path, body, headers)
    wrong = {
        name: status
        for name, (role, status) in found.items()
        if status != (401 if not role else 403)
        if not role or role not in allowed(route)
    }
    assert wrong == {}, "let in"
    refused = {
        name: status for name, (role, status) in found.items() if role in allowed(route) and status in (401, 403)
    }
    assert refused == {}, "kept out"
    assert not [status for _, status in found.values() if status >= 500 and status != TOO_MANY_STREAMS]


@pytest.mark.parametrize("route", [route for route in ROUTES if route.right is Right.PUBLIC], ids=spelled)
def test_a_public_route_asks_nobody(scene: Scene, route: Route) -> None:
    for name in ("nobody", "key without roles", "key of producer", "token of admin", "certificate of a stranger"):
        assert scene.callers[name][1].status(route.method, route.path) in route.answers


# What lies behind a role


def login(scene: Scene, headers: Mapping[str, str]) -> HttpClient:
    return HttpClient(scene.server.address, headers, context(scene.authority, None))


def test_who_is_not_known_is_asked_who_it_is(scene: Scene) -> None:
    answer = scene.callers["nobody"][1].get("queues")
    assert (answer.status, answer.code) == (401, "not-authorised")
    assert "Bearer" in answer.headers["www-authenticate"] and "Basic" in answer.headers["www-authenticate"]
    assert scene.callers["expired key"][1].get("queues").code == "bad-credentials"


def test_a_key_that_is_revoked_counts_no_more_at_once(scene: Scene) -> None:
    key = scene.server.key("admin")
    client = login(scene, {"X-API-Key": key})
    assert client.get("users").status == 200
    admin = scene.callers["key of admin"][1]
    assert admin.delete(f"keys/{key.split('_')[1]}").status == 204
    assert client.get("users").status == 401
    client.close()


def test_a_password_that_was_changed_counts_no_more_at_once(scene: Scene) -> None:
    admin = scene.callers["key of admin"][1]
    assert admin.post("users", {"name": "mallory", "password": "the first one", "roles": ["admin"]}).status == 201
    client = login(scene, basic("mallory", "the first one"))
    assert client.get("users").status == 200
    assert admin.patch("users/mallory", {"password": "the second one"}).status == 200
    assert client.get("users").status == 401
    client.headers = basic("mallory", "the second one")
    assert client.get("users").status == 200
    assert admin.patch("users/mallory", {"roles": ["read-only"]}).status == 200
    assert (client.get("users").status, client.get("overview").status) == (403, 200)
    assert admin.delete("users/mallory").status == 204
    assert client.get("overview").status == 401
    client.close()


def test_only_admins_work_in_another_namespace(scene: Scene) -> None:
    assert scene.callers["key of admin"][1].get("queues?namespace=other").json["items"] == []
    for role in ("producer", "consumer", "read-only"):
        assert scene.callers[f"key of {role}"][1].get("queues?namespace=other").status == 403
        assert scene.callers[f"key of {role}"][1].get("queues?namespace=default").status == 200


def test_the_list_of_queues_has_those_that_the_caller_may_see(scene: Scene) -> None:
    scene.server.declare("hidden")
    admin = scene.callers["key of admin"][1]
    answer = admin.post("keys", {"description": "a narrow one"}).json
    client = login(scene, {"X-API-Key": answer["key"]})
    assert client.get("queues").json["items"] == []
    user = f"key:{answer['description']['id']}"
    rule = {"effect": "allow", "action": "consume", "pattern": "$queue/q", "user": user}
    assert admin.post("acl", rule).status == 201
    assert [queue["name"] for queue in client.get("queues").json["items"]] == ["q"]
    assert admin.delete("acl", rule).status == 204
    assert client.get("queues").json["items"] == []
    client.close()


def test_a_rule_that_denies_wins_over_a_role(scene: Scene) -> None:
    admin, consumer = scene.callers["key of admin"][1], scene.callers["key of consumer"][1]
    rule = {"effect": "deny", "action": "consume", "pattern": "$queue/q", "role": "consumer"}
    assert admin.post("acl", rule).status == 201
    assert consumer.post("queues/q/receive", {}).status == 403
    assert admin.delete("acl", rule).status == 204
    assert consumer.post("queues/q/receive", {}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Basic"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic " + "A" * 9000},
        {"Authorization": "Basic /////w=="},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer psk_"},
        {"Authorization": "Bearer a.b.c"},
        {"Authorization": "Digest x"},
        {"X-API-Key": ""},
        {"X-API-Key": "psk_x_y"},
        {"X-API-Key": "ÿ"},
    ],
)
def test_credentials_that_make_no_sense_are_refused(scene: Scene, headers: dict[str, str]) -> None:
    client = login(scene, headers)
    assert client.get("queues").status == 401
    client.close()


def test_keys_and_passwords_are_never_shown_again(scene: Scene) -> None:
    admin = scene.callers["key of admin"][1]
    made = admin.post("keys", {"roles": ["producer"], "expires_in": "1h"})
    assert made.headers["cache-control"] == "no-store"
    secret = made.json["key"].split("_", 2)[2]
    everything = b"".join(admin.get(path).body for path in ("keys?limit=1000", "users", "config", "acl"))
    assert secret.encode() not in everything and SECRET.encode() not in everything and b"argon2" not in everything


# Namespaces


def tenant(scene: Scene, role: str) -> HttpClient:
    return scene.callers[f"key of {role} of a tenant"][1]


def test_an_admin_of_a_namespace_administers_that_one_only(scene: Scene) -> None:
    admin, theirs = scene.callers["key of admin"][1], tenant(scene, "admin")
    assert theirs.get("queues?namespace=default").status == 403
    assert theirs.post("queues", {"name": "mine"}).json["namespace"] == TENANT
    assert theirs.post("queues", {"name": "not-mine", "namespace": "default"}).status == 403
    assert theirs.get("queues/q").status == 404
    # Users, keys and rules
    made = theirs.post("users", {"name": "tina", "password": "the first one", "roles": ["admin"]})
    assert (made.status, made.json["namespace"]) == (201, TENANT)
    assert theirs.post("users", {"name": "eve", "password": "the first one", "namespace": "default"}).status == 403
    assert {user["name"] for user in theirs.get("users").json["items"]} == {"tina"}
    for path, method, body in (
        ("users/user-admin", "GET", None),
        ("users/user-admin", "PATCH", {"roles": []}),
        ("users/user-admin", "PATCH", {"password": "another one"}),
        ("users/user-admin", "DELETE", None),
    ):
        assert theirs.status(method, f"/api/v1/{path}", body) == 404, (method, path)
    assert {key["namespace"] for key in theirs.get("keys").json["items"]} == {TENANT}
    assert theirs.post("keys", {"roles": ["admin"]}).json["description"]["namespace"] == TENANT
    assert theirs.post("keys", {"roles": ["admin"], "namespace": "default"}).status == 403
    foreign = next(key["id"] for key in admin.get("keys?limit=1000").json["items"] if key["namespace"] == "default")
    assert theirs.delete(f"keys/{foreign}").status == 404
    rule = {"effect": "allow", "action": "publish", "pattern": "a/#"}
    assert theirs.post("acl", rule).json["namespace"] == TENANT
    for elsewhere in ("default", "*"):
        assert theirs.post("acl", {**rule, "namespace": elsewhere}).status == 403
    assert {found["namespace"] for found in theirs.get("acl").json["items"]} == {TENANT}
    assert theirs.post("acl/check", {"user": "user-admin", "action": "publish", "topic": "a"}).status == 404
    assert theirs.post("acl/check", {"user": "tina", "action": "publish", "topic": "a"}).status == 200
    # The admin of the server has all of it.
    assert admin.get("queues/mine?namespace=tenant").status == 200
    assert admin.get("users/tina").status == 200


def test_numbers_and_lists_have_no_name_of_another_namespace(scene: Scene) -> None:
    admin = scene.callers["key of admin"][1]
    # A namespace that no other test writes to: a group may be called "default", too.
    yard = {role: login(scene, {"X-API-Key": scene.server.key(role, namespace="yard")}) for role in ROLES}
    assert admin.post("queues", {"name": "zeldas-alone", "namespace": "zelda"}).status == 201
    assert yard["admin"].post("queues", {"name": "mine"}).status == 201
    paths = ["/metrics", *(f"/api/v1/{name}" for name in ("overview", "queues", "groups", "clients", "topics"))]
    for name in ("read-only", "admin"):
        for path in paths:
            page = yard[name].request("GET", path).body
            assert b"zelda" not in page and b"default" not in page, (name, path)
    for path in paths:
        assert b"zelda" not in scene.callers["key of read-only"][1].request("GET", path).body, path
    mine = yard["read-only"].request("GET", "/metrics").body
    assert b'queue="mine"' in mine and b"penstock_storage" not in mine
    for who in ("key of admin", "key of monitor"):
        assert b"zeldas-alone" in scene.callers[who][1].request("GET", "/metrics").body
    for client in yard.values():
        client.close()


def test_nobody_is_shown_the_secret_in_an_address_and_it_survives_being_sent_back(scene: Scene) -> None:
    admin, url = scene.callers["key of admin"][1], "https://bot:swordfish@alerts.example/hook?token=swordfish"
    settings = {"dlq_config": {"alert_webhook": url}}
    assert admin.post("queues", {"name": "alerted", **settings}).status == 201
    assert admin.put("templates/alerted-*", settings).status == 200
    for who in ("key of admin", "key of read-only", "key of producer", "key of consumer"):
        client = scene.callers[who][1]
        for path in (
            "queues/alerted",
            "queues/alerted/config",
            "queues",
            "templates",
            "config",
            "queues/alerted/stats",
        ):
            assert b"swordfish" not in client.get(path).body, (who, path)
    shown = admin.get("queues/alerted/config").json
    assert shown["dlq_config"]["alert_webhook"] == "https://alerts.example/…"
    assert admin.put("queues/alerted/config", {"limits": {"max_queue_depth": 7}, **shown}).status == 200
    assert admin.put("queues/alerted/config", {"dlq_config": shown["dlq_config"]}).status == 200
    queue = scene.server.call(lambda: scene.server.broker.queue("alerted"))
    assert queue.settings.dlq_config.alert_webhook == url
    refused = admin.put("queues/alerted/config", {"dlq_config": {"alert_webhook": "https://other.example/…"}})
    assert refused.status == 400 and b"swordfish" not in refused.body


def test_a_probe_is_no_failed_login(scene: Scene) -> None:
    metrics = scene.server.works.ports.access.metrics
    nobody = HttpClient(scene.server.address, {}, context(scene.authority, None))
    before = metrics.logins_failed
    for path in ("/ready", "/health", "/version"):
        assert nobody.status("GET", path) == 200
    assert nobody.get("queues").status == 401
    assert metrics.logins_failed == before
    nobody.close()
