"""Bytes to frames, methods and content headers, one at a time. The kernel `amqp_scan` does publishes, settlements and
heartbeats in bulk, by the same rules."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple, get_type_hints

from penstock.codecs.amqp091.errors import AmqpError, Fault, octets, snippet
from penstock.codecs.amqp091.kinds import (
    EMPTY_FRAME_BYTES,
    FRAME_END,
    FRAME_HEAD_BYTES,
    PROTOCOL_HEADER,
    Domain,
    FrameType,
)
from penstock.codecs.amqp091.methods import METHODS, Method
from penstock.codecs.amqp091.properties import Properties, read_properties
from penstock.codecs.amqp091.wire import Reader
from penstock.core.ports import Buffer

_LEAST_METHOD_BYTES, _LEAST_HEADER_BYTES = 4, 12
_TYPES = frozenset(FrameType)
_SHOWN_BYTES = 17


class Need(enum.Enum):
    DATA = enum.auto()


class Frame(NamedTuple):
    type: FrameType
    channel: int
    payload: bytes

    @property
    def size(self) -> int:
        return len(self.payload) + EMPTY_FRAME_BYTES


class ContentHeader(NamedTuple):
    class_id: int
    body_bytes: int
    properties: bytes
    """flags and values, checked by nobody yet"""


def is_protocol_header(data: Buffer) -> bool | Need:
    """Whether the first eight bytes of a connection are those of AMQP 0.9.1. If not, the answer is PROTOCOL_HEADER and
    the end."""
    if bytes(data[:8]) == PROTOCOL_HEADER:
        return True
    return Need.DATA if len(data) < 8 and PROTOCOL_HEADER.startswith(bytes(data)) else False


def read_frame(data: Buffer, at: int, stop: int, frame_max: int) -> Frame | Need:
    """The frame that begins at data[at]; AmqpError as soon as its first bytes tell that it is none."""
    if stop - at < EMPTY_FRAME_BYTES:
        return Need.DATA
    kind, channel, size = read_head(data, at, stop, frame_max)
    payload = bytes(data[at + FRAME_HEAD_BYTES : min(at + FRAME_HEAD_BYTES + size, stop)])
    if stop - at < size + EMPTY_FRAME_BYTES:
        return Need.DATA
    end = data[at + FRAME_HEAD_BYTES + size]
    if end != FRAME_END:
        raise _bad_frame(kind, channel, payload, f"{{invalid_frame_end_marker,{end}}}")
    if kind is FrameType.HEARTBEAT:
        _check_heartbeat(channel, payload)
    return Frame(kind, channel, payload)


def read_head(data: Buffer, at: int, stop: int, frame_max: int) -> tuple[FrameType, int, int]:
    """Type, channel and size of the payload of a frame whose first eight bytes are there."""
    kind, channel = data[at], int.from_bytes(data[at + 1 : at + 3], "big")
    size = int.from_bytes(data[at + 3 : at + FRAME_HEAD_BYTES], "big")
    if kind not in _TYPES:
        payload = bytes(data[at + FRAME_HEAD_BYTES : min(at + FRAME_HEAD_BYTES + min(size, _SHOWN_BYTES), stop)])
        raise _bad_frame(kind, channel, payload, "unknown_frame")
    if size > frame_max:
        # RabbitMQ takes as much more as a frame has around its payload, and does not tell so.
        raise _bad_frame(kind, channel, b"", f"{{frame_too_large,{size},{frame_max - EMPTY_FRAME_BYTES}}}")
    return FrameType(kind), channel, size


def _bad_frame(kind: int, channel: int, payload: bytes, reason: str) -> AmqpError:
    return AmqpError(Fault.BAD_FRAME, channel, type=kind, snippet=snippet(payload), reason=reason)


def _check_heartbeat(channel: int, payload: bytes) -> None:
    if payload:
        raise _bad_frame(FrameType.HEARTBEAT, channel, payload, "unknown_frame")
    if channel:
        raise AmqpError(Fault.UNEXPECTED, channel, type=int(FrameType.HEARTBEAT), snippet=snippet(payload))


class Decoder:
    """Feed bytes, ask for frames until it needs more: any split gives the same frames. After an error each call raises
    it again. Ask after each `receive`: then no more is kept than a frame and what came last."""

    def __init__(self, frame_max: int) -> None:
        self.frame_max = frame_max
        self._buffer = bytearray()
        self._failed: AmqpError | None = None

    def receive(self, data: Buffer) -> None:
        if self._failed is None:
            self._buffer += data

    def next_frame(self) -> Frame | Need:
        if self._failed is not None:
            raise self._failed
        try:
            frame = read_frame(self._buffer, 0, len(self._buffer), self.frame_max)
        except AmqpError as fault:
            self._failed = fault
            self._buffer.clear()
            raise
        if frame is not Need.DATA:
            assert isinstance(frame, Frame)
            del self._buffer[: frame.size]
        return frame


def method_id_of(payload: bytes, channel: int) -> tuple[int, int]:
    """Class and method of a method frame."""
    if len(payload) < _LEAST_METHOD_BYTES:
        raise _bad_frame(FrameType.METHOD, channel, payload, "unknown_frame")
    return int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")


def decode_method(payload: bytes, channel: int = 0) -> Method:
    """The method that exactly this payload is. An error names the class and the method, as RabbitMQ's do."""
    number = method_id_of(payload, channel)
    kind = METHODS.get(number)
    if kind is None:
        raise AmqpError(Fault.UNIMPLEMENTED, channel, number)
    reader = Reader(payload, _LEAST_METHOD_BYTES)
    try:
        values = _read_fields(reader, kind)
        reader.finish(kind.name)
    except AmqpError as error:
        if reader.is_other_size:
            raise AmqpError(Fault.BAD_PAYLOAD, channel, number, detail=octets(payload[_LEAST_METHOD_BYTES:])) from None
        at = (0, 0) if error.fault is Fault.BAD_TEXT else number
        raise AmqpError(error.fault, channel, at, **error.facts) from None
    return kind(*values)


