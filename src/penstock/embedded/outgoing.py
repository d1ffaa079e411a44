"""From what callers hand over to columns: one message, lists of them, or tables that are columns already."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypedDict, Unpack

from penstock.core.errors import InvalidArgument
from penstock.core.units import parse_duration
from penstock.kernels import cells
from penstock.log.columns import Columns
from penstock.queues.properties import Envelope, pack

if TYPE_CHECKING:
    import pyarrow as pa

Value = bytes | str
Headers = Mapping[str, str]
Seconds = float | str
"""a number of seconds, or text such as `5m`"""


class Tabular(Protocol):
    """A pyarrow.Table or RecordBatch."""

    @property
    def schema(self) -> pa.Schema: ...


Sendable = Sequence[Value] | Columns | Tabular
"""many messages at once"""


def seconds(value: Seconds) -> float:
    return parse_duration(value) if isinstance(value, str) else float(value)


class Carried(TypedDict, total=False):
    """What a message may carry beside key, value and headers."""

    expires_in: Seconds | None
    reply_to: str | None
    correlation_id: Value | None
    content_type: str | None


class Parts(NamedTuple):
    """One message in bytes; its expiry is in ms since 1970, 0 for never."""

    value: bytes
    key: bytes | None
    properties: bytes | None
    expiry: int


_VALUE_ALONE = Parts(b"", None, None, 0)[1:]


def parts_of(
    value: Value,
    key: Value | None = None,
    headers: Headers | None = None,
    *,
    expires_in: Seconds | None = None,
    reply_to: str | None = None,
    correlation_id: Value | None = None,
    content_type: str | None = None,
) -> Parts:
    packed = None
    if headers or reply_to is not None or correlation_id is not None or content_type is not None:
        correlation = None if correlation_id is None else _bytes(correlation_id)
        packed = pack(Envelope(tuple((headers or {}).items()), content_type, reply_to, correlation))
    expiry = 0 if expires_in is None else _expiry(expires_in)
    return Parts(_bytes(value), None if key is None else _bytes(key), packed, expiry)


def columns_of(messages: Sequence[Parts], topic: str | None = None) -> Columns:
    """What no message has is no column."""
    if len(messages) == 1 and topic is None and messages[0][1:] == _VALUE_ALONE:
        return Columns.of([messages[0].value])
    return Columns.of(
        [message.value for message in messages],
        keys=[message.key or b"" for message in messages] if any(message.key for message in messages) else None,
        topics=None if topic is None else [topic.encode()] * len(messages),
        properties=[message.properties or b"" for message in messages]
        if any(message.properties for message in messages)
        else None,
        expiry=[message.expiry for message in messages] if any(message.expiry for message in messages) else None,
    )


def one_message(
    value: Value,
    key: Value | None = None,
    headers: Headers | None = None,
    topic: str | None = None,
    **carried: Unpack[Carried],
) -> Columns:
    return columns_of([parts_of(value, key, headers, **carried)], topic)


def many_messages(
    values: Sendable,
    keys: Sequence[Value] | None = None,
    headers: Headers | Sequence[Headers] | None = None,
    expires_in: Seconds | None = None,
) -> Columns:
    """Columns are taken as they are, a table by its columns `value`, `key` and, where there is one, `properties`.
    `headers` are those of all messages, or a mapping for each."""
    if isinstance(values, Columns):
        return values
    if not isinstance(values, Sequence):
        from penstock.embedded.arrow import columns_of_table

        return columns_of_table(values)
    return Columns.of(
        _all_bytes(values),
        keys=None if keys is None else _all_bytes(keys),
        properties=_properties(headers, len(values)),
        expiry=None if expires_in is None else [_expiry(expires_in)] * len(values),
    )


def _properties(headers: Headers | Sequence[Headers] | None, count: int) -> list[bytes] | None:
    if headers is None:
        return None
    if isinstance(headers, Mapping):
        return [pack(Envelope(tuple(headers.items())))] * count
    return [pack(Envelope(tuple(each.items()))) for each in headers]


def _expiry(expires_in: Seconds) -> int:
    if (wait_s := seconds(expires_in)) <= 0:
        raise InvalidArgument(f"a message that expires in {expires_in} is never delivered: write more than 0")
    return time.time_ns() // 1_000_000 + int(wait_s * 1000)


def _bytes(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise InvalidArgument(f"a message is bytes or str, not {type(value).__name__}: encode it first")


def _all_bytes(values: Sequence[Value]) -> list[bytes]:
    """Looked at one by one only if they are not all bytes."""
    found: list[bytes] = values if isinstance(values, list) else list(values)  # type: ignore[arg-type]  # looked at next
    return found if cells.are_bytes(found) else [_bytes(value) for value in values]
