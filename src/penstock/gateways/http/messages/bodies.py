"""Messages in JSON: what clients send, and what they are given."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw

from penstock.broker.publish.joint import Row
from penstock.broker.publish.joint import columns_of as rows_as_columns
from penstock.codecs.http.messages import OutgoingMessage
from penstock.core.errors import InvalidArgument
from penstock.gateways.http.server.problems import Refusal
from penstock.kernels import json_messages
from penstock.kernels.topics import check_topic
from penstock.log.columns import Columns, Spans
from penstock.queues.properties import NULL_VALUE, Envelope, pack, unpack

_CHOICES = "text, json, base64 and value"
_NULL, _IS_NULL = Raw(b"null"), (NULL_VALUE, "1")
_HEADER = b"penstock-header-"
_MANY = b'{"messages":'
# Room is made for messages of so many bytes first; where there are more of them, for the shortest (`{"text":""}`).
_USUAL_BYTES, _LEAST_BYTES = 64, 11
_ZERO = array("i", [0])


def raw_message(headers: Sequence[tuple[bytes, bytes]], body: bytes | bytearray) -> OutgoingMessage:
    """The body as its value, what else it has in headers of the request. Refusal names the header."""
    first = dict(headers[::-1])  # of several with one name
    partition = _header(first, b"penstock-partition")
    if partition is not None and not (partition.isascii() and partition.isdecimal() and len(partition) < 10):
        detail = f"Penstock-Partition is {partition[:40]!r}: give a number"
        raise Refusal(400, "invalid-argument", detail, "Penstock-Partition")
    pairs = [
        (name[len(_HEADER) :].decode(), _header_text(value, name))
        for name, value in headers
        if name.startswith(_HEADER)
    ]
    return OutgoingMessage(
        base64=bytes(body),
        key=_header(first, b"penstock-key"),
        headers=pairs or None,
        content_type=_header(first, b"content-type"),
        reply_to=_header(first, b"penstock-reply-to"),
        correlation_id=_header(first, b"penstock-correlation-id"),
        topic=_header(first, b"penstock-topic"),
        partition=None if partition is None else int(partition),
    )


def _header(headers: Mapping[bytes, bytes], name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else _header_text(value, name)


def _header_text(value: bytes, name: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Refusal(400, "invalid-argument", f"the header {name.decode()} is not UTF-8", name.decode()) from None


def refuse_both(body: OutgoingMessage) -> None:
    """Of a body with `messages`, which is no message itself: Refusal if it looks like one, rather than pass over it."""
    for name in OutgoingMessage.__struct_fields__:
        if getattr(body, name) is not UNSET and getattr(body, name) is not None:
            raise _malformed(
                name, "a body with `messages` has no other field of a message: put those into each message"
            )


def plain_columns(body: bytes | bytearray, is_lines: bool = False) -> Columns | None:
    """Of a body with `messages`, or of lines, that have a text and maybe a key each and nothing else, over the body
    itself; None for all others, good or bad."""
    if not is_lines and not body.startswith(_MANY):
        return None
    try:
        body.isascii() or body.decode()
    except UnicodeDecodeError:
        return None
    for row_bytes in (_USUAL_BYTES, _LEAST_BYTES):
        # Anew each time: strings with escapes are written over where they stand.
        out = bytearray(body if b"\\" in body else b"")
        source = out or body
        room = len(body) // row_bytes + 1
        spans = _ZERO * (4 * room)
        count = json_messages.scan(source, out, is_lines, spans)
        if count != json_messages.FULL:
            break
    if count < 1:
        return None
    starts, ends, key_starts, key_ends = [spans[first : first + count] for first in range(0, 4 * room, room)]
    keys = None if key_starts == _ZERO * count else Spans(key_starts, key_ends)
    return Columns(count, source, Spans(starts, ends), keys)


def columns_of(messages: Sequence[OutgoingMessage], field: str = "messages") -> Columns:
    """Refusal names the message and the field."""
    return rows_as_columns([row_of(message, field, number) for number, message in enumerate(messages)])


def row_of(message: OutgoingMessage, field: str = "messages", number: int = 0) -> Row:
    value = _value(message, field, number)
    if not _has_more(message):
        return Row(value)
    topic = None if message.topic is None else _topic(message.topic, f"{field}[{number}].topic")
    return Row(value, _key(message, field, number), _properties(message, field, number), 0, topic)


def _has_more(message: OutgoingMessage) -> bool:
    """Than a value, which is all that most messages have."""
    return (
        message.key is not None
        or message.key_base64 is not None
        or message.topic is not None
        or message.headers is not None
        or message.content_type is not None
        or message.reply_to is not None
        or message.correlation_id is not None
        or message.value == _NULL
    )


def _value(message: OutgoingMessage, field: str, number: int) -> bytes:
    text = message.text
    if text is not UNSET and message.json is UNSET and message.base64 is UNSET and message.value is UNSET:
        try:
            return text.encode()
        except UnicodeEncodeError:
            return _utf8(text, f"{field}[{number}].text")
    given = [each for each in (text, message.json, message.base64, message.value) if each is not UNSET]
    if len(given) != 1:
        said = "none is there" if not given else f"{len(given)} are there"
        raise _malformed(f"{field}[{number}]", f"a message has exactly one of {_CHOICES}, and {said}")
    if message.base64 is not UNSET:
        return message.base64
    raw = bytes(message.json if message.json is not UNSET else message.value)  # type: ignore[arg-type]  # one is there
    if message.value is not UNSET and raw.startswith(b'"'):
        return _utf8(msgspec.json.decode(raw, type=str), f"{field}[{number}].value")
    return b"" if message.value == _NULL else raw


def _key(message: OutgoingMessage, field: str, number: int) -> bytes | None:
    if message.key_base64 is None:
        return None if message.key is None else _utf8(message.key, f"{field}[{number}].key")
    if message.key is not None:
        raise _malformed(f"{field}[{number}].key_base64", "a message has one key: key or key_base64")
    return message.key_base64


def _topic(topic: str, field: str) -> bytes:
    """Consumers of other protocols are given it as one: what they could not read would end them all."""
    try:
        name = _utf8(topic, field)
        check_topic(name)
    except InvalidArgument as error:
        raise _malformed(field, str(error)) from None
    return name


def _properties(message: OutgoingMessage, field: str, number: int) -> bytes | None:
    headers, is_null = message.headers, message.value == _NULL
    if (
        not headers
        and not is_null
        and message.content_type is None
        and message.reply_to is None
        and message.correlation_id is None
    ):
        return None
    if message.reply_to is not None:
        _topic(message.reply_to, f"{field}[{number}].reply_to")
    pairs = [*(headers.items() if isinstance(headers, dict) else headers or ()), *([_IS_NULL] if is_null else [])]
    correlation = message.correlation_id
    try:
        return pack(
            Envelope(
                tuple(pairs),
                message.content_type,
                message.reply_to,
                None if correlation is None else correlation.encode(),
            )
        )
    except (InvalidArgument, UnicodeEncodeError) as error:
        raise _malformed(f"{field}[{number}].headers", str(error)) from None


def _utf8(text: str, field: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _malformed(field, "the text has half of a surrogate pair in it: send base64") from None


def _malformed(field: str, detail: str) -> Refusal:
    return Refusal(400, "malformed-body", f"{field}: {detail}", field)


def either(data: bytes | None, is_base64: bool) -> tuple[str | None, bytes | None]:
    """As text where it is UTF-8 and that is wanted, else as bytes."""
    if data is None:
        return None, None
    if not is_base64:
        try:
            return data.decode(), None
        except UnicodeDecodeError:
            pass
    return None, data


def unpacked(properties: bytes | None) -> Envelope:
    """What cannot be read, as other protocols may have left it, is passed over."""
    try:
        return unpack(properties or b"")
    except InvalidArgument:
        return Envelope()


def correlation_text(envelope: Envelope) -> str | None:
    return None if envelope.correlation_id is None else envelope.correlation_id.decode(errors="replace")
