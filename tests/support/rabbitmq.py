"""A RabbitMQ of its own: on free ports of loopback, in a directory of its own, ended by its pid. What it knows from
the start, as users and virtual hosts, is told by definitions, so that no tool is needed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.support.servers import HOST, INSTALL_HINT, NotInstalled

_PROGRAM = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_START_S, _STOP_S = 90.0, 30.0
VERSION = "3.10.8"
"""The version that is recorded, Debian 12's."""

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
NOTHING: Mapping[str, object] = {}


@dataclass(frozen=True)
class RabbitSettings:
    """`definitions` are added to a guest who may do everything in `/`."""

    definitions: Mapping[str, Sequence[object]] = field(default_factory=dict)
    lines: Sequence[str] = ()
    """of rabbitmq.conf"""
    advanced: str = "[]."
    plugins: Sequence[str] = ()
    certificate: Path | None = None
    """with its key, in one file; then there is a listener with TLS, which asks clients for theirs"""
    authority: Path | None = None


@dataclass
class RabbitServer:
    process: subprocess.Popen[bytes]
    port: int
    tls_port: int
    output: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        return self.output.read_text(errors="replace")


def rabbitmq_command() -> str | None:
    return shutil.which("rabbitmq-server", path="/usr/lib/rabbitmq/bin:/usr/local/lib/rabbitmq/bin:/usr/local/sbin")


def user(name: str, password: str, **facts: object) -> dict[str, object]:
    salt = b"salt"
    hashed = base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
    return {"name": name, "password_hash": hashed, "tags": [], **facts}


def permission(who: str, vhost: str = "/", **rights: str) -> dict[str, object]:
    return {"user": who, "vhost": vhost, **ALL, **rights}


@contextmanager
def rabbitmq(
    directory: Path, settings: RabbitSettings | None = None, *, port: int | None = None
) -> Iterator[RabbitServer]:
    """`directory` keeps its data; the same one again is the server restarted. NotInstalled if there is none."""
    command = rabbitmq_command()
    if command is None:
        raise NotInstalled(f"RabbitMQ is not installed: {INSTALL_HINT}")
    settings = settings or RabbitSettings()
    directory.mkdir(exist_ok=True)
    port, tls_port, names_port = port or _free_port(), _free_port(), _free_port()
    environment = {**os.environ, **_variables(directory, settings, port, tls_port, names_port)}
    output = directory / "output.txt"
    with (
        output.open("ab") as said,
        _ended(_start(["epmd", "-port", str(names_port), "-address", HOST], said, environment)) as names,
    ):
        _wait_for(names_port, names, output)
        with _ended(_start([command], said, environment)) as process:
            _wait_for(port, process, output)
            yield RabbitServer(process, port, tls_port, output)


def _variables(directory: Path, settings: RabbitSettings, port: int, tls_port: int, names_port: int) -> dict[str, str]:
    definitions = directory / "definitions.json"
    definitions.write_text(json.dumps(_definitions(settings.definitions)))
    lines = ["log.console.level = error", f"load_definitions = {definitions}", *settings.lines]
    if settings.certificate is not None:
        lines += [
            f"listeners.ssl.1 = {HOST}:{tls_port}",
            f"ssl_options.certfile = {settings.certificate}",
            f"ssl_options.keyfile = {settings.certificate}",
            f"ssl_options.cacertfile = {settings.authority}",
            "ssl_options.verify = verify_peer",
            "ssl_options.fail_if_no_peer_cert = false",
        ]
    (directory / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
    (directory / "advanced.config").write_text(settings.advanced + "\n")
    (directory / "plugins").write_text(f"[{','.join(settings.plugins)}].\n")
    return {
        "HOME": str(directory),
        "ERL_CRASH_DUMP": str(directory / "crash.dump"),
        "ERL_EPMD_PORT": str(names_port),
        "ERL_EPMD_ADDRESS": HOST,
        "RABBITMQ_NODENAME": f"test{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(_free_port()),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
        "RABBITMQ_LOGS": "-",
    }


def _definitions(more: Mapping[str, Sequence[object]]) -> dict[str, object]:
    base: dict[str, list[object]] = {
        "users": [user("guest", "guest", tags=["administrator"])],
        "vhosts": [{"name": "/"}],
        "permissions": [permission("guest")],
    }
    for name, rows in more.items():
        base[name] = [*base.get(name, []), *rows]
    return {"rabbit_version": VERSION, **base}


def _start(command: Sequence[str], said: IO[bytes], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Its session is its own: what it started goes with it."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            kill_session(process)
        kill_session(process)


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """With kill -9: the process, if it is there, and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    end = time.monotonic() + _START_S
    while not _accepts(port):
        assert process.poll() is None and time.monotonic() < end, output.read_text(errors="replace")[-3000:]
        time.sleep(0.05)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    """Below those that connections get by themselves: who asks whether the server is there yet would meet itself."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        return port