def decode_header(payload: bytes, channel: int = 0, at: tuple[int, int] = (0, 0)) -> ContentHeader:
    """The properties are checked when they are read. AmqpError for a weight other than 0, which nothing sends."""
    if len(payload) < _LEAST_HEADER_BYTES:
        raise _bad_frame(FrameType.HEADER, channel, payload, "unknown_frame")
    class_id, weight = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
    if weight:
        raise AmqpError(Fault.EXPECTED_HEADER, channel, at, class_id=class_id)
    return ContentHeader(class_id, int.from_bytes(payload[4:12], "big"), payload[12:])


def decode_properties(data: bytes, channel: int = 0, at: tuple[int, int] = (0, 0)) -> Properties:
    try:
        return read_properties(data)
    except AmqpError as error:
        raise AmqpError(error.fault, channel, at, **error.facts) from None


_READERS: dict[Domain, Callable[[Reader, str], object]] = {
    Domain.OCTET: lambda reader, what: reader.unsigned(1, what),
    Domain.SHORT: lambda reader, what: reader.unsigned(2, what),
    Domain.LONG: lambda reader, what: reader.unsigned(4, what),
    Domain.LONGLONG: lambda reader, what: reader.unsigned(8, what),
    Domain.SHORTSTR: Reader.shortstr,
    Domain.LONGSTR: Reader.longstr,
    Domain.TABLE: Reader.table,
}


def domains_of(kind: type[Method]) -> tuple[tuple[str, Domain], ...]:
    """Its fields in order, as annotations name them."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((name, hints[name].__metadata__[0]) for name in kind.__struct_fields__)


DOMAINS: dict[type[Method], tuple[tuple[str, Domain], ...]] = {kind: domains_of(kind) for kind in METHODS.values()}


def _read_fields(reader: Reader, kind: type[Method]) -> list[object]:
    values: list[object] = []
    octet, bits = 0, 0
    for name, domain in DOMAINS[kind]:
        if domain is Domain.BIT:
            if bits % 8 == 0:
                octet = reader.unsigned(1, name)
            values.append(bool(octet >> bits % 8 & 1))
            bits += 1
        else:
            bits = 0
            values.append(_READERS[domain](reader, name))
    return values
