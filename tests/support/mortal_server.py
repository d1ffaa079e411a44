"""A real server that is killed and started again under the same addresses."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.live_server import LiveServer, live_server

import penstock

_LISTENERS = ("http", "flight")


class MortalServer:
    """With its Flight listener. One thread."""

    def __init__(self, place: Path, settings: Sequence[str] = ()) -> None:
        """`settings` as for --set."""
        self._place, self._settings = place, settings
        self._ports = {name: _free_port() for name in _LISTENERS}
        self._stack = ExitStack()
        self._live: LiveServer | None = None
        self.http_url = f"http://127.0.0.1:{self._ports['http']}"
        self.http = penstock.Client(self.http_url)
        self.flight_url = f"grpc://127.0.0.1:{self._ports['flight']}"

    @property
    def data(self) -> Path:
        return self._place / "data"

    def start(self) -> None:
        (self._place / "ready.json").unlink(missing_ok=True)
        ports = [f"listeners.{name}.port={port}" for name, port in self._ports.items()]
        self._live = self._stack.enter_context(live_server(self._place, [*ports, *self._settings]))

    def kill(self) -> None:
        assert self._live is not None
        os.kill(self._live.process.pid, signal.SIGKILL)
        self._live.process.wait()
        self._stack.close()

    def close(self) -> None:
        self.http.close()
        self._stack.close()


@contextmanager
def mortal_server(place: Path, settings: Sequence[str] = ()) -> Iterator[MortalServer]:
    """Started."""
    server = MortalServer(place, settings)
    try:
        server.start()
        yield server
    finally:
        server.close()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
