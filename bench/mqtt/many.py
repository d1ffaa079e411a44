"""The generator of loads with many connections: a program in C, compiled when it is needed; it costs little."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from bench.measure import Run
from bench.mqtt.link import PeerFailed
from bench.mqtt.load import Outcome
from bench.mqtt.peers import Broker, say_left_out
from bench.mqtt.servers import Absent, program

_SOURCES = Path(__file__).with_name("generator")
_TLS = ["-DWITH_TLS", "-lssl", "-lcrypto"]


def generator(settings: Run, is_tls: bool = False) -> Many | None:
    """None where it cannot be had, which is said."""
    try:
        return Many(settings.directory, is_tls)
    except Absent as absence:
        say_left_out(absence)
        return None


class Said(msgspec.Struct, frozen=True):
    """What was done, and the processor time of the generator. p50, p99, p99.9 and the highest of the times since a
    message was due, where the load had a rate; empty otherwise."""

    count: int
    ns: int
    cpu_ns: int
    to_acknowledged_ns: list[int] = []
    to_delivered_ns: list[int] = []


class Many:
    """The compiled program. Absent without a compiler, or without the headers of OpenSSL where TLS is asked for."""

    def __init__(self, directory: Path, is_tls: bool = False) -> None:
        self._program = directory / "many"
        sources = [str(path) for path in sorted(_SOURCES.glob("*.c"))]
        command = [program("cc"), "-O2", "-o", str(self._program), *sources, *(_TLS if is_tls else [])]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode and is_tls and "openssl" in found.stderr:
            raise Absent("libssl-dev is not installed")
        if found.returncode:
            raise PeerFailed(f"the generator does not compile: {found.stderr}")

    def run(self, broker: Broker, **settings: str | int) -> tuple[Said, Outcome]:
        """From when all connections are there until the last answer; PeerFailed for whatever was lost, refused, out of
        order or twice."""
        host, port = broker.address
        words = [f"{name}={value}" for name, value in {"host": host, "port": port, **settings}.items()]
        pipe = subprocess.PIPE
        with subprocess.Popen([self._program, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                _line(process)
                server_s = broker.server.cpu_seconds()
                _go(process)
                said = msgspec.json.decode(_line(process), type=Said)
                server_s = broker.server.cpu_seconds() - server_s
            except BaseException:
                process.kill()
                raise
        return said, Outcome(said.count, said.ns / 1e9, said.cpu_ns / 1e9, server_s)


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None, "it was asked for"
    process.stdin.write("\n")
    process.stdin.flush()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None, "it was asked for"
    assert process.stderr is not None, "it was asked for"
    if not (line := process.stdout.readline()):
        raise PeerFailed(f"the generator: {process.stderr.read().strip()}")
    return line
