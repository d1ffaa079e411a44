"""What a changed configuration changes in a running server, and what waits for the next start."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from penstock.server.config import Config
from penstock.server.config_listeners import LISTENER_NAMES, Listener, Listeners, WebSocketListener
from penstock.server.schema import values_of

_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Change:
    path: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"setting={self.path} before={self.before} after={self.after}"


def reloadable(running: Config, wanted: Config) -> Config:
    """The running configuration with all of the wanted one that can change while clients are connected."""
    return msgspec.structs.replace(
        running,
        log=wanted.log,
        # Whom development mode let in would stay, an admin without login.
        auth=msgspec.structs.replace(wanted.auth, development_mode=running.auth.development_mode),
        rate_limit=wanted.rate_limit,
        shutdown_timeout_ms=wanted.shutdown_timeout_ms,
        durability=wanted.durability,
        broker=msgspec.structs.replace(running.broker, templates=wanted.broker.templates),
        queues=wanted.queues,
        listeners=_listeners(running.listeners, wanted.listeners),
    )


def changes_between(before: Config, after: Config) -> list[Change]:
    """By path. Of secrets it shows that they are set, so one that became another is no change here."""
    old, new = values_of(before), values_of(after)
    paths = [*new, *(path for path in old if path not in new)]
    return [
        Change(path, _text(old.get(path)), _text(new.get(path))) for path in paths if old.get(path) != new.get(path)
    ]


def _listeners(running: Listeners, wanted: Listeners) -> Listeners:
    pairs = {name: (getattr(running, name), getattr(wanted, name)) for name in LISTENER_NAMES}
    return msgspec.structs.replace(
        running, **{name: _listener(old, new) for name, (old, new) in pairs.items() if old and new}
    )


def _listener(running: Listener, wanted: Listener) -> Listener:
    if running.tls is not None and wanted.tls is not None:
        running = msgspec.structs.replace(running, tls=wanted.tls)
    if isinstance(running, WebSocketListener) and isinstance(wanted, WebSocketListener):
        running = msgspec.structs.replace(running, path=wanted.path, allowed_origins=wanted.allowed_origins)
    return running


def _text(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
