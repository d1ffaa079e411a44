"""The readers of event streams against a server that says what a test wants: all is counted, and what is wrong is
found."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.http.reader import Readers, compiled, reading
from bench.mqtt.link import PeerFailed

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")

_OK = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
_FIRST = b"retry: 2000\nid: 0:7\n\n\n"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("reader"))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(number: int) -> bytes:
    return b'id: 0:%d\ndata: {"text":"id: 0:99"}\n\n' % number


@contextmanager
def _stream(reader: Path, *parts: bytes, clients: int = 1, then_close: bool = False) -> Iterator[Readers]:
    """Each client is sent the parts, a write each."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, parts, clients, then_close))
        thread.start()
        try:
            with reading(reader, ("127.0.0.1", server.getsockname()[1]), "/events", clients) as readers:
                yield readers
        finally:
            thread.join()


def _serve(server: socket.socket, parts: Sequence[bytes], clients: int, then_close: bool) -> None:
    accepted = [server.accept()[0] for _ in range(clients)]
    for client in accepted:
        client.recv(4096)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            client.sendall(part)
    for client in accepted:
        if not then_close:
            client.recv(1)
        client.close()


def test_all_events_of_all_clients_are_counted(reader: Path) -> None:
    with _stream(reader, _OK + _chunk(_FIRST), _chunk(_event(8) + _event(9)), clients=3) as readers:
        readers.wait_for(6)
        assert readers.read().least_events == 2


def test_events_are_the_same_however_the_bytes_are_split(reader: Path) -> None:
    whole = _OK + _chunk(_FIRST) + _chunk(b":\n\n") + _chunk(_event(8)) + _chunk(_event(9)[:5]) + _chunk(_event(9)[5:])
    with _stream(reader, *(whole[at : at + 1] for at in range(len(whole)))) as readers:
        readers.wait_for(2)


def test_an_event_that_is_missing_fails_the_run(reader: Path) -> None:
    found = pytest.raises(PeerFailed, match="1 events came out of order")
    with _stream(reader, _OK + _chunk(_FIRST), _chunk(_event(8) + _event(10))) as readers, found:
        readers.wait_for(2)


def test_a_stream_that_ends_fails_the_run(reader: Path) -> None:
    found = pytest.raises(PeerFailed, match="1 streams were closed")
    with _stream(reader, _OK + _chunk(_FIRST), then_close=True) as readers, found:
        readers.wait_for(1)


def test_a_refusal_fails_the_run(reader: Path) -> None:
    refused = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
    with pytest.raises(PeerFailed, match="ended with 1"), _stream(reader, refused):
        pass
