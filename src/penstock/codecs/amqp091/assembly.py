"""Content that comes in several frames, put together for each channel.

What a header announces is held against the limits before memory is taken for it; and no more is taken than has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.codecs.amqp091.decode import (
    ContentHeader,
    Frame,
    decode_header,
    decode_method,
    decode_properties,
    read_frame,
    read_head,
)
from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.codecs.amqp091.kinds import EMPTY_FRAME_BYTES, FrameType
from penstock.codecs.amqp091.methods import Method
from penstock.core.ports import Buffer

_SEVERAL = -1
_NO_LIMIT = 1 << 64


class Content(NamedTuple):
    properties: bytes
    """flags and values, checked"""
    body: bytearray


class Received(NamedTuple):
    channel: int
    method: Method
    content: Content | None = None


@dataclass(slots=True)
class _Unfinished:
    method: Method
    header: ContentHeader | None = None
    body: bytearray = field(default_factory=bytearray)

    @property
    def number(self) -> tuple[int, int]:
        return self.method.class_id, self.method.method_id


class Assembly:
    """Of a connection. `unfinished_bytes` are what the headers of unfinished messages announced, on all channels."""

    def __init__(self, max_message_bytes: int, max_unfinished_bytes: int) -> None:
        self.max_message_bytes, self.max_unfinished_bytes = max_message_bytes, max_unfinished_bytes
        self.unfinished_bytes = 0
        self._channels: dict[int, _Unfinished] = {}

    @property
    def assembling(self) -> int:
        """As kernels/amqp_scan wants it: the channel whose content is not there whole, 0 for none, -1 for several."""
        if not self._channels:
            return 0
        return next(iter(self._channels)) if len(self._channels) == 1 else _SEVERAL

    def take(self, frame: Frame) -> Received | None:
        """The method that is whole with this frame, with its content if it has one. AmqpError, and what the channel was
        in the middle of is dropped, if the frame must not come now or announces too much."""
        try:
            return self._take(frame)
        except AmqpError:
            self.drop(frame.channel)
            raise

    def expects(self, channel: int) -> FrameType:
        """The type that the channel's next frame must have."""
        unfinished = self._channels.get(channel)
        if unfinished is None:
            return FrameType.METHOD
        return FrameType.HEADER if unfinished.header is None else FrameType.BODY

    def drop(self, channel: int) -> None:
        """Forget what it is in the middle of: the channel is closed."""
        found = self._channels.pop(channel, None)
        if found is not None and found.header is not None:
            self.unfinished_bytes -= found.header.body_bytes

    def _take(self, frame: Frame) -> Received | None:
        unfinished = self._channels.get(frame.channel)
        if unfinished is None:
            return self._method(frame)
        if unfinished.header is None:
            return self._header(frame, unfinished)
        return self._body(frame, unfinished, unfinished.header)

    def _method(self, frame: Frame) -> Received | None:
        if frame.type is not FrameType.METHOD:
            raise AmqpError(Fault.EXPECTED_METHOD, frame.channel)
        method = decode_method(frame.payload, frame.channel)
        if not method.has_content:
            return Received(frame.channel, method)
        self._channels[frame.channel] = _Unfinished(method)
        return None

    def _header(self, frame: Frame, unfinished: _Unfinished) -> Received | None:
        number = unfinished.number
        if frame.type is not FrameType.HEADER:
            raise AmqpError(Fault.EXPECTED_HEADER, frame.channel, number, class_id=number[0])
        header = decode_header(frame.payload, frame.channel, number)
        if header.class_id != number[0]:
            raise AmqpError(Fault.OTHER_CLASS, frame.channel, number, class_id=number[0], other=header.class_id)
        decode_properties(header.properties, frame.channel, number)
        self._reserve(header.body_bytes, frame.channel, number)
        unfinished.header = header
        return self._if_whole(frame.channel, unfinished, header)

    def _reserve(self, size: int, channel: int, number: tuple[int, int]) -> None:
        if size > self.max_message_bytes:
            raise AmqpError(Fault.TOO_LARGE, channel, number, size=size, limit=self.max_message_bytes)
        together = self.unfinished_bytes + size
        if together > self.max_unfinished_bytes:
            raise AmqpError(Fault.TOO_MUCH_UNFINISHED, channel, number, size=together, limit=self.max_unfinished_bytes)
        self.unfinished_bytes = together

    def _body(self, frame: Frame, unfinished: _Unfinished, header: ContentHeader) -> Received | None:
        if frame.type is not FrameType.BODY:
            raise AmqpError(Fault.EXPECTED_BODY, frame.channel, unfinished.number)
        over = len(unfinished.body) + len(frame.payload) - header.body_bytes
        if over > 0:
            raise AmqpError(Fault.BODY_TOO_LONG, frame.channel, unfinished.number, size=header.body_bytes, over=over)
        unfinished.body += frame.payload
        return self._if_whole(frame.channel, unfinished, header)

    def _if_whole(self, channel: int, unfinished: _Unfinished, header: ContentHeader) -> Received | None:
        if len(unfinished.body) < header.body_bytes:
            return None
        self.drop(channel)
        return Received(channel, unfinished.method, Content(header.properties, unfinished.body))


def fault_at(data: Buffer, at: int, stop: int, frame_max: int) -> AmqpError:
    """Why kernels/amqp_scan ended with BAD_FRAME at `at`, in words: what is read there frame by frame is refused."""
    assembly = Assembly(_NO_LIMIT, _NO_LIMIT)
    try:
        while stop - at >= EMPTY_FRAME_BYTES:
            kind, channel, size = read_head(data, at, stop, frame_max)
            frame = Frame(kind, channel, bytes(size))
            # What its first bytes give away, the wrong type or more than was announced, counts before its end.
            if assembly.expects(channel) in (kind, FrameType.METHOD):
                whole = read_frame(data, at, stop, frame_max)
                frame = whole if isinstance(whole, Frame) else frame
            assembly.take(frame)
            at += frame.size
    except AmqpError as error:
        return error
    return AmqpError(Fault.INTERNAL, detail="a frame was refused for no reason")
