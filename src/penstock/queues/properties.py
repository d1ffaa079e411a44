"""Properties of messages, in the encoding that MQTT 5 gives those of a PUBLISH (3.3.2.3), without the total length.

Every protocol's headers end up here. Only a few properties are read on the hot path, with penstock.log.properties; this
module takes whole messages apart and puts them together."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.core.errors import InvalidArgument

MAX_STRING_BYTES = 65535

NULL_VALUE: Final = "null-value"
"""A user property, whatever it says: an empty value beside it is null. Tables show it as that, JSON as none."""

_CONTENT_TYPE, _RESPONSE_TOPIC, _CORRELATION_DATA, _SUBSCRIPTION, _USER = 0x03, 0x08, 0x09, 0x0B, 0x26
_FIXED_BYTES = {0x01: 1, 0x02: 4, 0x23: 2}
_ONE_STRING = (_CONTENT_TYPE, _RESPONSE_TOPIC, _CORRELATION_DATA)
_MAX_INTEGER_BYTES = 4
_ILL_FORMED: Final = -1


class PublishProperty(enum.StrEnum):
    """User properties with a meaning when a message is published."""

    PARTITION_KEY = "partition-key"
    PARTITION = "partition"
    PRIORITY = "priority"
    DELAY = "delay"
    DELIVER_AT = "deliver-at"
    PRODUCER_ID = "producer-id"
    PRODUCER_EPOCH = "producer-epoch"
    SEQUENCE = "sequence"
    SCHEMA_ID = "schema-id"
    TRACEPARENT = "traceparent"
    TRACESTATE = "tracestate"
    REPLY_TO = "reply-to"
    CORRELATION_ID = "correlation-id"


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a message carries beside key and value. A header may occur more than once; order is kept.
    `others` are the properties that have no field here, as they are stored."""

    headers: tuple[tuple[str, str], ...] = ()
    content_type: str | None = None
    reply_to: str | None = None
    correlation_id: bytes | None = None
    others: bytes = b""

    def header(self, name: str) -> str | None:
        """The first value under that name."""
        return next((value for found, value in self.headers if found == name), None)


def pack(envelope: Envelope) -> bytes:
    """InvalidArgument for text that MQTT cannot carry."""
    fields = (
        (_CONTENT_TYPE, envelope.content_type),
        (_RESPONSE_TOPIC, envelope.reply_to),
        (_CORRELATION_DATA, envelope.correlation_id),
    )
    given = [bytes((kind,)) + _string(value, kind) for kind, value in fields if value is not None]
    return b"".join([envelope.others, *given, encode_user_properties(envelope.headers)])


def unpack(data: bytes) -> Envelope:
    """InvalidArgument for what pack() cannot have made: ill-formed, or a field twice."""
    headers: list[tuple[str, str]] = []
    fields: dict[int, bytes] = {}
    others: list[bytes] = []
    for prop in _well_formed(data):
        if prop.kind == _USER:
            headers.append(_pair(prop.data))
        elif prop.kind not in _ONE_STRING:
            others.append(prop.data)
        elif fields.setdefault(prop.kind, prop.data) is not prop.data:
            raise InvalidArgument(f"property {prop.kind:#04x} occurs twice in a message")
    correlation = fields.get(_CORRELATION_DATA)
    return Envelope(
        tuple(headers),
        _field_text(fields.get(_CONTENT_TYPE)),
        _field_text(fields.get(_RESPONSE_TOPIC)),
        None if correlation is None else correlation[3:],
        b"".join(others),
    )


def encode_user_properties(pairs: Iterable[tuple[str | bytes, str | bytes]]) -> bytes:
    """InvalidArgument for names or values over 65535 bytes, with NUL in them, or that are not UTF-8."""
    return b"".join([b"\x26" + _string(name, _USER) + _string(value, _USER) for name, value in pairs])


def decode_user_properties(data: bytes) -> list[tuple[str, str]]:
    """All user properties in their order; others are passed over. InvalidArgument for ill-formed bytes."""
    return [_pair(prop.data) for prop in _well_formed(data) if prop.kind == _USER]


def with_properties(data: bytes, pairs: Iterable[tuple[str | bytes, str | bytes]], drop: Collection[str] = ()) -> bytes:
    """The properties without the user properties named in `drop`, behind the given ones. All others stay byte for byte,
    and so does everything from a place on that cannot be read: whatever was stored, the given ones can be added."""
    dropped = {name.encode() for name in drop}
    kept = [prop.data for prop in _properties(data) if prop.kind != _USER or _name(prop.data) not in dropped]
    return encode_user_properties(pairs) + b"".join(kept)


class _Property(NamedTuple):
    """One property, the byte that says its kind included."""

    kind: int
    data: bytes


def _properties(data: bytes) -> Iterator[_Property]:
    """One after the other; the last is of the kind _ILL_FORMED where the bytes from there on cannot be read."""
    at = 0
    while at < len(data):
        end = _end(data, at)
        if not at < end <= len(data):
            yield _Property(_ILL_FORMED, data[at:])
            return
        yield _Property(data[at], data[at:end])
        at = end


def _well_formed(data: bytes) -> Iterator[_Property]:
    for prop in _properties(data):
        if prop.kind == _ILL_FORMED:
            raise InvalidArgument(f"ill-formed properties: the last {len(prop.data)} bytes cannot be read")
        yield prop


def _end(data: bytes, at: int) -> int:
    """Where the property at that place ends: beyond the data if it is cut short, -1 if its kind is not a PUBLISH's."""
    kind = data[at]
    if kind == _USER:
        return _string_end(data, _string_end(data, at + 1))
    if kind in _ONE_STRING:
        return _string_end(data, at + 1)
    if kind == _SUBSCRIPTION:
        return _integer_end(data, at + 1)
    return at + 1 + _FIXED_BYTES[kind] if kind in _FIXED_BYTES else -1


def _string_end(data: bytes, at: int) -> int:
    return at + 2 + int.from_bytes(data[at : at + 2], "big")


def _integer_end(data: bytes, at: int) -> int:
    for end in range(at, min(at + _MAX_INTEGER_BYTES, len(data))):
        if data[end] < 0x80:
            return end + 1
    return -1


def _name(prop: bytes) -> bytes:
    return prop[3 : _string_end(prop, 1)]


def _pair(prop: bytes) -> tuple[str, str]:
    value_at = _string_end(prop, 1)
    return _text(prop[3:value_at]), _text(prop[value_at + 2 :])


def _field_text(prop: bytes | None) -> str | None:
    return None if prop is None else _text(prop[3:])


def _text(data: bytes) -> str:
    """As MQTT defines a string (1.5.4)."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"a property is not UTF-8: {data[:80]!r}") from error
    if "\0" in text:
        raise InvalidArgument(f"a property has a NUL character in it: {text[:80]!r}")
    return text


def _string(value: str | bytes, kind: int) -> bytes:
    try:
        data = value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"a property has half of a surrogate pair in it: {value[:80]!r}") from error
    if len(data) > MAX_STRING_BYTES:
        raise InvalidArgument(f"a property is {len(data)} bytes, the limit is {MAX_STRING_BYTES}: {data[:80]!r}…")
    if kind != _CORRELATION_DATA:
        _text(data)
    return len(data).to_bytes(2, "big") + data
