"""A message as JSON for programs: only the fields it has; bytes that are no UTF-8 are base64, under a name that says
so."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.broker.browsing import Browsed
from penstock.broker.letters import Letter
from penstock.cli.record_text import text_or_base64
from penstock.core.errors import InvalidArgument
from penstock.queues.properties import unpack


def message_json(message: Browsed) -> dict[str, object]:
    row = message.row
    found: dict[str, object] = {
        "id": str(message.id),
        "partition": message.partition,
        "offset": row.offset,
        "timestamp": row.timestamp,
    }
    for name, data in (("topic", row.topic), ("key", row.key), ("value", row.value), ("native", row.native)):
        if data is not None:
            found |= text_or_base64(name, data)
    found |= _properties_json(row.properties)
    return found | ({"expiry": row.expiry} if row.expiry else {})


def letter_json(letter: Letter) -> dict[str, object]:
    """The message, and under `dead_letter` whence and why."""
    facts = letter.facts
    if facts is None:
        return {**message_json(letter.message), "dead_letter": None}
    told = {
        "message_id": str(facts.source),
        "queue": facts.source.queue,
        "group": str(facts.group),
        "reason": facts.reason.value,
        "detail": facts.detail,
        "delivery_count": facts.delivery_count,
        "failures": facts.failures,
        "first_failed": facts.first_failed_ms or None,
        "time": facts.moved_ms,
    }
    return {**message_json(letter.message), "dead_letter": told}


def short_text(data: bytes, most: int = 60) -> str:
    """As much of it as a line of a table holds."""
    text = data[: most * 4].decode(errors="replace")
    shown = "".join(character if character.isprintable() else "·" for character in text[:most])
    return shown + ("…" if len(text) > most else "")


def second_text(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _properties_json(properties: bytes | None) -> dict[str, object]:
    if properties is None:
        return {}
    try:
        envelope = unpack(properties)
    except InvalidArgument:
        return dict(text_or_base64("properties", properties))
    found: dict[str, object] = {"headers": [list(header) for header in envelope.headers]} if envelope.headers else {}
    for name, text in (("content_type", envelope.content_type), ("reply_to", envelope.reply_to)):
        found |= {} if text is None else {name: text}
    if envelope.correlation_id is not None:
        found |= text_or_base64("correlation_id", envelope.correlation_id)
    return found
