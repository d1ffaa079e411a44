"""The ready file: who waits for the server finds its process and its addresses there, whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.version import VERSION

SERVER_FILE = "server.json"
"""in a data directory while a server has it: commands that find it held say where the server is"""


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int


class Ready(msgspec.Struct, frozen=True, omit_defaults=True):
    pid: int
    version: str
    listeners: dict[str, Address]
    url: str | None = None
    """of HTTP, for who is on this machine"""


class ReadyFile:
    """Of one run: what an earlier one left is taken away before anything else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such directory for the ready file", str(path.parent))
        path.unlink(missing_ok=True)

    def write(self, listeners: Mapping[str, tuple[str, int]], url: str | None = None) -> None:
        """By renaming, so that nobody reads a half."""
        ready = Ready(os.getpid(), VERSION, {name: Address(*address) for name, address in listeners.items()}, url)
        unfinished = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        unfinished.write_bytes(msgspec.json.encode(ready) + b"\n")
        unfinished.rename(self._path)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def read_ready(path: Path) -> Ready | None:
    """None if there is none, or none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Ready)
    except (OSError, msgspec.DecodeError):
        return None
