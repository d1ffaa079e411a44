"""Servers for tests: started on a free loopback port with a directory of their own, and stopped by their pid."""

from __future__ import annotations

import enum
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.cli import COMMAND, ENVIRONMENT
from tests.support.cli import penstock as run_command

HOST = "127.0.0.1"
_START_DEADLINE_S = 30.0
_STOP_DEADLINE_S = 40.0
# Debian installs servers where an ordinary user's PATH does not look.
_SERVER_PATH = "/usr/local/sbin:/usr/sbin:/sbin"

INSTALL_HINT = "scripts/install_peers.py installs it from Debian's packages"


class Kind(enum.Enum):
    """What a server is set up for."""

    OPEN = "open"
    """everyone may do everything; at most `RECEIVE_MAXIMUM` messages in flight"""
    LIMITED = "limited"
    """`USERNAME` with `PASSWORD` only, and everything that a server may limit is limited"""


RECEIVE_MAXIMUM = 20
"""of both kinds, in both directions"""
USERNAME, PASSWORD = "operator", b"correct horse"
LIMITED_PACKET_BYTES = 4_000
LIMITED_QOS = 1
LIMITED_KEEP_ALIVE_S = 60


@dataclass(frozen=True, slots=True)
class RunningServer:
    name: str
    pid: int
    port: int
    tells_reasons: bool
    """ends no connection of MQTT 5 without CONNACK or DISCONNECT, where the specification leaves that open"""
    has_scram: bool

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self.port


class NotInstalled(Exception):
    """The program is not on this machine."""


class DidNotStart(Exception):
    """The program ended, or accepted no connection in time."""


def mosquitto_command(name: str = "mosquitto") -> str | None:
    return shutil.which(name) or shutil.which(name, path=_SERVER_PATH)


@contextmanager
def mosquitto(directory: Path, kind: Kind = Kind.OPEN, port: int | None = None) -> Iterator[RunningServer]:
    """`directory` keeps sessions and retained messages; the same one again is the server restarted."""
    command = mosquitto_command()
    if command is None:
        raise NotInstalled(f"mosquitto is not installed: {INSTALL_HINT}")
    port = port or _free_port()
    settings = directory / "mosquitto.conf"
    settings.write_text("\n".join(_mosquitto_settings(directory, kind, port)) + "\n")
    with _running([command, "-c", str(settings)], directory) as process:
        _wait_until(lambda: _accepts(port), process, directory)
        yield RunningServer("mosquitto", process.pid, port, tells_reasons=False, has_scram=False)


def _mosquitto_settings(directory: Path, kind: Kind, port: int) -> list[str]:
    settings = [
        f"listener {port} {HOST}",
        "user root",  # else it changes to a user who may not write into the directory
        "persistence true",
        f"persistence_location {directory}/",
        "set_tcp_nodelay true",
        "sys_interval 1",
        f"max_inflight_messages {RECEIVE_MAXIMUM}",
    ]
    if kind is Kind.OPEN:
        return [*settings, "allow_anonymous true"]
    return [
        *settings,
        "allow_anonymous false",
        f"password_file {_mosquitto_passwords(directory)}",
        f"max_packet_size {LIMITED_PACKET_BYTES}",
        f"max_qos {LIMITED_QOS}",
        "retain_available false",
        f"max_keepalive {LIMITED_KEEP_ALIVE_S}",
    ]


def _mosquitto_passwords(directory: Path) -> Path:
    command, path = mosquitto_command("mosquitto_passwd"), directory / "passwords"
    if command is None:
        raise NotInstalled(f"mosquitto_passwd is not installed: {INSTALL_HINT}")
    subprocess.run([command, "-b", "-c", str(path), USERNAME, PASSWORD.decode()], check=True, capture_output=True)
    return path


@contextmanager
def penstock(directory: Path, kind: Kind = Kind.OPEN, port: int | None = None) -> Iterator[RunningServer]:
    """`directory` keeps the data; the same one again is the server restarted."""
    ready, data = directory / "ready.json", directory / "data"
    ready.unlink(missing_ok=True)
    if kind is Kind.LIMITED:
        run_command("user", "add", "--data", data, USERNAME, "--role", "admin", given=PASSWORD + b"\n")
    command = [*COMMAND, "serve", "--data", str(data), "--ready-file", str(ready)]
    for setting in _penstock_settings(kind, port):
        command += ["--set", setting]
    with _running(command if kind is Kind.LIMITED else [*command, "--dev"], directory) as process:
        _wait_until(ready.exists, process, directory)
        facts = json.loads(ready.read_text())
        bound_port = int(facts["listeners"]["mqtt"]["port"])
        yield RunningServer("penstock", process.pid, bound_port, tells_reasons=True, has_scram=True)


def _penstock_settings(kind: Kind, port: int | None) -> list[str]:
    settings = [
        f"listeners.mqtt.port={port or 0}",
        "listeners.mqtt_ws=null",
        "listeners.http=null",
        f"mqtt.receive_maximum={RECEIVE_MAXIMUM}",
        "mqtt.sys_interval=1s",
    ]
    if kind is Kind.OPEN:
        # The largest will alone is as large as the default.
        return [*settings, "mqtt.max_packet_size_before_login=1MiB"]
    return [
        *settings,
        f"mqtt.max_packet_size={LIMITED_PACKET_BYTES}",
        f"mqtt.maximum_qos={LIMITED_QOS}",
        "mqtt.retain_available=false",
        f"mqtt.max_keep_alive={LIMITED_KEEP_ALIVE_S}s",
    ]


@contextmanager
def _running(command: Sequence[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Output goes to a file: nobody reads a pipe while tests run. SIGTERM ends it, as an operator would."""
    with (
        (directory / "output.txt").open("ab") as output,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=directory, env=ENVIRONMENT
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def _wait_until(is_ready: Callable[[], bool], process: subprocess.Popen[bytes], directory: Path) -> None:
    deadline = time.monotonic() + _START_DEADLINE_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            said = (directory / "output.txt").read_text(errors="replace")[-2000:]
            raise DidNotStart(f"{process.args!r} accepts no connections (exit code {process.returncode}): {said}")
        time.sleep(0.02)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


SERVERS = {"penstock": penstock, "mosquitto": mosquitto}
