"""Readers of an event stream that cost less than the server: a small program in C, compiled when it is needed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.mqtt.link import PeerFailed
from bench.mqtt.servers import program

_SOURCE = Path(__file__).with_name("sse_reader.c")
_LATEST_S = 30.0


class Read(msgspec.Struct, frozen=True):
    """By all clients, since they connected."""

    answered: int
    closed: int
    events: int
    least_events: int
    """of a client"""
    bytes: int
    out_of_order: int
    """events whose id does not follow the one before"""


def compiled(directory: Path) -> Path:
    """Absent without a compiler."""
    found = directory / "sse_reader"
    subprocess.run([program("cc"), "-O2", "-o", str(found), str(_SOURCE)], check=True)
    return found


class Readers:
    """So many clients of one event stream, all answered when they are made."""

    def __init__(self, process: subprocess.Popen[str], clients: int) -> None:
        self._process, self.clients = process, clients
        self._line()

    def read(self) -> Read:
        assert self._process.stdin is not None, "it was asked for"
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        said = self._line()
        if said.closed or said.out_of_order:
            raise PeerFailed(f"{said.closed} streams were closed, {said.out_of_order} events came out of order")
        return said

    def wait_for(self, events: int) -> None:
        """Return when so many have come. PeerFailed if they do not, or if more do."""
        until_s = time.monotonic() + _LATEST_S
        while (found := self.read().events) < events and time.monotonic() < until_s:
            time.sleep(0.02)
        if found != events:
            raise PeerFailed(f"{found:,} events came of {events:,}")

    def _line(self) -> Read:
        assert self._process.stdout is not None, "it was asked for"
        line = self._process.stdout.readline()
        if not line:
            raise PeerFailed(f"the readers ended with {self._process.wait()}")
        return msgspec.json.decode(line, type=Read)


@contextmanager
def reading(reader: Path, address: tuple[str, int], path: str, clients: int) -> Iterator[Readers]:
    """Connected until the end of the block."""
    command = [str(reader), address[0], str(address[1]), path, str(clients)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield Readers(process, clients)
        finally:
            process.kill()
