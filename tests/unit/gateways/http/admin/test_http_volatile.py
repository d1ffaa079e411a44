"""Queues that are in memory alone, as HTTP has them: like any other, and marked in lists."""

from __future__ import annotations

from tests.support.http_client import HttpClient
from tests.support.http_server import RunningServer
from tests.support.volatile import declared


def test_http_lists_publishes_receives_and_deletes(server: RunningServer, http: HttpClient) -> None:
    server.declare("d")
    server.call(lambda: declared(server.broker, "v"))
    assert [(queue["name"], queue["is_volatile"]) for queue in http.get("queues").json["items"]] == [
        ("d", False),
        ("v", True),
    ]
    assert http.get("queues/v").json["is_volatile"]
    assert http.post("queues/v/messages", {"text": "hello"}).status == 200
    assert [each["text"] for each in http.get("queues/v/messages").json["messages"]] == ["hello"]
    [message] = http.post("queues/v/receive", {"group": "default"}).json["messages"]
    assert message["text"] == "hello"
    assert http.post("queues/v/ack", {"receipts": [message["receipt"]]}).status == 200
    assert http.get("queues/v").json["depth"] == 0
    assert http.delete("queues/v").status == 204
    assert [queue["name"] for queue in http.get("queues").json["items"]] == ["d"]
