"""What a changed configuration changes in a running server, and what waits for the next start."""

from __future__ import annotations

import msgspec

from penstock.core.settings.values import values_of
from penstock.gateways.http.ports import Change
from penstock.server.config import Config
from penstock.server.config_listeners import LISTENER_NAMES, Listener, Listeners, WebSocketListener

_SHOWN_CHARACTERS = 60
_ANOTHER = "(another secret)"


def reloadable(running: Config, wanted: Config) -> Config:
    """The running configuration with all of the wanted one that can change while clients are connected."""
    return msgspec.structs.replace(
        running,
        log=wanted.log,
        # Whom development mode let in would stay, an admin without login.
        auth=msgspec.structs.replace(wanted.auth, development_mode=running.auth.development_mode),
        rate_limit=wanted.rate_limit,
        max_connections=wanted.max_connections,
        shutdown_timeout_ms=wanted.shutdown_timeout_ms,
        durability=wanted.durability,
        # Agreed on with each client when it connects.
        mqtt=msgspec.structs.replace(
            running.mqtt,
            max_session_expiry_ms=wanted.mqtt.max_session_expiry_ms,
            max_keep_alive_ms=wanted.mqtt.max_keep_alive_ms,
        ),
        # Frames and heartbeats are agreed on with each client when it connects.
        amqp=msgspec.structs.replace(running.amqp, delivery_timeout_ms=wanted.amqp.delivery_timeout_ms),
        http=wanted.http,
        broker=msgspec.structs.replace(running.broker, templates=wanted.broker.templates),
        exchanges=wanted.exchanges,
        policies=wanted.policies,
        queues=wanted.queues,
        webhooks=wanted.webhooks,
        listeners=_listeners(running.listeners, wanted.listeners),
    )


def all_changes(running: Config, wanted: Config) -> list[Change]:
    """Those that a reload brings, then those that need a restart."""
    changed = reloadable(running, wanted)
    return [*changes_between(running, changed), *changes_between(changed, wanted, needs_restart=True)]


def changes_between(before: Config, after: Config, *, needs_restart: bool = False) -> list[Change]:
    """By path. Of secrets it shows that they are set, and that one became another."""
    old, new = values_of(before), values_of(after)
    kept, given = values_of(before, reveal=True), values_of(after, reveal=True)
    paths = [path for path in [*new, *(path for path in old if path not in new)] if kept.get(path) != given.get(path)]
    return [_change(path, old.get(path), new.get(path), needs_restart) for path in paths]


def text_of(change: Change) -> str:
    """As a log line has it."""
    return f"setting={change.path} before={change.before} after={change.after}"


def _change(path: str, old: object, new: object, needs_restart: bool) -> Change:
    before, after = _text(old), _text(new)
    return Change(path, before, after if old != new else _ANOTHER, needs_restart)


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
