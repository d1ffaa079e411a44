"""A real `penstock serve`, for tests that look at its process too."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.cli import COMMAND, ENVIRONMENT

_START_S, _STOP_S = 60.0, 60.0
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True)
class LiveServer:
    process: subprocess.Popen[bytes]
    ports: dict[str, int]
    output: Path

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.ports["mqtt"]

    @property
    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) << 10

    @property
    def is_up(self) -> bool:
        return self.process.poll() is None

    def said(self) -> str:
        return self.output.read_text(errors="replace")


@contextmanager
def live_server(
    directory: Path,
    settings: Sequence[str] = (),
    *,
    is_dev: bool = True,
    data: Path | None = None,
    variables: Mapping[str, str] = NOTHING,
    open_files: int | None = None,
) -> Iterator[LiveServer]:
    """On free ports of loopback, in development mode or with logins; `settings` as for --set. Data is in a directory of
    its own below `directory`, unless it is said where. `open_files` is what the process may open. Ended by SIGTERM, and
    it must end."""
    directory.mkdir(exist_ok=True)
    ready, output = directory / "ready.json", directory / "output.txt"
    command = [*COMMAND, "serve", "--data", str(data or directory / "data"), "--ready-file", str(ready)]
    if open_files is not None:
        command = ["sh", "-c", f'ulimit -n {open_files}; exec "$@"', "sh", *command]
    environment = {**ENVIRONMENT, **variables}
    command += ["--dev"] if is_dev else []
    for setting in ("listeners.mqtt.port=0", "listeners.mqtt_ws.port=0", "listeners.http.port=0", *settings):
        command += ["--set", setting]
    with (
        output.open("ab") as file,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment) as process,
    ):
        try:
            _wait_for(ready, process, output)
            listeners = json.loads(ready.read_text())["listeners"]
            yield LiveServer(process, {name: int(facts["port"]) for name, facts in listeners.items()}, output)
        finally:
            _end(process)


def _wait_for(ready: Path, process: subprocess.Popen[bytes], output: Path) -> None:
    end = time.monotonic() + _START_S
    while not ready.exists():
        assert process.poll() is None and time.monotonic() < end, output.read_text()[-3000:]
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
