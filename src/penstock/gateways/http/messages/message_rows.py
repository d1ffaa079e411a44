"""Stored rows as the JSON that clients are given."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.codecs.http.messages import Message
from penstock.gateways.http.messages.bodies import correlation_text, either, unpacked
from penstock.log.batch import Row
from penstock.log.view import viewed_properties
from penstock.queues.properties import NULL_VALUE, Envelope

_NO_ENVELOPE = Envelope()
ANSWER_BYTES = 16 << 20
"""values of that size together end a list, whatever its limit"""


def size_of(messages: Iterable[Message]) -> int:
    """Of their values."""
    return sum([len(message.sent_text or message.sent_base64 or b"") for message in messages])


def message_of(
    prefix: str,
    queue: str,
    partition: int,
    row: Row,
    is_base64: bool = False,
    receipt: str | None = None,
    deliveries: int | None = None,
) -> Message:
    """`prefix` is that of the ids of its partition."""
    properties = row.properties if row.native is None else viewed_properties(row.properties, row.native)
    envelope = _NO_ENVELOPE if properties is None else unpacked(properties)
    is_null = not row.value and envelope.header(NULL_VALUE) is not None
    text, base64 = either(None if is_null else row.value, is_base64)
    key, key_base64 = either(row.key, is_base64)
    return Message(
        id=f"{prefix}{row.offset}",
        queue=queue,
        partition=partition,
        offset=row.offset,
        timestamp_ms=row.timestamp,
        sent_text=text,
        sent_base64=base64,
        key=key,
        key_base64=key_base64,
        headers=list(envelope.headers),
        content_type=envelope.content_type,
        topic=None if row.topic is None else row.topic.decode(errors="replace"),
        reply_to=envelope.reply_to,
        correlation_id=correlation_text(envelope),
        receipt=receipt,
        deliveries=deliveries,
    )
