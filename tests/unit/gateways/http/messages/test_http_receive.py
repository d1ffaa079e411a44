"""Taking messages of a group over HTTP."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from tests.support.http_client import HttpClient
from tests.support.http_server import RunningServer

from penstock.gateways.http.server.protocol import HttpProtocol


@pytest.fixture(autouse=True)
def _queue(server: RunningServer) -> None:
    server.declare("q", retry_policy={"initial_backoff": 0})


class Waiting(threading.Thread):
    """A long poll of another client."""

    def __init__(self, server: RunningServer, **wanted: object) -> None:
        super().__init__()
        self._client, self._wanted = server.http(), wanted
        self.found: list[dict[str, Any]] = []
        self.start()
        server.until(lambda: any(queue.groups for queue in server.broker.queues))

    def run(self) -> None:
        self.found = self._client.receive("q", **self._wanted)

    def result(self) -> list[str]:
        self.join(30)
        return [message["text"] for message in self.found]


def test_a_long_poll_wakes_when_a_message_comes(server: RunningServer, http: HttpClient) -> None:
    waiting = Waiting(server, wait="30s")
    http.publish("q", "at last")
    assert waiting.result() == ["at last"]


def test_a_long_poll_ends_with_nothing_when_its_time_is_over(http: HttpClient) -> None:
    assert http.receive("q", wait="10ms") == []


def test_a_client_that_leaves_while_it_waits_takes_nothing_with_it(server: RunningServer, http: HttpClient) -> None:
    with server.raw() as raw:
        body = b'{"wait": "30s", "visibility": "1h"}'
        raw.head("POST", "/api/v1/queues/q/receive", f"Content-Length: {len(body)}")
        raw.send(body)
        server.until(lambda: any(queue.groups for queue in server.broker.queues))
    server.until(lambda: server.works.http.connection_count == 0)
    http.publish("q", "x")
    [message] = http.receive("q")
    assert message["deliveries"] == 1


def test_nor_does_one_that_is_cut_off_after_it_sent_another_request_ahead(
    server: RunningServer, http: HttpClient
) -> None:
    with server.raw() as raw:
        body = b'{"wait": "30s", "visibility": "1h"}'
        for _ in range(2):
            raw.head("POST", "/api/v1/queues/q/receive", f"Content-Length: {len(body)}")
            raw.send(body)
        protocols = cast("set[HttpProtocol]", server.works.http._state.connections)
        server.until(lambda: any(protocol.pipeline for protocol in protocols))
        for protocol in list(protocols):
            server.call(protocol.sacrifice)
        server.until(lambda: server.works.http.connection_count == 0)
    http.publish("q", "x")
    [message] = http.receive("q")
    assert message["deliveries"] == 1


def test_messages_come_again_from_clients_that_leave_at_the_worst_moment(
    server: RunningServer, http: HttpClient
) -> None:
    body = b'{"wait": "30s", "visibility": "200ms"}'
    for number in range(20):
        with server.raw() as raw:
            raw.head("POST", "/api/v1/queues/q/receive", f"Content-Length: {len(body)}")
            raw.send(body)
            http.publish("q", str(number))
    found: set[str] = set()
    while len(found) < 20:
        some = http.receive("q", wait="20s", visibility="1h")
        assert some, found
        found |= {message["text"] for message in some}


def test_each_group_gets_every_message(http: HttpClient) -> None:
    http.publish("q", "a", "b")
    for group in ("one", "two"):
        assert [message["text"] for message in http.receive("q", group=group)] == ["a", "b"]
        assert http.receive("q", group=group) == []


def test_a_message_that_is_not_settled_comes_again(http: HttpClient) -> None:
    http.publish("q", "x")
    [first] = http.receive("q", visibility="50ms")
    [again] = http.receive("q", wait="20s")
    assert (first["deliveries"], again["deliveries"]) == (1, 2)
    assert first["receipt"] != again["receipt"]


def test_a_new_group_begins_where_it_is_told(http: HttpClient) -> None:
    http.publish("q", "before")
    assert http.receive("q", group="late", start="latest") == []
    http.publish("q", "after")
    assert [message["text"] for message in http.receive("q", group="late")] == ["after"]
    assert [message["text"] for message in http.receive("q", group="back", start="1h")] == ["before", "after"]


def test_not_more_than_asked_for(http: HttpClient) -> None:
    http.publish("q", *map(str, range(12)))
    assert [len(http.receive("q", max=5)), len(http.receive("q")), len(http.receive("q"))] == [5, 7, 0]


def test_large_messages_come_a_few_at_a_time(server: RunningServer, http: HttpClient) -> None:
    server.declare("large", limits={"max_message_size": "15MiB"})
    for _ in range(14):
        assert http.post("queues/large/messages", bytes(3 << 19), content_type="image/png").status == 200
    assert [len(http.receive("large", max=1000)) for _ in range(3)] == [12, 2, 0]


def test_values_come_as_text_or_as_asked_for(http: HttpClient) -> None:
    http.publish("q", "x")
    [message] = http.receive("q", group="a", encoding="base64")
    assert message["base64"] == "eA==" and "text" not in message
    http.post("queues/q/messages", b"\xff", content_type="application/octet-stream")
    [_, binary] = http.receive("q", group="b")
    assert binary["base64"] == "/w==" and "text" not in binary


def test_a_raw_message_is_the_body_and_none_is_no_content(http: HttpClient) -> None:
    accept = "application/octet-stream"
    assert http.post("queues/q/receive", {"max": 1}, accept=accept).status == 204
    sent = {"text": "x", "headers": {"ok": "1", "not a header's name": "2", "line": "a\r\nb"}, "content_type": "a\r\nb"}
    http.post("queues/q/messages", sent)
    raw = http.post("queues/q/receive", {"max": 1}, accept=accept)
    assert (raw.status, raw.body, raw.headers["content-type"]) == (200, b"x", accept)
    assert raw.headers["penstock-header-ok"] == "1" and "penstock-header-line" not in raw.headers
    assert http.post("queues/q/receive", {}, accept=accept).json["field"] == "max"


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"wait": "31s"}, "wait"),
        ({"wait": -1}, "wait"),
        ({"wait": "soon"}, "wait"),
        ({"visibility": "13h"}, "visibility"),
        ({"visibility": 1e300}, "visibility"),
    ],
)
def test_times_that_will_not_do_are_named(http: HttpClient, wanted: dict[str, object], field: str) -> None:
    answer = http.post("queues/q/receive", wanted)
    assert (answer.code, answer.json["field"]) == ("invalid-argument", field)


@pytest.mark.parametrize("wanted", [{"max": 0}, {"max": 1001}, {"encoding": "hex"}, {"group": 1}, {"unknown": 1}])
def test_fields_that_will_not_do_are_refused(http: HttpClient, wanted: dict[str, object]) -> None:
    assert http.post("queues/q/receive", wanted).code == "malformed-body"


def test_a_queue_or_a_group_that_cannot_be_is_refused(http: HttpClient) -> None:
    assert http.post("queues/nowhere/receive", {}).code == "no-such-queue"
    for group in ("", "a\0b", "g" * 1000):
        assert http.post("queues/q/receive", {"group": group}).code == "invalid-argument"
    assert http.post("queues/q/receive", {"start": "yesterday"}).code == "invalid-argument"
    assert http.post("queues/q/receive", b"x", content_type="text/plain").code == "unsupported-media-type"


def test_nothing_is_handed_out_while_a_queue_is_paused(server: RunningServer, http: HttpClient) -> None:
    http.publish("q", "x")
    assert http.post("queues/q/pause").status == 204
    assert http.receive("q") == []
    waiting = Waiting(server, wait="30s")
    assert http.post("queues/q/resume").status == 204
    assert waiting.result() == ["x"]


@pytest.mark.parametrize("deleted", ["queues/q", "queues/q/groups/default"])
def test_a_long_poll_ends_when_its_queue_or_group_is_deleted(
    server: RunningServer, http: HttpClient, deleted: str
) -> None:
    client, answers = server.http(), list[int]()
    thread = threading.Thread(target=lambda: answers.append(client.post("queues/q/receive", {"wait": "30s"}).status))
    thread.start()
    server.until(lambda: any(queue.groups for queue in server.broker.queues))
    assert http.delete(deleted).status == 204
    thread.join(20)
    assert answers == [404]
