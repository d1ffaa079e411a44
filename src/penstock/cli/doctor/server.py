"""The doctor's look at what a server would run with: event loop, optional packages, limits."""

from __future__ import annotations

import importlib.metadata
import platform

from penstock.cli.doctor.finding import Finding, Verdict
from penstock.cli.output import size_text
from penstock.core.errors import InvalidSetting
from penstock.server.config import Config, LoopKind, descriptors_of
from penstock.server.config_auth import RateLimit
from penstock.server.config_listeners import is_loopback
from penstock.server.descriptors import open_files_limit
from penstock.server.event_loop import loop_factory
from penstock.server.extras import EXTRAS, wanting


def event_loop(config: Config) -> Finding:
    kind = config.loop
    facts: dict[str, object] = {"loop": kind.value}
    try:
        loop_factory(kind)
    except InvalidSetting as error:
        return Finding("event loop", Verdict.PROBLEM, str(error), facts)
    version = platform.python_version() if kind is LoopKind.ASYNCIO else _version("uvloop")
    return Finding("event loop", Verdict.OK, f"{kind.value} {version}", facts)


def packages(config: Config) -> Finding:
    """A missing one is a problem only if the configuration needs it."""
    found = {package: _version(package) for extra in EXTRAS for package in extra.packages}
    facts: dict[str, object] = {"packages": found}
    text = ", ".join(f"{name} {version}" for name, version in found.items() if version) or "none"
    missing = [f"{package} (for {extra.gives})" for extra in EXTRAS for package in extra.missing]
    if missing:
        text += f"; not installed: {', '.join(missing)}"
    if needed := wanting(config):
        advice = "; ".join(f"{extra.setting} {extra.advice}" for extra in needed)
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
    shares = descriptors_of(config, open_files_limit(hard=True))
    facts: dict[str, object] = {
        "http.max_body_size": config.http.max_body_size_bytes,
        "http.max_streams": config.http.max_streams,
        "mqtt.max_packet_size": config.mqtt.max_packet_size_bytes,
        "mqtt.max_queued_messages": config.mqtt.max_queued_messages,
        "mqtt.max_subscriptions": config.mqtt.max_subscriptions,
        "connections": shares.connections,
        "open_files": shares.limit,
        "reserve": shares.reserve,
    }
    text = (
        f"a request {size_text(config.http.max_body_size_bytes)}, an MQTT packet "
        f"{size_text(config.mqtt.max_packet_size_bytes)}, {config.http.max_streams:,} streams, "
        f"{config.mqtt.max_queued_messages:,} messages for a session that is away, {shares.connections:,} connections"
    )
    if shares.connections >= (config.max_connections or config.http.max_streams):
        return Finding("limits", Verdict.OK, text, facts)
    advice = (
        f"the process may open {shares.limit:,} files only, of which storage keeps {shares.reserve:,}: raise the hard "
        f"limit (LimitNOFILE= of systemd, ulimit -Hn)"
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


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
