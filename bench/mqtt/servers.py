"""Processes of brokers: on free ports of loopback, with data in the directory of the benchmark, stopped by pid."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.mqtt.link import PeerFailed

HOST = "127.0.0.1"
_READY_S, _STOP_S = 60.0, 20.0
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Absent(Exception):
    """A peer that is not installed: said aloud, and left out."""


def program(name: str, *places: str) -> str:
    """Where a program is: in one of the places, or on the path."""
    if (found := shutil.which(name, path=os.pathsep.join([*places, os.environ.get("PATH", "")]))) is None:
        raise Absent(f"{name} is not installed")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Server:
    """One running broker, with all processes that it started."""

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        directory.mkdir(exist_ok=True)
        self._log = directory / "output.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait(self, is_ready: Callable[[], bool]) -> None:
        until = time.monotonic() + _READY_S
        while not is_ready():
            if self._process.poll() is not None:
                raise PeerFailed(f"{self.name} ended with {self._process.returncode}: {self._last_words()}")
            if time.monotonic() > until:
                self.stop()
                raise PeerFailed(f"{self.name} was not ready after {_READY_S:.0f} s: {self._last_words()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """SIGTERM, then SIGKILL for those who stay."""
        descendants = _tree(self._process.pid)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pid in descendants[1:]:
            if _parent(pid) is not None:
                os.kill(pid, signal.SIGKILL)

    def cpu_seconds(self) -> float:
        """Processor time of all its processes so far."""
        return cpu_seconds_of(self._process.pid)

    def resident_bytes(self) -> int:
        return sum(_resident_bytes(pid) for pid in _tree(self._process.pid))

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:].strip() or "it said nothing"


def accepts(port: int) -> Callable[[], bool]:
    def is_open() -> bool:
        try:
            socket.create_connection((HOST, port), 1.0).close()
        except OSError:
            return False
        return True

    return is_open


def cpu_seconds_of(pid: int) -> float:
    """Processor time so far of a process and of all that it started."""
    return sum(_cpu_seconds(each) for each in _tree(pid))


def runnable_threads_of(pid: int) -> int:
    """How many threads of the process and of all that it started have a processor now or wait for one."""
    tasks = [task for each in _tree(pid) for task in _tasks(each)]
    return sum(_fields(task)[:1] == ["R"] for task in tasks)


def _tree(pid: int) -> list[int]:
    """The process, its children, grandchildren and so on."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (parent := _parent(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _stat(pid: int) -> list[str]:
    return _fields(Path(f"/proc/{pid}"))


def _fields(place: Path) -> list[str]:
    """Those behind the name, which may have blanks in it; none for what is gone."""
    try:
        return (place / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _cpu_seconds(pid: int) -> float:
    """With that of its children that have ended."""
    return sum(map(int, _stat(pid)[11:15])) / _TICKS_A_SECOND


def _resident_bytes(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") if fields else 0
