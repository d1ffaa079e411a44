"""A message as JSON for programs: only the fields it has; bytes that are no UTF-8 are base64, under a name that says
so."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from penstock.client.http.answers import DeadLetter
from penstock.client.http.incoming import StoredMessage

_CARRIED = ("content_type", "reply_to", "correlation_id")


def message_json(message: StoredMessage) -> dict[str, object]:
    found: dict[str, object] = {
        "id": message.id,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
    }
    found |= {} if message.topic is None else {"topic": message.topic}
    found |= {} if message.key_bytes is None else text_or_base64("key", message.key_bytes)
    found |= text_or_base64("value", message.value)
    found |= {"headers": [list(header) for header in message.headers]} if message.headers else {}
    for name in _CARRIED:
        found |= {} if (value := getattr(message, name)) is None else {name: value}
    return found | ({"deliveries": message.deliveries} if message.deliveries else {})


def letter_json(letter: DeadLetter) -> dict[str, object]:
    """The message, and under `dead_letter` whence and why."""
    if letter.source is None:
        return {**message_json(letter.message), "dead_letter": None}
    told = {
        "message_id": letter.source,
        "queue": letter.source.partition("@")[0],
        "group": letter.group,
        "reason": letter.reason,
        "detail": letter.detail or "",
        "delivery_count": letter.deliveries,
        "failures": letter.failures,
        "first_failed": letter.first_failed_ms,
        "time": letter.moved_ms,
    }
    return {**message_json(letter.message), "dead_letter": told}


def text_or_base64(name: str, data: bytes) -> dict[str, str]:
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def short_text(data: bytes, most: int = 60) -> str:
    """As much of it as a line of a table holds."""
    text = data[: most * 4].decode(errors="replace")
    shown = "".join(character if character.isprintable() else "·" for character in text[:most])
    return shown + ("…" if len(text) > most else "")


def second_text(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
