"""What a peer can make the server hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http_client import HttpClient, RawClient
from tests.support.live_server import LiveServer, live_server

_GIGABYTE = 1 << 30
_CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
# A body of 16 MiB, what is made of it, and what the allocator keeps.
_ROOM_BYTES = 100 << 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    with live_server(tmp_path / "server", ["storage.disk_reserve=0", "log.level=warning"]) as made:
        yield made


def sent(server: LiveServer, chunk: bytes, limit_bytes: int, *headers: str) -> int:
    """How much was taken before the server had enough."""
    taken = 0
    with RawClient(("127.0.0.1", server.ports["http"])) as raw:
        raw.head("POST", "/api/v1/queues/q/messages", "Transfer-Encoding: chunked", *headers)
        while taken < limit_bytes and raw.try_send(chunk):
            taken += len(chunk)
    return taken


@pytest.mark.parametrize("kind", ["application/json", "image/png", "application/x-ndjson"])
def test_a_gigabyte_is_refused_at_sixteen_megabytes(server: LiveServer, kind: str) -> None:
    before = server.resident_bytes
    assert sent(server, _CHUNK, _GIGABYTE, f"Content-Type: {kind}") < 64 << 20
    assert server.resident_bytes < before + _ROOM_BYTES
    client = HttpClient(("127.0.0.1", server.ports["http"]))
    assert client.publish("q", "still here")
    client.close()


def test_lines_that_are_never_messages_take_nothing(server: LiveServer) -> None:
    before = server.resident_bytes
    line = b"1000\r\n" + b"x\n" * 0x800 + b"\r\n"
    sent(server, line, 2 << 20, "Content-Type: application/x-ndjson")
    assert server.resident_bytes < before + _ROOM_BYTES
