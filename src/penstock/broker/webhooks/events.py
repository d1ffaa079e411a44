"""What a webhook can be told of, and what it looks like on its way."""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec

from penstock.core.errors import InvalidArgument

TIMESTAMP_HEADER, SIGNATURE_HEADER, ID_HEADER = "Penstock-Timestamp", "Penstock-Signature", "Penstock-Event-Id"
DEFAULT_LAG_THRESHOLD = 10_000

_NOWHERE = "(not an address)"
_ALERTS = "alert_webhook"
"""of `dlq_config` in the settings of queues"""
_URL = re.compile(r"https?://[!-.0-~][!-~]{0,2000}")


class Event(enum.StrEnum):
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    DEAD_LETTERED = "dead-lettered"
    QUEUE_FULL = "queue-full"
    LAG = "lag"
    LOG_POISONED = "log-poisoned"
    DISK_LOW = "disk-low"


@dataclass(frozen=True, slots=True)
class Hook:
    """Where to, what of, and how often it is tried. Two hooks with one address are one."""

    url: str = field(repr=False)
    events: frozenset[Event] = frozenset(Event)
    secret: str | None = field(default=None, repr=False)
    """signs what is sent"""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout_s: float = 10.0
    retries: int = 5
    """after the first try"""
    lag_threshold: int = DEFAULT_LAG_THRESHOLD
    """messages that a group has not settled: more are told"""

    @property
    def place(self) -> str:
        return place_of(self.url)


@dataclass(frozen=True, slots=True)
class Notice:
    """One event, encoded once for all who are told."""

    id: str
    event: Event
    body: bytes


def check_url(text: str) -> None:
    """InvalidArgument unless something can be sent there. It is not repeated: an address may be a secret."""
    if _URL.fullmatch(text) is None or place_of(text) == _NOWHERE:
        raise InvalidArgument("is not an address: write it like https://example.com/hooks")


def place_of(url: str) -> str:
    """What may be shown of an address: path, query and login in it may be secrets."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return _NOWHERE
    return f"{parts.scheme}://{host}{port}" if host else _NOWHERE


def without_secrets(written: object) -> object:
    """Settings of queues as they may be shown: of the address for alerts, whatever it stands in, only where it
    leads."""
    if not isinstance(written, Mapping):
        return written
    return {
        key: shown_address(value) if key == _ALERTS and isinstance(value, str) else without_secrets(value)
        for key, value in written.items()
    }


def with_secrets(written: Mapping[str, object], address: str | None) -> Mapping[str, object]:
    """Settings as they came back: the address that was shown stands for the one there is."""
    section = written.get("dlq_config")
    if address is None or not isinstance(section, Mapping) or section.get(_ALERTS) != shown_address(address):
        return written
    return {**written, "dlq_config": {**section, _ALERTS: address}}


def shown_address(url: str) -> str:
    return f"{place_of(url)}/…"


def encode(event: Event, id: str, time_ms: int, facts: Mapping[str, object]) -> Notice:
    return Notice(id, event, msgspec.json.encode({"event": event.value, "id": id, "time_ms": time_ms, **facts}))


def signature_of(secret: str, timestamp_s: int, body: bytes) -> str:
    """What a receiver works out for itself: HMAC-SHA256 of the timestamp, a dot and the body, in hexadecimal."""
    return hmac.digest(secret.encode(), b"%d." % timestamp_s + body, hashlib.sha256).hex()


def headers_of(hook: Hook, notice: Notice, timestamp_s: int) -> dict[str, str]:
    """Signed anew at each try, so that a receiver can refuse what is old; the id stays, so that it knows it again."""
    signed = (
        {} if hook.secret is None else {SIGNATURE_HEADER: f"v1={signature_of(hook.secret, timestamp_s, notice.body)}"}
    )
    return {
        **dict(hook.headers),
        "Content-Type": "application/json",
        "User-Agent": "penstock",
        ID_HEADER: notice.id,
        TIMESTAMP_HEADER: str(timestamp_s),
        **signed,
    }
