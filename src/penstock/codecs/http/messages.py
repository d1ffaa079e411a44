"""Messages: what clients publish, what they are given, and what they are told of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from penstock.codecs.http.shapes import Base64, CorrelationText, HeaderText, Partition, TopicName, described, one_of
from penstock.core.settings.kind import Json

VALUES = ("text", "json", "base64", "value")


TWO_KEYS: Json = {
    "required": ["key", "key_base64"],
    "properties": {"key": {"type": "string"}, "key_base64": {"type": "string"}},
}


_BESIDE = ("key", "key_base64", "headers", "content_type", "reply_to", "correlation_id", "topic", "partition")


def one_or_many() -> Json:
    """What a body says that is one message, or has `messages` and nothing of one."""
    nothing = {**dict.fromkeys(VALUES, False), **{name: {"type": "null"} for name in _BESIDE}}
    many: Json = {"required": ["messages"], "properties": {"messages": {"minItems": 1}, **nothing}}
    return {"oneOf": [*one_of(VALUES, ("messages",)), many], "not": TWO_KEYS}


@described({"oneOf": one_of(VALUES), "not": TWO_KEYS})
class OutgoingMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One message to publish. Its value is one of `text`, `json`, `base64` and `value`, where a string is text, null is
    null (a tombstone) and anything else is JSON."""

    text: str | UnsetType = UNSET
    json: Raw | UnsetType = UNSET
    base64: Base64 | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    key: str | None = None
    """messages of one key stay in order"""
    key_base64: Base64 | None = None
    headers: dict[HeaderText, HeaderText] | list[tuple[HeaderText, HeaderText]] | None = None
    content_type: HeaderText | None = None
    reply_to: TopicName | None = None
    correlation_id: CorrelationText | None = None
    topic: TopicName | None = None
    partition: Partition | None = None
    """instead of the one that the key leads to; all messages of a request have the same"""


class Message(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    kw_only=True,
    rename={"sent_text": "text", "sent_base64": "base64"},
):
    """A stored message. The value is `text` if it is UTF-8, else `base64`; the key likewise. A null value or key has
    neither."""

    id: str
    queue: str
    partition: int
    offset: int
    timestamp_ms: int
    sent_text: str | None = None
    sent_base64: bytes | None = None
    key: str | None = None
    key_base64: bytes | None = None
    headers: list[tuple[str, str]] = []  # msgspec makes a new one for each
    content_type: str | None = None
    topic: str | None = None
    reply_to: str | None = None
    correlation_id: str | None = None
    receipt: str | None = None
    """to settle this delivery with"""
    deliveries: int | None = None
    """how often it was handed out, this time included"""

    @property
    def value(self) -> bytes:
        return self.sent_text.encode() if self.sent_text is not None else self.sent_base64 or b""

    @property
    def text(self) -> str:
        """UnicodeDecodeError if it is not UTF-8."""
        return self.sent_text if self.sent_text is not None else self.value.decode()

    def json(self) -> Any:  # whatever its sender put there
        """msgspec.DecodeError if it is not JSON."""
        return msgspec.json.decode(self.value)

    @property
    def key_bytes(self) -> bytes | None:
        return self.key.encode() if self.key is not None else self.key_base64

    @property
    def timestamp(self) -> datetime:
        """When it was stored."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    def header(self, name: str) -> str | None:
        """The first of that name."""
        return next((value for found, value in self.headers if found == name), None)


class PublishedMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The offset is -1 for a duplicate whose original offset is no longer known."""

    id: str
    partition: int
    offset: int
    duplicate: bool = False


class Producer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A publisher that numbers its messages, so that one sent twice is stored once."""

    id: Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": 255})]
    sequence: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0})]
    """of the first message; the others follow"""
    epoch: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0})] = 0


@described(one_or_many())
class PublishBody(OutgoingMessage, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One message, or `messages`: all of them are taken, or none."""

    messages: list[OutgoingMessage] | UnsetType = UNSET
    producer: Producer | None = None


class PublishReport(msgspec.Struct, frozen=True):
    accepted: int
    duplicates: int
    results: list[PublishedMessage]
    created: bool | UnsetType = UNSET
    """true: the queue did not exist, and was created for these messages"""


@described({"oneOf": one_of(VALUES), "not": TWO_KEYS, "properties": {"partition": {"type": "null"}}})
class TopicMessage(OutgoingMessage, frozen=True, forbid_unknown_fields=True, kw_only=True):
    qos: Annotated[int, msgspec.Meta(ge=0, le=2)] = 1
    retain: bool = False
    """later subscribers get it too; an empty one removes what is retained"""


@described({**one_or_many(), "properties": {"partition": {"type": "null"}}})
class TopicPublish(TopicMessage, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One message, or `messages`, each with its topic."""

    messages: list[TopicMessage] | UnsetType = UNSET


class TopicReport(msgspec.Struct, frozen=True):
    accepted: int
    matched: int
    """messages that reached a subscriber or a queue"""
    created: list[str] | UnsetType = UNSET
    """queues that did not exist, and were created because a topic names them"""


class RetainedMessages(msgspec.Struct, frozen=True):
    """In no order. `total` counts all retained messages, whatever the filter."""

    total: int
    items: list[Message]


class BrowsedMessages(msgspec.Struct, frozen=True):
    """`next` is the cursor for more, null at the end. An answer can be short, or even empty, and still have a `next`:
    the size of one answer and the work for it are bounded."""

    messages: list[Message]
    next: str | None


class Received(msgspec.Struct, frozen=True):
    messages: list[Message]
