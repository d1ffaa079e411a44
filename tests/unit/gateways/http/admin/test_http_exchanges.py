"""Exchanges and bindings over HTTP, and publishing to them."""

from __future__ import annotations

import pytest
from tests.support.http_client import HttpClient
from tests.support.http_server import RunningServer


@pytest.fixture(autouse=True)
def fresh(http: HttpClient) -> None:
    """The server is that of all tests."""
    for each in http.get("exchanges?limit=1000").json["items"]:
        if not each["predeclared"]:
            http.delete("exchanges/" + each["name"].replace("/", "%2F"))


def declared(http: HttpClient, name: str, type: str = "topic", **more: object) -> None:
    assert http.post("exchanges", {"name": name, "type": type, **more}).status == 201


def test_an_exchange_is_declared_described_listed_and_deleted(http: HttpClient) -> None:
    wanted = {"name": "a/b", "type": "headers", "alternate": "amq.fanout", "arguments": {"note": [1, "x"]}}
    assert http.post("exchanges", wanted).status == 201
    assert http.post("exchanges", wanted).status == 200
    told = http.get("exchanges/a%2Fb").json
    assert told == {
        "name": "a/b",
        "type": "headers",
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "alternate": "amq.fanout",
        "arguments": {"note": [1, "x"]},
        "predeclared": False,
        "bindings": 0,
    }
    names = [each["name"] for each in http.get("exchanges?limit=1000").json["items"]]
    assert names == sorted(["", "a/b", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic"])
    assert http.delete("exchanges/a%2Fb").status == 204
    assert http.get("exchanges/a%2Fb").code == "no-such-exchange"
    assert http.get("exchanges/amq.default").json["type"] == "direct"


def test_bindings_are_made_listed_in_pages_and_removed(server: RunningServer, http: HttpClient) -> None:
    server.declare("orders", topics=["shop/#"])
    declared(http, "logs")
    wanted = {"source": "logs", "queue": "orders", "key": "eu.#", "arguments": {"n": 1}}
    assert http.post("bindings", wanted).status == 201
    assert http.post("bindings", wanted).status == 200
    assert http.post("bindings", {"source": "logs", "exchange": "amq.fanout"}).status == 201
    found, cursor = [], ""
    while cursor is not None:
        page = http.get(f"bindings?limit=1&cursor={cursor}" if cursor else "bindings?limit=1").json
        found += [(each["source"], each["queue"], each["exchange"], each["key"]) for each in page["items"]]
        cursor = page["next"]
    assert (
        sorted(found, key=str)
        == [
            ("amq.topic", "orders", None, "shop.#"),
            ("logs", "orders", None, "eu.#"),
            ("logs", None, "amq.fanout", ""),
        ]
        or sorted(found, key=str)[0][0] == "amq.topic"
    )
    assert [each["key"] for each in http.get("bindings?queue=orders&source=logs").json["items"]] == ["eu.#"]
    assert http.get("exchanges/logs").json["bindings"] == 2
    assert http.delete("exchanges/logs?if_unused=true").code == "exchange-in-use"
    assert http.request("DELETE", "bindings", wanted).status == 204
    assert http.request("DELETE", "bindings", wanted).code == "no-such-binding"
    assert http.get("bindings?source=logs").json["items"][0]["exchange"] == "amq.fanout"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("exchanges", {"name": "amq.mine"}, 403, "exchange-reserved"),
        ("exchanges", {"name": "x", "type": "strange"}, 400, "invalid-argument"),
        ("exchanges", {"name": "logs", "type": "direct"}, 409, "exchange-differs"),
        ("exchanges", {"name": ""}, 403, "exchange-reserved"),
        ("exchanges", {"name": "x", "typo": 1}, 400, "malformed-body"),
        ("exchanges", {"name": "x", "arguments": {str(n): n for n in range(101)}}, 400, "invalid-argument"),
        ("exchanges", {"name": "x", "arguments": {"a": "a" * 20_000}}, 400, "invalid-argument"),
        ("bindings", {"source": "logs"}, 400, "malformed-body"),
        ("bindings", {"source": "logs", "queue": "q", "exchange": "amq.fanout"}, 400, "malformed-body"),
        ("bindings", {"source": "", "queue": "q"}, 403, "default-exchange"),
        ("bindings", {"source": "nowhere", "queue": "q"}, 404, "no-such-exchange"),
        ("bindings", {"source": "logs", "queue": "nobody"}, 404, "no-such-queue"),
        ("bindings", {"source": "logs", "queue": "q", "key": "k" * 256}, 400, "invalid-argument"),
        ("exchanges/nowhere/messages", {"text": "m"}, 404, "no-such-exchange"),
        ("exchanges/inner/messages", {"text": "m"}, 403, "exchange-internal"),
        ("exchanges/logs/messages", {"text": "m", "topic": "t"}, 400, "malformed-body"),
        ("exchanges/logs/messages", {"text": "m", "partition": 1}, 400, "malformed-body"),
        ("exchanges/logs/messages", {"messages": []}, 400, "malformed-body"),
        ("exchanges/logs/messages?mandatory=true", {"text": "m", "routing_key": "k"}, 404, "unroutable"),
    ],
)
def test_what_will_not_do_is_refused_by_name(
    server: RunningServer, http: HttpClient, path: str, body: object, status: int, code: str
) -> None:
    server.declare("q")
    declared(http, "logs")
    declared(http, "inner", internal=True)
    answer = http.post(path, body)
    assert (answer.status, answer.code) == (status, code)


def test_a_publish_says_how_many_messages_were_routed(server: RunningServer, http: HttpClient) -> None:
    server.declare("q")
    declared(http, "logs")
    http.post("bindings", {"source": "logs", "queue": "q", "key": "eu.*"})
    messages = [{"text": key, "routing_key": key} for key in ("eu.1", "us.1", "eu.2", "eu.a/b+#")]
    assert http.post("exchanges/logs/messages", {"messages": messages}).json == {"accepted": 4, "routed": 3}
    assert http.post("exchanges/logs/messages?mandatory=true", {"messages": messages}).code == "unroutable"
    assert http.post("exchanges/amq.default/messages", {"text": "direct", "routing_key": "q"}).json["routed"] == 1
    found = http.receive("q", max=10)
    assert [(each["topic"], each["text"]) for each in found] == [
        ("$exchange/logs/eu/1", "eu.1"),
        ("$exchange/logs/eu/2", "eu.2"),
        ("$exchange/logs/eu/a.b%2B%23", "eu.a/b+#"),
        ("$exchange//q", "direct"),
    ]


def test_a_publish_by_headers_and_by_topic_of_an_exchange(server: RunningServer, http: HttpClient) -> None:
    server.declare("red")
    server.declare("topic", topics=["a/+"])
    http.post("bindings", {"source": "amq.headers", "queue": "red", "arguments": {"colour": "red", "n": 1}})
    sent = {"text": "m", "headers": {"colour": "red", "n": "1"}}
    assert http.post("exchanges/amq.headers/messages", sent).json["routed"] == 1
    assert http.post("exchanges/amq.headers/messages", {"text": "m"}).json["routed"] == 0
    assert http.post("exchanges/amq.topic/messages", {"text": "m", "routing_key": "a.b"}).json["routed"] == 1
    assert http.post("topics/$exchange%2Famq.topic%2Fa%2Fc/messages", {"text": "m"}).json["matched"] == 1
    assert [each["topic"] for each in http.receive("topic", max=10)] == ["a/b", "a/c"]
