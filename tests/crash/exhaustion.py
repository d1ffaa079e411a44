"""A real server that may open no further file for a while: it stays alive, and acknowledges again by itself."""

from __future__ import annotations

import http.client
import os
import random
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.crash.rounds import Report
from tests.support.faults import wait_until
from tests.support.http_client import HttpClient
from tests.support.live_server import LiveServer, live_server

import penstock

SMALL = (
    "storage.journal_file_size=1MiB",
    "storage.journal_size=4MiB",
    "storage.checkpoint_size=1MiB",
    "storage.disk_reserve=0",
)
# Segments of this many queues are open: more than the server may keep open.
QUEUES = 12
PUBLISHES, SIZE_BYTES = 40, 100_000
# So many of them before descriptors lack.
FIRST = 3


@contextmanager
def idle_connections(server: LiveServer, count: int) -> Iterator[None]:
    opened = [socket.create_connection(server.address) for _ in range(count)]
    try:
        yield
    finally:
        for sock in opened:
            sock.close()


def text(number: int) -> str:
    return f"{number} " + "x" * SIZE_BYTES


class Publisher(threading.Thread):
    """Over one connection, until all are acknowledged or the server is gone."""

    def __init__(self, server: LiveServer) -> None:
        super().__init__(daemon=True)
        self._address = "127.0.0.1", server.ports["http"]
        self._http = HttpClient(self._address)
        assert self._http.get("/ready").status == 200  # it is connected before descriptors lack
        self.statuses: list[int] = []
        self.sent = 0
        self.acknowledged: set[int] = set()

    def publish(self, until: int) -> None:
        for number in range(self.sent, until):
            self.sent += 1
            answer = self._http.post(f"queues/q{number % QUEUES}/messages", {"text": text(number)})
            self.statuses.append(answer.status)
            if answer.status == 200:
                self.acknowledged.add(number)

    def run(self) -> None:
        with suppress(OSError, http.client.HTTPException):  # it was killed
            self.publish(PUBLISHES)
        self._http.close()

    def check(self, found: list[int]) -> None:
        """Against what is there after a restart."""
        assert len(found) == len(set(found)), found
        missing = self.acknowledged - set(found)
        assert not missing, f"{len(missing)} acknowledged messages are missing, the first is {min(missing)}"
        assert set(found) <= set(range(self.sent)), found


def found_after_restart(place: Path) -> list[int]:
    """The numbers of all messages that a server has which is started again, with as many descriptors as it likes."""
    with (
        live_server(place / "again", SMALL, data=place / "data") as server,
        penstock.Client(f"http://127.0.0.1:{server.ports['http']}") as client,
    ):
        messages = [message for queue in client.queues() for message in client.browse(queue.name)]
        return sorted(int(message.value.partition(b" ")[0]) for message in messages)


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
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def exhausted(place: Path, seconds: float, *, is_killed: bool = False) -> str:
    """A server published to while it has no descriptors for so long, and killed while it has none, if so; what it said.
    Everything that it acknowledged is there after a restart."""
    with live_server(place, SMALL) as server:
        publisher = Publisher(server)
        publisher.publish(FIRST)
        with without_descriptors(server):
            publisher.start()
            time.sleep(seconds)
            if is_killed:
                server.process.kill()
                server.process.wait()
        publisher.join(60.0)
        if not is_killed:
            _check_well(server, publisher)
    publisher.check(found_after_restart(place))
    return server.said()


def _check_well(server: LiveServer, publisher: Publisher) -> None:
    assert publisher.statuses == [200] * PUBLISHES, publisher.statuses
    client = HttpClient(("127.0.0.1", server.ports["http"]))
    wait_until(lambda: client.get("/ready").status == 200, "the server is ready")
    assert client.get("/health").status == 200
    assert len(client.get("queues").json["items"]) >= QUEUES
    client.close()


def exhaustion_rounds(place: Path, seed: int, count: int, report: Report) -> None:
    rng = random.Random(seed)
    for number in range(count):
        said = exhausted(place / str(number), rng.choice((0.5, 2.0, 5.0)), is_killed=rng.random() < 0.5)
        assert "journal failed" not in said, said[-3000:]
        assert "thread ended" not in said, said[-3000:]
        report(f"{number + 1} servers")
