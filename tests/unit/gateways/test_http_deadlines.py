"""How long a client may leave a request unfinished, and in how many writes it is answered."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.http_gateway import DEADLINE_S, HttpSetup, RunningHttp, running_http
from uvicorn.protocols.http.flow_control import FlowControl

from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.server.cycle import Cycle

_SHORT_S, _LONG_S = 0.2, 60.0
_HEAD = b"POST /api/v1/queues/q/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n"
_WHOLE = _HEAD + b'\r\n{"text":"a"}'


@contextmanager
def _connected(head_s: float, stall_s: float) -> Iterator[tuple[RunningHttp, socket.socket]]:
    options = HttpOptions(head_timeout_s=head_s, stall_timeout_s=stall_s)
    with (
        tempfile.TemporaryDirectory() as directory,
        running_http(Path(directory), HttpSetup(options)) as http,
        socket.create_connection(("127.0.0.1", http.port), DEADLINE_S) as client,
    ):
        yield http, client


def _rest(client: socket.socket) -> bytes:
    """All that comes until the server closes."""
    return b"".join(iter(lambda: client.recv(65536), b""))


def test_half_a_head_is_answered_when_its_time_is_over() -> None:
    with _connected(_SHORT_S, _LONG_S) as (_, client):
        client.sendall(_HEAD)
        assert _rest(client).startswith(b"HTTP/1.1 408 ")


def test_who_says_nothing_is_let_go_without_a_word() -> None:
    with _connected(_SHORT_S, _LONG_S) as (_, client):
        assert _rest(client) == b""


def test_a_body_that_stalls_ends_the_connection() -> None:
    with _connected(_LONG_S, _SHORT_S) as (_, client):
        client.sendall(_WHOLE[:-3])
        assert _rest(client).startswith(b"HTTP/1.1 408 ")


def test_a_request_that_came_in_time_leaves_no_deadline_behind() -> None:
    with _connected(_SHORT_S, _SHORT_S) as (http, client):
        for _ in range(2):
            client.sendall(_WHOLE)
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
            http.wait(asyncio.sleep(2 * _SHORT_S))


def test_who_asks_nothing_more_is_let_go() -> None:
    options = HttpOptions(head_timeout_s=_LONG_S, stall_timeout_s=_LONG_S, keep_alive_s=1.0)
    with (
        tempfile.TemporaryDirectory() as directory,
        running_http(Path(directory), HttpSetup(options)) as http,
        socket.create_connection(("127.0.0.1", http.port), DEADLINE_S) as client,
    ):
        for _ in range(2):
            client.sendall(_WHOLE)
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert _rest(client) == b""


def test_half_a_head_behind_an_answer_has_the_time_of_a_head() -> None:
    with _connected(_SHORT_S, _LONG_S) as (_, client):
        client.sendall(_WHOLE + _HEAD)
        answers = _rest(client)
        assert answers.startswith(b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 408 " in answers


def test_a_shorter_deadline_is_not_late_because_a_longer_one_was_set_before() -> None:
    with _connected(_SHORT_S, _LONG_S) as (_, client):
        client.sendall(_WHOLE)
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        client.sendall(_HEAD)
        assert _rest(client).startswith(b"HTTP/1.1 408 ")


class _Written(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))


@pytest.mark.parametrize("size", [0, 4, 64 << 10, (64 << 10) + 1])
def test_a_short_answer_leaves_with_its_head(size: int) -> None:
    async def writes() -> list[bytes]:
        below = _Written()
        cycle = Cycle({"method": "GET"}, below, FlowControl(below), True, False, lambda: None)
        await cycle.answer(200, (), b"x" * size, b"text/plain", b"own: line\r\n")
        return below.writes

    body = b"x" * size
    head = b"HTTP/1.1 200 OK\r\nown: line\r\ncontent-length: %d\r\ncontent-type: text/plain\r\n\r\n" % size
    assert asyncio.run(writes()) == ([head + body] if size <= 64 << 10 else [head, body])


def test_answers_without_a_body_and_long_ones_come_whole(http: RunningHttp) -> None:
    http.declare()
    http.put("q", b"x" * 100_000)
    received = http.post("/queues/q/receive", {"max": 1})
    assert received.json["messages"][0]["text"] == "x" * 100_000
    raw = {"Accept": "application/octet-stream"}
    assert http.post("/queues/q/receive", {"max": 1}, raw).status == 204
    assert http.request("HEAD", "/queues").status == 200
