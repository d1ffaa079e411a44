"""Consuming a queue over a WebSocket."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.http_gateway import RunningHttp
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection


class Member:
    """What a client sees: messages, and what came of its settlements, which may come in between."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._messages: list[dict[str, Any]] = []
        self._reports: list[dict[str, Any]] = []

    def take(self, count: int) -> list[dict[str, Any]]:
        self._read_until(lambda: len(self._messages) >= count)
        found, self._messages = self._messages[:count], self._messages[count:]
        return found

    def say(self, frame: object) -> dict[str, Any]:
        self._socket.send(frame if isinstance(frame, str) else json.dumps(frame))
        self._read_until(lambda: bool(self._reports))
        return self._reports.pop()

    def _read_until(self, is_there: Callable[[], bool]) -> None:
        while not is_there():
            frame = json.loads(self._socket.recv(10))
            (self._messages if "receipt" in frame else self._reports).append(frame)


@contextmanager
def member(http: RunningHttp, query: str = "group=g") -> Iterator[Member]:
    with http.websocket(f"/queues/q/stream?{query}") as socket:
        yield Member(socket)


def receipts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["receipt"] for message in messages]


def test_messages_come_and_are_settled_by_receipt(http: RunningHttp) -> None:
    http.declare()
    with member(http) as client:
        http.put("q", b"a", b"b")
        messages = client.take(2)
        assert [(message["text"], message["deliveries"]) for message in messages] == [("a", 1), ("b", 1)]
        report = client.say({"ack": receipts(messages)})
        assert (report["settled"], report["stale"]) == (2, 0)
        assert http.unsettled() == 0
        assert client.say({"ack": receipts(messages)})["stale"] == 2


def test_no_more_come_than_may_be_unsettled(http: RunningHttp) -> None:
    http.declare()
    http.put("q", *(b"%d" % number for number in range(10)))
    with member(http, "group=g&prefetch=3") as client:
        first = client.take(3)
        [group] = http.broker.queue("q").groups.values()
        assert [each.held for each in group.consumers.values()] == [3]
        client.say({"ack": receipts(first[:2])})
        assert [message["text"] for message in client.take(2)] == ["3", "4"]


def test_what_was_not_settled_comes_back_when_it_closes(http: RunningHttp) -> None:
    http.declare()
    http.put("q", b"a")
    with member(http) as client:
        [held] = client.take(1)
    with member(http) as client:
        [message] = client.take(1)
        assert (message["text"], message["deliveries"]) == ("a", 2)
        assert client.say({"ack": [held["receipt"]]})["results"][0]["status"] == "stale"
        assert client.say({"ack": [message["receipt"]]})["settled"] == 1


def test_nack_brings_it_again_and_reject_makes_a_dead_letter(http: RunningHttp) -> None:
    http.declare()
    http.put("q", b"a")
    with member(http) as client:
        [message] = client.take(1)
        assert client.say({"nack": [message["receipt"]], "delay": 0})["settled"] == 1
        [again] = client.take(1)
        assert again["deliveries"] == 2
        assert client.say({"extend": [again["receipt"]], "visibility": "1m"})["settled"] == 1
        assert client.say({"reject": [again["receipt"]], "reason": "no"})["settled"] == 1
    [letter] = http.get("/queues/$dlq$q/messages").json["messages"]
    assert letter["text"] == "a"


def test_a_receipt_of_the_stream_settles_over_http_too(http: RunningHttp) -> None:
    http.declare()
    http.put("q", b"a", b"b")
    with member(http, "group=g&prefetch=1") as client:
        assert http.post("/messages/ack", {"receipts": receipts(client.take(1))}).status == 200
        assert [message["text"] for message in client.take(1)] == ["b"]


def test_the_members_of_a_group_share_its_partitions(http: RunningHttp) -> None:
    http.declare(partitions=2)
    with member(http) as one, member(http) as other:
        [group] = http.broker.queue("q").groups.values()
        http.until(lambda: [len(member.partitions) for member in group.consumers.values()] == [1, 1])
        http.put("q", b"0", partition=0)
        http.put("q", b"1", partition=1)
        assert {one.take(1)[0]["text"], other.take(1)[0]["text"]} == {"0", "1"}


@pytest.mark.parametrize(
    "frame", ['{"ack": []}', "{}", "nonsense", '{"ack": ["x"], "nack": ["x"]}', '{"nack": ["x"], "delay": "soon"}']
)
def test_what_cannot_be_read_is_told_and_the_stream_goes_on(http: RunningHttp, frame: str) -> None:
    http.declare()
    with member(http) as client:
        assert client.say(frame)["error"]["status"] == 400
        http.put("q", b"a")
        assert client.take(1)[0]["text"] == "a"


@pytest.mark.parametrize("number", ["1-2-3", "99999999999999999999", "1-99999999999999999999", "1-1"])
def test_an_invented_receipt_settles_nothing(http: RunningHttp, number: str) -> None:
    http.declare()
    http.put("q", b"a")
    with member(http) as client:
        word = client.take(1)[0]["receipt"].rpartition("~")[2].partition("-")[0]
        report = client.say({"ack": [f"q@1:0:0~1~{word}-{number}"]})
        assert report["settled"] == 0
        assert report["results"][0]["status"] in ("gone", "stale", "malformed")


def test_a_stream_ends_with_its_queue_and_with_the_server(http: RunningHttp) -> None:
    http.declare()
    http.declare("other")
    with http.websocket("/queues/q/stream") as first, http.websocket("/queues/other/stream") as second:
        http.request("DELETE", "/queues/q")
        with pytest.raises(ConnectionClosed):
            first.recv(10)
        http.wait(http.gateway.drain())
        with pytest.raises(ConnectionClosed):
            second.recv(10)


def test_a_stream_of_no_queue_is_refused_before_it_opens(http: RunningHttp) -> None:
    with pytest.raises(InvalidStatus) as refused:
        http.websocket("/queues/none/stream")
    assert refused.value.response.status_code == 404
    http.declare()
    with pytest.raises(InvalidStatus) as refused:
        http.websocket("/queues/q/stream?prefetch=0")
    assert refused.value.response.status_code == 400
