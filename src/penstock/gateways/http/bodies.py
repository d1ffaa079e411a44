"""Messages in JSON: what clients send, and what they are given."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw

from penstock.codecs.http.messages import OutgoingMessage
from penstock.core.errors import InvalidArgument
from penstock.gateways.http.problems import Refusal
from penstock.kernels.topics import check_topic
from penstock.log.columns import Columns
from penstock.queues.properties import NULL_VALUE, Envelope, pack, unpack

_CHOICES = "text, json, base64 and value"


_NULL, _IS_NULL = Raw(b"null"), (NULL_VALUE, "1")


def refuse_both(body: OutgoingMessage) -> None:
    """Of a body with `messages`, which is no message itself: Refusal if it looks like one, rather than pass over it."""
    for name in OutgoingMessage.__struct_fields__:
        if getattr(body, name) is not UNSET and getattr(body, name) is not None:
            raise _malformed(name, "a body with `messages` has nothing of a message beside them")


class _Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str


class _Texts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    messages: list[_Text]


_texts_decoder = msgspec.json.Decoder(_Texts)


def plain_texts(body: bytes) -> list[bytes] | None:
    """The values of a body with nothing but texts, which takes half the time so; None for all others, good or bad."""
    if not body.startswith(b'{"messages":'):
        return None
    try:
        return [message.text.encode() for message in _texts_decoder.decode(body).messages] or None
    except (msgspec.DecodeError, UnicodeError):
        return None


def columns_of(messages: Sequence[OutgoingMessage], field: str = "messages") -> Columns:
    """Refusal names the message and the field."""
    values = [_value(message, field, number) for number, message in enumerate(messages)]
    if not any(_has_more(message) for message in messages):
        return Columns.of(values)
    has_key = any(message.key is not None or message.key_base64 is not None for message in messages)
    has_topic = any(message.topic is not None for message in messages)
    envelopes = [_properties(message, field, number) for number, message in enumerate(messages)]
    return Columns.of(
        values,
        keys=[_key(message, field, number) for number, message in enumerate(messages)] if has_key else None,
        topics=[_topic(message.topic, f"{field}[{number}].topic") for number, message in enumerate(messages)]
        if has_topic
        else None,
        properties=envelopes if any(envelopes) else None,
    )


def plain_value(messages: Sequence[OutgoingMessage], field: str = "messages") -> bytes | None:
    """Of one message that has a value and nothing else."""
    if len(messages) != 1 or messages[0].partition is not None or _has_more(messages[0]):
        return None
    return _value(messages[0], field, 0)


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


def _key(message: OutgoingMessage, field: str, number: int) -> bytes:
    if message.key_base64 is None:
        return _utf8(message.key or "", f"{field}[{number}].key")
    if message.key is not None:
        raise _malformed(f"{field}[{number}].key_base64", "a message has one key: key or key_base64")
    return message.key_base64


def _topic(topic: str | None, field: str) -> bytes:
    """Consumers of other protocols are given it as one: what they could not read would end them all."""
    if topic is None:
        return b""
    try:
        name = _utf8(topic, field)
        check_topic(name)
    except InvalidArgument as error:
        raise _malformed(field, str(error)) from None
    return name


def _properties(message: OutgoingMessage, field: str, number: int) -> bytes:
    headers, is_null = message.headers, message.value == _NULL
    if (
        not headers
        and not is_null
        and message.content_type is None
        and message.reply_to is None
        and message.correlation_id is None
    ):
        return b""
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
        raise _malformed(field, "half of a surrogate pair is no text: send base64") from None


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
