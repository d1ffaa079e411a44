"""The local context: which server this user's commands talk to, and as whom. Commands read it, the first start of a
server writes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec


class Context(msgspec.Struct, frozen=True):
    """`~/.config/penstock/context.json`; what is not there is the default of the command."""

    host: str
    port: int
    username: str
    password: str
    tls: bool = False
    path: str | None = None
    """of a WebSocket listener"""


def context_file(variables: Mapping[str, str]) -> Path:
    """Where XDG says."""
    base = variables.get("XDG_CONFIG_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path("~/.config").expanduser()) / "penstock" / "context.json"  # noqa: PTH117


def write_context(file: Path, context: Context) -> Path | None:
    """Readable by this user alone, whole or not at all. One that was there is kept beside it, where the result says: it
    may be the only place of a password."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(msgspec.json.format(msgspec.json.encode(context)) + b"\n")
    previous = file.with_name("context.previous.json") if file.exists() else None
    if previous is not None:
        file.replace(previous)
    unfinished.rename(file)
    return previous
