"""Commands of pages, run as a reader would type them: in their order, in one directory, with this tree's `penstock`.

What a page shows below a command must be what it prints, in that order; `…` stands for anything, and an id of twelve
hex digits for the one that was given, in later commands too. A block that cannot be run has a line
`<!-- not run: reason -->` before it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.cli import COMMAND, ENVIRONMENT

_BLOCK = re.compile(r"^(?:<!-- not run: (.*?) -->\n)?```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?![0-9a-f])")
_HOST = "127.0.0.1"
_HTTP = f"{_HOST}:8080"
"""where pages say that HTTP is"""
_DEADLINE_S = 60.0
_MOSQUITTO = ("mosquitto_pub", "mosquitto_sub")
_PROGRAMS = (*_MOSQUITTO, "curl")


@dataclass(frozen=True, slots=True)
class Command:
    """`line` is that of its block; `shown` is what the page says that it prints; a reason `not_run` is never empty."""

    line: int
    text: str
    shown: tuple[str, ...]
    not_run: str | None


def commands(page: Path) -> Iterator[Command]:
    """A line that ends with a backslash goes on."""
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        number = text.count("\n", 0, block.start()) + 1
        for part in re.split(r"^\$ ", block[2].replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            yield Command(number, command, tuple(shown), block[1])


def missing_program(command: Command) -> str | None:
    """One that it needs and this machine has not."""
    return next((name for name in _PROGRAMS if name in command.text and shutil.which(name) is None), None)


class Reader:
    """Types what a page says. A `penstock serve` goes on in the background, on ports that are free, until the next one;
    commands that talk to a server find it by the local context."""

    def __init__(self, place: Path) -> None:
        self.place = place / "reader"
        self.place.mkdir()
        binaries, config = place / "bin", place / "config" / "penstock"
        binaries.mkdir()
        config.mkdir(parents=True)
        self.port, self._http_port = _free_port(), _free_port()
        context = {"url": f"http://{_HOST}:{self._http_port}", "mqtt": f"mqtt://{_HOST}:{self.port}", "local": True}
        # JSON is YAML.
        (config / "config.yaml").write_text(json.dumps({"current_context": "local", "contexts": {"local": context}}))
        self._ids: dict[str, str] = {}
        """those of a page, and what they are here"""
        self._server: subprocess.Popen[bytes] | None = None
        self._lines = place / "server.log"
        _write_script(binaries / "penstock", " ".join(COMMAND), "")
        for name in _MOSQUITTO:
            if (found := shutil.which(name)) is not None:
                _write_script(binaries / name, found, f"-h {_HOST} -p {self.port}")
        self._environment = {
            **ENVIRONMENT,
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(config.parent),
            "PENSTOCK_LISTENERS__MQTT__PORT": str(self.port),
            "PENSTOCK_LISTENERS__MQTT_WS__PORT": "0",
            "PENSTOCK_LISTENERS__HTTP__PORT": str(self._http_port),
        }

    def read(self, command: Command) -> None:
        """AssertionError if it does not end well, or prints something else."""
        text = _ID.sub(lambda found: self._ids.get(found[0], found[0]), command.text)
        ran = self.type(text)
        assert ran.returncode == 0, (command.line, text, ran.stdout[-2000:], ran.stderr[-2000:])
        self._compare(command, ran.stdout.decode(errors="replace").splitlines())

    def _compare(self, command: Command, printed: list[str]) -> None:
        left = iter(printed)
        for line in command.shown:
            match = next((found for each in left if (found := _pattern(line).fullmatch(each))), None)
            assert match is not None, (command.line, command.text, line, printed)
            self._ids.update(zip(_ID.findall(line), match.groups(), strict=True))

    def type(self, command: str) -> subprocess.CompletedProcess[bytes]:
        if command.startswith("penstock serve") and "--check" not in command:
            return self._serve(command)
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command.replace(_HTTP, f"{_HOST}:{self._http_port}")],
            cwd=self.place,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=2 * _DEADLINE_S,
        )

    def _serve(self, command: str) -> subprocess.CompletedProcess[bytes]:
        self.stop()
        with self._lines.open("wb") as lines:
            self._server = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.place, env=self._environment, stdout=lines, stderr=lines
            )
        deadline = time.monotonic() + _DEADLINE_S
        while b"ready pid=" not in self._lines.read_bytes():
            if self._server.poll() is not None or time.monotonic() > deadline:
                return self._ran(command, self._server.poll() or 1)
            time.sleep(0.02)
        return self._ran(command, 0)

    def _ran(self, command: str, code: int) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, code, b"", self._lines.read_bytes())

    def stop(self) -> None:
        """AssertionError if the server does not end well."""
        if self._server is not None:
            self._server.terminate()
            assert self._server.wait(_DEADLINE_S) == 0, self._lines.read_text()
            self._server = None


def _pattern(shown: str) -> re.Pattern[str]:
    """A group for each id."""
    escaped = ".*".join(map(re.escape, shown.split("…")))
    return re.compile(_ID.sub("([0-9a-f]{12})", escaped))


def _write_script(script: Path, program: str, more: str) -> None:
    script.write_text(f'#!/bin/sh\nexec {program} "$@" {more}\n')
    script.chmod(0o755)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
