"""A real server that may open no further file for a while: it stays alive, and acknowledges again by itself."""

from __future__ import annotations

import os
import random
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.crash.rounds import Report
from tests.support.faults import wait_until
from tests.support.http_client import HttpClient
from tests.support.live_server import LiveServer, live_server

SMALL = (
    "storage.journal_file_size=1MiB",
    "storage.journal_size=4MiB",
    "storage.checkpoint_size=1MiB",
    "storage.disk_reserve=0",
)
# Segments of this many queues are open: more than the server may keep open.
QUEUES = 12
PUBLISHES, SIZE_BYTES = 40, 100_000


@contextmanager
def idle_connections(server: LiveServer, count: int) -> Iterator[None]:
    opened = [socket.create_connection(server.address) for _ in range(count)]
    try:
        yield
    finally:
        for sock in opened:
            sock.close()


class Publisher(threading.Thread):
    """Over one connection, until all are acknowledged."""

    def __init__(self, server: LiveServer) -> None:
        super().__init__(daemon=True)
        self._address = "127.0.0.1", server.ports["http"]
        self._http = HttpClient(self._address)
        assert self._http.get("/ready").status == 200  # it is connected before descriptors lack
        self.statuses: list[int] = []

    def run(self) -> None:
        for number in range(PUBLISHES):
            answer = self._http.post(f"queues/q{number % QUEUES}/messages", {"text": "x" * SIZE_BYTES})
            self.statuses.append(answer.status)
        self._http.close()


@contextmanager
def without_descriptors(server: LiveServer) -> Iterator[None]:
    """The limit falls below what is open: whatever is to be opened is refused."""
    pid = server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  # a count, not paths
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (max(8, used // 2), before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def exhausted(place: Path, seconds: float) -> str:
    """A server published to while it has no descriptors for so long; what it said."""
    with live_server(place, SMALL) as server:
        publisher = Publisher(server)
        with without_descriptors(server):
            publisher.start()
            time.sleep(seconds)
        publisher.join(60.0)
        assert publisher.statuses == [200] * PUBLISHES, publisher.statuses
        http = HttpClient(("127.0.0.1", server.ports["http"]))
        wait_until(lambda: http.get("/ready").status == 200, "the server is ready")
        assert http.get("/health").status == 200
        held = http.get("queues").json["items"]
        assert len(held) >= QUEUES
        http.close()
        return server.said()


def exhaustion_rounds(place: Path, seed: int, count: int, report: Report) -> None:
    rng = random.Random(seed)
    for number in range(count):
        said = exhausted(place / str(number), rng.choice((0.5, 2.0, 5.0)))
        assert "journal failed" not in said, said[-3000:]
        assert "thread ended" not in said, said[-3000:]
        report(f"{number + 1} servers")
