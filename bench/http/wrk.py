"""wrk as the generator of requests: one thread, 32 connections, driven by a script that says what it counted."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from bench.mqtt.link import PeerFailed
from bench.mqtt.load import Outcome
from bench.mqtt.peers import Broker
from bench.mqtt.servers import program

CONNECTIONS = 32
_LONGEST_ANSWER = "30s"
Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class Used:
    """Processor time of a run."""

    generator_s: float
    server_s: float


class Wrk:
    """Absent where it is not installed."""

    def __init__(self, directory: Path) -> None:
        self._program, self._directory = program("wrk"), directory

    def run(self, broker: Broker, script: str, seconds: int, kind: type[Said]) -> tuple[Said, Used]:
        """What the script said, in a line of JSON, when it was done. A run that is done before its time ends then."""
        server_s, own_s = broker.server.cpu_seconds(), _children_cpu_s()
        with self._running(broker, script, seconds) as process:
            assert process.stdout is not None, "it was asked for"
            said = _first_said(process.stdout)
            used_s = broker.server.cpu_seconds() - server_s
            process.send_signal(signal.SIGINT)
            process.wait()
        return msgspec.json.decode(said, type=kind), Used(_children_cpu_s() - own_s, used_s)

    @contextmanager
    def _running(self, broker: Broker, script: str, seconds: int) -> Iterator[subprocess.Popen[str]]:
        path = self._directory / "script.lua"
        path.write_text(script)
        host, port = broker.address
        options = ["-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s", "--timeout", _LONGEST_ANSWER]
        command = [self._program, *options, "-s", str(path), f"http://{host}:{port}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with process:
            try:
                yield process
            finally:
                process.kill()


def _first_said(output: IO[str]) -> str:
    heard = []
    for line in output:
        if line.startswith("{"):
            return line
        heard.append(line)
    raise PeerFailed(f"wrk ended without a result: {''.join(heard)[-500:]}")


def _children_cpu_s() -> float:
    """Of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def outcome(messages: int, seconds: float, used: Used) -> Outcome:
    return Outcome(messages, seconds, used.generator_s, used.server_s)
