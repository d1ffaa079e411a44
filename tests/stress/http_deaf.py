"""Clients of HTTP that cost a server memory and give nothing: bodies that never end, large answers and event streams
that nobody reads. The server stays within its budget, and serves others.

python -m tests.stress.http_deaf --count 500"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.support.live_server import LiveServer, live_server

import penstock
from penstock.client.http.errors import HttpRefused

MEMORY_BYTES = 64 << 20
# What everyone shares, the interpreter's ups and downs; of a connection what lies below its marks, and the parser.
SLACK_BYTES, CONNECTION_BYTES = 96 << 20, 160 << 10
VALUE = "v" * 500_000
_TRIES, _AGAIN_S = 200, 0.1
_HEAD = "{method} /api/v1/queues/q/{path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"


def exhaust_http(place: Path, count: int) -> str:
    """A third of `count` each send half a body, ask for much, and follow."""
    settings = [f"http.memory_size={MEMORY_BYTES}", "storage.disk_reserve=0"]
    with live_server(place, settings) as server, ExitStack() as opened:
        client = opened.enter_context(penstock.Client(f"http://127.0.0.1:{server.ports['http']}"))
        client.create_queue("q", {"partitions": 1})
        for _ in range(8):
            client.publish("q", VALUE)
        before_bytes = server.resident_bytes
        for number in range(count):
            _burden(server, opened, number)
        for _ in range(20):
            _publish(client)
        grown, allowed = server.resident_bytes - before_bytes, _allowed_bytes(count)
        assert grown <= allowed, f"grew by {grown >> 20} MiB, {allowed >> 20} were allowed"
        return f"{count} that give nothing over HTTP cost {grown >> 20} MiB of {allowed >> 20}"


def _publish(client: penstock.Client) -> None:
    """Bodies that are still coming may have all the room until one of them is refused, and it says: again soon."""
    for _ in range(_TRIES):
        try:
            client.publish("q", VALUE)
            return
        except HttpRefused as refused:
            if refused.status != 503:
                raise
            time.sleep(_AGAIN_S)
    raise AssertionError(f"nobody else was served for {_TRIES * _AGAIN_S:.0f} s")


def _allowed_bytes(count: int) -> int:
    # A body is twice in memory for a moment, as it comes and as it is read.
    return 2 * MEMORY_BYTES + SLACK_BYTES + count * CONNECTION_BYTES


def _burden(server: LiveServer, opened: ExitStack, number: int) -> None:
    client = opened.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(5)
    with suppress(OSError):  # whoever takes too much may be cut off
        client.connect(("127.0.0.1", server.ports["http"]))
        match number % 3:
            case 0:
                said = "Content-Type: text/plain\r\nContent-Length: 4000001\r\n"
                client.sendall(_HEAD.format(method="POST", path="messages", more=said).encode() + bytes(4_000_000))
            case 1:
                client.sendall(_HEAD.format(method="GET", path="messages?limit=8", more="").encode())
            case _:
                client.sendall(_HEAD.format(method="GET", path="events?start=earliest", more="").encode())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    with tempfile.TemporaryDirectory() as directory:
        print(exhaust_http(Path(directory), parser.parse_args(arguments).count))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
