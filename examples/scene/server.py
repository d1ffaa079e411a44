"""The scene's server: `penstock serve --dev` on loopback, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from penstock.client.mqtt.options import PORT, WEBSOCKET_PORT
from penstock.core.errors import ErrorCode, PenstockError
from penstock.server.ready import Ready

HOST = "127.0.0.1"
_HTTP_PORT = 8080
_USUAL_PORTS = {"mqtt": PORT, "mqtt_ws": WEBSOCKET_PORT, "http": _HTTP_PORT}
FLIGHT_PORT = {"flight": 8815}
# The board shows what $SYS and $admin say. A demonstration need not leave the room that a server keeps free.
_SETTINGS = ("mqtt.sys_interval=1s", "storage.disk_reserve=64MiB")
_PORT_TAKEN = "cannot listen on"
_LOOK_S = 0.05
_LINES_SHOWN = 3


class ServerFailed(PenstockError):
    """The server did not start, or ended while others still talked to it."""

    code = ErrorCode.CLOSED


class SceneServer:
    def __init__(self, process: Process, lines: Path) -> None:
        self._process, self._lines = process, lines
        self.ports: dict[str, int] = {}
        """by listener; known when it is ready"""

    async def ready(self, ready_file: Path) -> None:
        """All listeners accept. ServerFailed, with what it said, if it ends before."""
        while not (ports := _ports_in(ready_file)):
            if self._process.returncode is not None:
                raise self._failure("did not start")
            await asyncio.sleep(_LOOK_S)
        self.ports = ports

    async def watch(self) -> None:
        """Ends with ServerFailed, when the server does."""
        await self._process.wait()
        raise self._failure("ended by itself")

    async def stop(self) -> None:
        """Drained: what was acknowledged is on disk and closed. ServerFailed if it could not be."""
        if self._process.returncode is None:
            self._process.terminate()
        if await self._process.wait() != 0:
            raise self._failure("did not stop well")

    async def end(self) -> None:
        """Whatever state it is in."""
        if self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()

    def _failure(self, what: str) -> ServerFailed:
        said = self._lines.read_text(errors="replace").splitlines()[-_LINES_SHOWN:]
        return ServerFailed(f"the server {what} (exit code {self._process.returncode}); it said: {' | '.join(said)}")


@asynccontextmanager
async def serving(
    data: Path, queues: Sequence[Mapping[str, object]], more_ports: Mapping[str, int] | None = None
) -> AsyncIterator[SceneServer]:
    """Ready, with these queues, on the usual ports if they are free, those of other listeners among them; gone
    afterwards, the data stays."""
    with tempfile.TemporaryDirectory(prefix="penstock-scene-") as place:
        lines, ready_file = Path(place, "server.log"), Path(place, "ready.json")
        ports = _USUAL_PORTS | dict(more_ports or {})
        settings = [*_SETTINGS, f"queues={json.dumps(queues)}"]
        server = await _ready(data, [*settings, *_port_settings(ports)], lines, ready_file)
        if server is None:
            server = await _ready(data, [*settings, *_port_settings(dict.fromkeys(ports, 0))], lines, ready_file)
        if server is None:
            raise ServerFailed("the server could not listen on any port of this machine: look for who takes them all")
        try:
            yield server
        finally:
            await server.end()


async def _ready(data: Path, settings: Sequence[str], lines: Path, ready_file: Path) -> SceneServer | None:
    """None if somebody took a port that was free a moment ago."""
    server = SceneServer(await _started(data, settings, lines, ready_file), lines)
    try:
        await server.ready(ready_file)
    except BaseException as error:
        await server.end()
        if isinstance(error, ServerFailed) and _PORT_TAKEN in str(error):
            return None
        raise
    return server


async def _started(data: Path, settings: Sequence[str], lines: Path, ready_file: Path) -> Process:
    command = ["-m", "penstock.cli.main", "serve", "--dev", "--data", str(data), "--ready-file", str(ready_file)]
    for setting in settings:
        command += ["--set", setting]
    with lines.open("wb") as said:
        # In a group of its own: Ctrl-C on the terminal is for the scene, which ends the server last.
        return await asyncio.create_subprocess_exec(
            sys.executable, *command, stdin=DEVNULL, stdout=said, stderr=said, process_group=0
        )


def _port_settings(ports: Mapping[str, int]) -> list[str]:
    """0 is any free one."""
    return [f"listeners.{name}.port={port if is_free(port) else 0}" for name, port in ports.items()]


def _ports_in(ready_file: Path) -> dict[str, int]:
    """Empty while the file is not there."""
    if not ready_file.exists():
        return {}
    ready = msgspec.json.decode(ready_file.read_bytes(), type=Ready)
    return {name: address.port for name, address in ready.listeners.items()}


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server does: a port whose last connections are still dying can be had.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
