"""What all clients of HTTP together may make the server keep."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest
from tests.support.faults import wait_until
from tests.support.http_gateway import DEADLINE_S, HttpSetup, RunningHttp, running_http

from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.server.memory import HttpMemory

_MEMORY, _BODY = 1 << 20, 400 << 10
_PATH = "/api/v1/queues/q/messages"


@pytest.fixture
def http(tmp_path: Path) -> Iterator[RunningHttp]:
    with running_http(tmp_path, HttpSetup(HttpOptions(memory_bytes=_MEMORY, max_body_bytes=_BODY))) as running:
        running.declare(partitions=1)
        yield running


def _memory(http: RunningHttp) -> HttpMemory:
    return http.gateway.app.state.memory


def _until(http: RunningHttp, is_so: Callable[[HttpMemory], bool]) -> None:
    wait_until(lambda: http.call(lambda: is_so(_memory(http))), "memory to be as it should")


def _refusals(http: RunningHttp) -> int:
    return http.call(lambda: http.gateway.app.state.counters.throttled["memory"])


def _connected(http: RunningHttp, opened: ExitStack) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(DEADLINE_S)
    client.connect(("127.0.0.1", http.port))
    return opened.enter_context(client)


def _head(length: int | None, kind: str = "application/octet-stream") -> bytes:
    said = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST {_PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{said}\r\n\r\n".encode()


def _answer(client: socket.socket) -> bytes:
    return client.recv(65536)


def test_bodies_beyond_what_all_may_send_are_refused_before_they_are_read(http: RunningHttp) -> None:
    with ExitStack() as opened:
        for _ in range(3):
            _connected(http, opened).sendall(_head(_BODY) + bytes(_BODY - 1000))
        _until(http, lambda memory: memory.incoming.used_bytes > 3 * _BODY - 200_000)
        late = _connected(http, opened)
        late.sendall(_head(_BODY) + bytes(1000))
        said = _answer(late)
        assert said.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1\r\n" in said and b"http.memory_size" in said
        small = _connected(http, opened)
        small.sendall(_head(3) + b"abc")
        assert _answer(small).startswith(b"HTTP/1.1 200 ")
        assert http.call(lambda: _memory(http).incoming.used_bytes) <= 3 * _BODY
        assert _refusals(http) == 1
    _until(http, lambda memory: memory.incoming.used_bytes == 0)
    with ExitStack() as opened:
        again = _connected(http, opened)
        again.sendall(_head(_BODY) + bytes(_BODY))
        assert _answer(again).startswith(b"HTTP/1.1 200 ")
    _until(http, lambda memory: memory.incoming.used_bytes == 0)


def test_bodies_and_lines_of_no_known_length_count_as_they_grow(http: RunningHttp) -> None:
    chunk = b"%x\r\n%b\r\n" % (60_000, b"v" * 60_000)
    with ExitStack() as opened:
        found = []
        for number in range(6):
            client = _connected(http, opened)
            client.sendall(_head(None, "application/x-ndjson" if number % 2 else "application/octet-stream"))
            client.sendall(chunk * 6)
            found.append(client)
        wait_until(lambda: _refusals(http) >= 1, "somebody refused")
        assert http.call(lambda: _memory(http).incoming.used_bytes) <= 3 * _BODY
    _until(http, lambda memory: memory.incoming.used_bytes == 0)


def test_clients_that_do_not_take_their_answers_are_cut_off_when_all_is_spent(http: RunningHttp) -> None:
    for _ in range(8):
        http.put("q", bytes(300_000))
    ask = f"GET {_PATH}?limit=8 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with ExitStack() as opened:
        deaf = [_connected(http, opened) for _ in range(8)]
        for client in deaf:
            client.sendall(ask)
        wait_until(lambda: _refusals(http) >= 1, "somebody refused")
        assert http.call(lambda: _memory(http).outgoing.used_bytes) <= _MEMORY // 2
        quick = _connected(http, opened)
        quick.sendall(_head(3) + b"abc")
        assert _answer(quick).startswith(b"HTTP/1.1 200 ")
    _until(http, lambda memory: memory.outgoing.used_bytes == 0 and not memory._deaf)


def test_event_streams_that_are_not_read_count(http: RunningHttp) -> None:
    with ExitStack() as opened:
        deaf = [_connected(http, opened) for _ in range(4)]
        for client in deaf:
            client.sendall(b"GET /api/v1/queues/q/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert _answer(client).startswith(b"HTTP/1.1 200 ")
        for _ in range(20):
            http.put("q", bytes(200_000))
        _until(http, lambda memory: memory.outgoing.used_bytes > 0)
        assert http.call(lambda: _memory(http).outgoing.used_bytes) <= _MEMORY // 2
    _until(http, lambda memory: memory.outgoing.used_bytes == 0 and not memory._deaf)


def test_requests_that_are_sent_ahead_count_until_they_are_answered(http: RunningHttp) -> None:
    ask = b"GET /api/v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
    wait = b'{"wait": "30s"}'
    first = f"POST /api/v1/queues/q/receive HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(wait)}\r\n"
    first += "Content-Type: application/json\r\n\r\n"
    with ExitStack() as opened:
        for _ in range(12):
            _connected(http, opened).sendall(first.encode() + wait + ask * 90)
        wait_until(lambda: _refusals(http) == 12 - 4, "somebody cut off")
        assert 2 * _BODY < http.call(lambda: _memory(http).incoming.used_bytes) <= 3 * _BODY
        quick = _connected(http, opened)
        quick.sendall(ask * 50)
        said = b""
        while said.count(b"HTTP/1.1 404 ") < 50:
            said += _answer(quick)
    for _ in range(12):
        # What the first requests wait for: before they are answered nothing is read, not even an end.
        http.put("q", b"v")
    _until(http, lambda memory: memory.incoming.used_bytes == 0)


def test_requests_that_are_sent_ahead_are_read_when_those_before_are_answered(http: RunningHttp) -> None:
    """However many there are, and however long their bodies."""
    with ExitStack() as opened:
        client = _connected(http, opened)
        bodies = [bytes([number % 256]) * size for number, size in enumerate([1, 100_000, 3, 300_000] * 10)]
        writing = Thread(target=client.sendall, args=[b"".join(_head(len(body)) + body for body in bodies)])
        writing.start()
        said = b""
        while said.count(b"HTTP/1.1 200 ") < len(bodies):
            said += _answer(client)
        writing.join()
    assert re.findall(rb'"id":"q@\d+:0:(\d+)"', said) == [b"%d" % number for number in range(len(bodies))]
    _until(http, lambda memory: memory.incoming.used_bytes == 0)


def test_a_head_that_comes_in_part_behind_a_body_is_not_taken_for_a_large_one(tmp_path: Path) -> None:
    whole = _head(20_000) + bytes(20_000)
    with running_http(tmp_path, HttpSetup(HttpOptions(max_head_bytes=4096))) as http, ExitStack() as opened:
        http.declare(partitions=1)
        client = _connected(http, opened)
        client.sendall(whole + whole[:60])
        assert _answer(client).startswith(b"HTTP/1.1 200 ")
        client.sendall(whole[60:])
        assert _answer(client).startswith(b"HTTP/1.1 200 ")
        # A large one is refused there, too; without a word while the request before it is not answered.
        client.sendall(whole + _head(3).replace(b"Host", b"X: " + b"x" * 5000 + b"\r\nHost") + b"abc")
        said = b""
        while some := _answer(client):
            said += some
        assert said.count(b"HTTP/1.1 200 ") <= 1
