"""The doctor's look at what a server would run with: event loop, optional packages, limits."""

from __future__ import annotations

import importlib.metadata
import platform
import resource
from typing import NamedTuple

from penstock.cli.doctor import Finding, Verdict
from penstock.cli.output import size_text
from penstock.core.errors import InvalidSetting
from penstock.server.config import Config, LoopKind
from penstock.server.config_auth import RateLimit
from penstock.server.config_listeners import is_loopback
from penstock.server.looping import loop_factory


class Package(NamedTuple):
    """One that Penstock works without."""

    name: str
    gives: str


_ARROW = Package("pyarrow", "queues and logs as Arrow tables, listeners.flight")
_UVLOOP = Package("uvloop", "loop: uvloop")
_TOKENS = (Package("pyjwt", "auth.jwt"), Package("cryptography", "auth.jwt"))


def event_loop(config: Config) -> Finding:
    kind = config.loop
    facts: dict[str, object] = {"loop": kind.value}
    try:
        loop_factory(kind)
    except InvalidSetting as error:
        return Finding("event loop", Verdict.PROBLEM, str(error), facts)
    version = platform.python_version() if kind is LoopKind.ASYNCIO else _version(_UVLOOP)
    return Finding("event loop", Verdict.OK, f"{kind.value} {version}", facts)


def packages(config: Config) -> Finding:
    """A missing one is a problem only if the configuration needs it."""
    every = (_ARROW, _UVLOOP, *_TOKENS)
    found = {package.name: _version(package) for package in every}
    facts: dict[str, object] = {"packages": found}
    missing = [package for package in every if found[package.name] is None]
    text = ", ".join(f"{name} {version}" for name, version in found.items() if version) or "none"
    if missing:
        text += "; not installed: " + ", ".join(f"{package.name} (for {package.gives})" for package in missing)
    if config.listeners.flight is not None and _ARROW in missing:
        advice = "listeners.flight needs pyarrow: pip install 'penstock[arrow]'"
        return Finding("packages", Verdict.PROBLEM, f"{text}: {advice}", facts)
    needed = [package.name for package in _TOKENS if config.auth.jwt is not None and package in missing]
    if needed:
        advice = f"auth.jwt needs {' and '.join(needed)}: pip install 'penstock[jwt]'"
        return Finding("packages", Verdict.PROBLEM, f"{text}: {advice}", facts)
    return Finding("packages", Verdict.OK, text, facts)


def rate_limits(config: Config) -> Finding:
    """Those that count on each listener: none on loopback."""
    listeners = config.listeners.switched_on()
    limited = [name for name, listener in listeners.items() if not is_loopback(listener)]
    free = [name for name in listeners if name not in limited]
    limits = config.rate_limit
    facts: dict[str, object] = {"limited_listeners": limited, "unlimited_listeners": free, "limits": _facts(limits)}
    texts = [f"{', '.join(limited)}: {_text(limits)}"] if limited else []
    texts += [f"{', '.join(free)}: none, on loopback"] if free else []
    is_open = bool(limited) and 0 in (
        limits.max_connections_per_ip,
        limits.max_messages_per_client,
        limits.max_subscriptions_per_client,
    )
    return Finding("rate limits", Verdict.WARNING if is_open else Verdict.OK, "; ".join(texts), facts)


def limits(config: Config) -> Finding:
    """How much one client may send, and how many there may be: the settings, and what the process may open."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    facts: dict[str, object] = {
        "http.max_body_size": config.http.max_body_size_bytes,
        "http.max_streams": config.http.max_streams,
        "mqtt.max_packet_size": config.mqtt.max_packet_size_bytes,
        "mqtt.max_queued_messages": config.mqtt.max_queued_messages,
        "mqtt.max_subscriptions": config.mqtt.max_subscriptions,
        "connections": None if files == resource.RLIM_INFINITY else files,
    }
    text = (
        f"a request {size_text(config.http.max_body_size_bytes)}, an MQTT packet "
        f"{size_text(config.mqtt.max_packet_size_bytes)}, {config.http.max_streams:,} streams, "
        f"{config.mqtt.max_queued_messages:,} messages for a session that is away"
    )
    if files == resource.RLIM_INFINITY or files >= config.http.max_streams:
        return Finding("limits", Verdict.OK, text, facts)
    advice = (
        f"but the process may open {files:,} files only: raise the hard limit (LimitNOFILE= of systemd, ulimit -Hn)"
    )
    return Finding("limits", Verdict.WARNING, f"{text}; {advice}", facts)


def _facts(limits: RateLimit) -> dict[str, object]:
    """By the names of the settings."""
    options = limits.options()
    return {name: getattr(options, name) for name in options.__dataclass_fields__}


def _text(limits: RateLimit) -> str:
    often = f"connections in {limits.connection_window_ms / 1000:g} s"
    connections = _speed(limits.max_connections_per_ip, often, limits.connection_burst_size)
    messages = _speed(limits.max_messages_per_client, "messages a second", limits.message_burst_size)
    subscriptions = _speed(limits.max_subscriptions_per_client, "subscriptions a second", limits.subscribe_burst_size)
    return f"an address {connections}, a client {messages}, {subscriptions}"


def _speed(count: int, what: str, burst: int) -> str:
    return f"{count} {what} (at once {burst})" if count else f"any number of {what}"


def _version(package: Package) -> str | None:
    try:
        return importlib.metadata.version(package.name)
    except importlib.metadata.PackageNotFoundError:
        return None
