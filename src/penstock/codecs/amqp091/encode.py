"""Methods, content and heartbeats to bytes. What cannot be said is refused with InvalidArgument or TooLarge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.codecs.amqp091.decode import DOMAINS, Frame
from penstock.codecs.amqp091.kinds import (
    EMPTY_FRAME_BYTES,
    FRAME_END,
    MIN_FRAME_MAX,
    Domain,
    FrameType,
)
from penstock.codecs.amqp091.methods import Method
from penstock.codecs.amqp091.properties import Properties, properties_bytes
from penstock.codecs.amqp091.wire import longstr_bytes, shortstr_bytes, table_bytes, unsigned_bytes
from penstock.core.errors import InvalidArgument, TooLarge
from penstock.core.ports import Buffer

_BASIC_NO_WEIGHT = b"\0\x3c\0\0"
"""class 60, weight 0"""
HEARTBEAT = bytes([FrameType.HEARTBEAT, 0, 0, 0, 0, 0, 0, FRAME_END])

_WRITERS: dict[Domain, Callable[[Any, str], bytes]] = {
    Domain.OCTET: lambda value, what: unsigned_bytes(value, 1, what),
    Domain.SHORT: lambda value, what: unsigned_bytes(value, 2, what),
    Domain.LONG: lambda value, what: unsigned_bytes(value, 4, what),
    Domain.LONGLONG: lambda value, what: unsigned_bytes(value, 8, what),
    Domain.SHORTSTR: shortstr_bytes,
    Domain.LONGSTR: longstr_bytes,
    Domain.TABLE: table_bytes,
}


def method_payload(method: Method) -> bytes:
    out = bytearray(method.class_id.to_bytes(2, "big") + method.method_id.to_bytes(2, "big"))
    bits = 0
    for name, domain in DOMAINS[type(method)]:
        value = getattr(method, name)
        if domain is Domain.BIT:
            if bits % 8 == 0:
                out.append(0)
            out[-1] |= bool(value) << bits % 8
            bits += 1
        else:
            bits = 0
            out += _WRITERS[domain](value, name)
    return bytes(out)


def frame_bytes(frame: Frame) -> bytes:
    head = bytes([frame.type]) + unsigned_bytes(frame.channel, 2, "the channel")
    return b"".join([head, unsigned_bytes(len(frame.payload), 4, "a frame"), frame.payload, b"\xce"])


def method_frame(channel: int, method: Method, frame_max: int = 0) -> bytes:
    """TooLarge if it has more bytes than the peer takes; 0 is no limit."""
    frame = Frame(FrameType.METHOD, channel, method_payload(method))
    if frame_max and frame.size > frame_max:
        raise TooLarge(method.name, frame.size, frame_max)
    return frame_bytes(frame)


def content_frames(channel: int, method: Method, properties: Properties | bytes, body: Buffer, frame_max: int) -> bytes:
    """A method with its content: its frame, a header and as many body frames as need be."""
    if not method.has_content or frame_max < MIN_FRAME_MAX:
        raise InvalidArgument("a content follows a method that has one, in frames of at least 4096 bytes")
    header = header_frame(channel, len(body), properties)
    if len(header) > frame_max:
        raise TooLarge("the properties", len(header), frame_max)
    return b"".join([method_frame(channel, method, frame_max), header, body_frames(channel, body, frame_max)])


def header_frame(channel: int, body_bytes: int, properties: Properties | bytes) -> bytes:
    carried = properties if isinstance(properties, bytes) else properties_bytes(properties)
    numbers = unsigned_bytes(body_bytes, 8, "a body")
    return frame_bytes(Frame(FrameType.HEADER, channel, _BASIC_NO_WEIGHT + numbers + carried))


def body_frames(channel: int, body: Buffer, frame_max: int) -> bytes:
    room = frame_max - EMPTY_FRAME_BYTES
    parts = [bytes(body[at : at + room]) for at in range(0, len(body), room)]
    return b"".join([frame_bytes(Frame(FrameType.BODY, channel, part)) for part in parts])
