"""Streams of AMQP 0.9.1, made by hand, and what the scanner must say of them: told by the codec, frame by frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.codecs.amqp091.decode import (
    Frame,
    Need,
    decode_header,
    decode_method,
    decode_properties,
    method_id_of,
    read_frame,
    read_head,
)
from penstock.codecs.amqp091.encode import content_frames, frame_bytes, method_frame
from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.codecs.amqp091.kinds import FrameType
from penstock.codecs.amqp091.methods import BasicAck, BasicNack, BasicPublish, BasicReject, Method
from penstock.codecs.amqp091.properties import NO_PROPERTIES, Properties
from penstock.kernels import amqp_columns as names

FRAME_MAX = 4096
SCANNED: Mapping[tuple[int, int], int] = {
    (60, 40): names.PUBLISH,
    (60, 80): names.ACK,
    (60, 120): names.NACK,
    (60, 90): names.REJECT,
}


@dataclass(frozen=True)
class Limits:
    frame_max: int = FRAME_MAX
    max_body: int = 65_536
    assembling: int = 0


@dataclass
class Seen:
    rows: list[dict[str, object]] = field(default_factory=list)
    why: int = names.NEEDS_BYTES
    position: int = 0
    size: int = 0
    reason: int = 0


class _Ended(Exception):
    def __init__(self, why: int, size: int) -> None:
        self.why, self.size = why, size


def read_stream(data: bytes, limits: Limits, room: int = 1 << 20) -> Seen:
    seen, at = Seen(), 0
    while at < len(data):
        seen.position = at
        if len(seen.rows) == room:
            seen.why = names.ROWS_FULL
            return seen
        try:
            row, at = _row(data, at, limits)
        except AmqpError as error:
            seen.why, seen.reason = names.BAD_FRAME, int(error.fault.reply)
            return seen
        except _Ended as ended:
            seen.why, seen.size = ended.why, ended.size
            return seen
        seen.rows.append(row)
    seen.position = at
    return seen


def _row(data: bytes, at: int, limits: Limits) -> tuple[dict[str, object], int]:
    frame = _whole(data, at, at, limits)
    end = at + frame.size
    if frame.type is FrameType.HEARTBEAT:
        return {"kind": names.HEARTBEAT, "channel": 0}, end
    if frame.type is not FrameType.METHOD:
        raise _Ended(names.OTHER_FRAME, frame.size)
    number = method_id_of(frame.payload, frame.channel)
    if number not in SCANNED or frame.channel == 0 or limits.assembling in (-1, frame.channel):
        raise _Ended(names.OTHER_FRAME, frame.size)
    method = decode_method(frame.payload, frame.channel)
    if isinstance(method, BasicPublish):
        return _publish(data, at, end, frame, method, limits)
    return _settlement(method, frame.channel, SCANNED[number]), end


def _settlement(method: Method, channel: int, kind: int) -> dict[str, object]:
    assert isinstance(method, BasicAck | BasicNack | BasicReject)
    flags = names.MULTIPLE * getattr(method, "multiple", False) | names.REQUEUE * getattr(method, "requeue", False)
    return {"kind": kind, "channel": channel, "flags": flags, "tag": method.delivery_tag}


def _publish(
    data: bytes, at: int, end: int, frame: Frame, method: BasicPublish, limits: Limits
) -> tuple[dict[str, object], int]:
    kind, channel = _head(data, end, at, limits)
    if channel != frame.channel:
        raise _Ended(names.OTHER_FRAME, frame.size)
    if kind != FrameType.HEADER:
        raise AmqpError(Fault.EXPECTED_HEADER, class_id=60)
    content = _whole(data, end, at, limits)
    header = decode_header(content.payload, channel)
    if header.class_id != 60:
        raise AmqpError(Fault.OTHER_CLASS, class_id=60, other=header.class_id)
    properties = decode_properties(header.properties)
    end += content.size
    body = b""
    if header.body_bytes > limits.max_body:
        raise _Ended(names.OTHER_FRAME, frame.size)
    if header.body_bytes:
        kind, channel = _head(data, end, at, limits)
        size = int.from_bytes(data[end + 3 : end + 7], "big")
        if channel != frame.channel:
            raise _Ended(names.OTHER_FRAME, frame.size)
        if kind != FrameType.BODY:
            raise AmqpError(Fault.EXPECTED_BODY)
        if size > header.body_bytes:
            raise AmqpError(Fault.BODY_TOO_LONG, size=header.body_bytes, over=size - header.body_bytes)
        if size < header.body_bytes:
            raise _Ended(names.OTHER_FRAME, frame.size)
        content = _whole(data, end, at, limits)
        end, body = end + content.size, content.payload
    return {
        "kind": names.PUBLISH,
        "channel": frame.channel,
        "flags": names.MANDATORY * method.mandatory | names.IMMEDIATE * method.immediate,
        "exchange": method.exchange,
        "key": method.routing_key,
        "properties": header.properties,
        "read": properties,
        "body": body,
    }, end


def _whole(data: bytes, at: int, begin: int, limits: Limits) -> Frame:
    frame = read_frame(data, at, len(data), limits.frame_max)
    if isinstance(frame, Need):
        there = len(data) - at
        needed = 8 if there < 8 else 8 + int.from_bytes(data[at + 3 : at + 7], "big")
        raise _Ended(names.NEEDS_BYTES, at + needed - begin)
    return frame


def _head(data: bytes, at: int, begin: int, limits: Limits) -> tuple[int, int]:
    """Type and channel of the frame at `at`, of which the rest need not be there."""
    if len(data) - at < 8:
        raise _Ended(names.NEEDS_BYTES, at + 8 - begin)
    kind, channel, _ = read_head(data, at, len(data), limits.frame_max)
    return kind, channel


def publish(
    body: bytes = b"",
    properties: Properties | bytes = NO_PROPERTIES,
    channel: int = 1,
    exchange: str = "",
    key: str = "q",
    mandatory: bool = False,
    frame_max: int = FRAME_MAX,
) -> bytes:
    method = BasicPublish(exchange=exchange, routing_key=key, mandatory=mandatory)
    return content_frames(channel, method, properties, body, frame_max)


def frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    """Whatever it is."""
    return bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + end


def header(size: int, properties: bytes = b"\0\0", class_id: int = 60, weight: int = 0, channel: int = 1) -> bytes:
    numbers = class_id.to_bytes(2, "big") + weight.to_bytes(2, "big") + size.to_bytes(8, "big")
    return frame(2, channel, numbers + properties)


def settled(channel: int, method: Method) -> bytes:
    return method_frame(channel, method)


__all__ = ["FRAME_MAX", "Limits", "Seen", "frame", "frame_bytes", "header", "publish", "read_stream", "settled"]
