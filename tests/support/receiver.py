"""A receiver of webhooks on a free loopback port: answers as it is told to, and keeps what came."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import msgspec


@dataclass
class Request:
    headers: Mapping[str, str]
    body: bytes

    @property
    def facts(self) -> dict[str, object]:
        found = msgspec.json.decode(self.body)
        assert isinstance(found, dict)
        return found


@dataclass
class Receiver:
    answers: list[int]
    """of the next requests; 200 for those behind them"""
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    opened: threading.Event = field(default_factory=threading.Event)
    """requests are answered once it is set"""

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]

    @property
    def events(self) -> list[object]:
        return [request.facts["event"] for request in self.requests]


class _Handler(BaseHTTPRequestHandler):
    receiver: ClassVar[Receiver]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        receiver = self.receiver
        receiver.requests.append(Request(dict(self.headers.items()), body))
        receiver.opened.wait(30)
        code = receiver.answers.pop(0) if receiver.answers else 200
        self.send_response(code)
        if code in (301, 302, 307):
            self.send_header("Location", f"{receiver.url}/elsewhere")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: tests have no log of requests."""


@contextmanager
def receiving(*answers: int, silent: bool = False) -> Iterator[Receiver]:
    """`silent`: nobody is answered before `opened` is set."""
    receiver = Receiver(list(answers))
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hooks"
    if not silent:
        receiver.opened.set()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.opened.set()
        server.shutdown()
        thread.join()
        server.server_close()
