"""Messages to clients of AMQP 0.9.1 in bulk, straight from the bytes of a stored batch or of a receive buffer: method,
header and body frames. And settlements, which confirms are too.

Positions and sizes are below 2**31, delivery tags 1 to 2**63 - 1. All that is read and written is checked against the
ends of its buffer."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.core.errors import InvalidArgument, TooLarge
from penstock.core.ports import Buffer
from penstock.kernels import amqp_columns as names
from penstock.kernels import memory

Ints: TypeAlias = "array[int] | None"
Column: TypeAlias = "array[int] | memoryview[int]"

SPAN_WORDS = 6
"""of a row: where its route (exchange and routing key as a method has them), its properties (flags and values) and its
body begin and end; the properties are -1 where a block stands in for them"""
_ROUTE, _ROUTE_END, _PROPS, _PROPS_END, _BODY, _BODY_END, _SPAN_WORDS = range(7)
_NATIVE_KIND = names.NATIVE_KIND
_METHOD_FRAME, _HEADER_FRAME, _BODY_FRAME, _FRAME_END = 1, 2, 3, 0xCE
_FRAME_HEAD, _EMPTY_FRAME, _MIN_FRAME_MAX, _HEADER_BYTES = 7, 8, 4096, 12
_SETTLEMENT_FRAME, _SETTLEMENT_PAYLOAD, _TAG_BYTES = 21, 13, 9
_BASIC, _ACK, _REJECT, _NACK = 60, 80, 90, 120
_LAST_CHANNEL, _INT32_MAX = 65535, 0x7FFFFFFF
_ZERO_INT = array("i", [0])
_BASIC_DELIVER, _BASIC_GET_OK, _BASIC_RETURN = b"\0\x3c\0\x3c", b"\0\x3c\0\x47", b"\0\x3c\0\x32"


class Encoder:
    """For one thread; it keeps some words for as many rows as it ever encoded."""

    def __init__(self, channel: int, frame_max: int, before: bytes, has_tag: bool, behind: bytes = b"") -> None:
        """A method begins with `before`; then come, if `has_tag`, its tag and whether it was redelivered; its route;
        and `behind`. See `deliveries`, `get_answers`, `returns`."""
        if not 1 <= channel <= _LAST_CHANNEL or not _MIN_FRAME_MAX <= frame_max <= _INT32_MAX:
            raise InvalidArgument("a channel is 1 to 65535, and a frame may have at least 4096 bytes")
        self._head_word, self._frame_max = channel << 40, frame_max
        self._before, self._behind, self._has_tag = before, behind, has_tag
        self._fixed = len(before) + len(behind) + (_TAG_BYTES if has_tag else 0)
        self._no_bytes, self._no_words, self._no_ints = bytearray(), array("q"), array("i")
        self._end_words = array("i")
        self._end_of = self._end_words
        self._count, self._first_tag, self._with_block = 0, 0, 0
        self._block_start = self._block_end = 0
        self._source: Buffer = b""
        self._routes: Buffer = b""
        self._redelivered: Buffer = b""
        self._blocks: Buffer = b""
        self._release()

    def encode(
        self,
        source: Buffer,
        spans: array[int],
        routes: Buffer,
        first_tag: int = 0,
        redelivered: Buffer = b"",
        blocks: Buffer = b"",
        block_ends: Ints = None,
    ) -> bytearray:
        """Frames of all rows of `spans` ('q', SPAN_WORDS a row). Routes are spans of `routes`, all else of `source`.
        Tags rise by one from `first_tag`, of rows that are left out too. `redelivered` has a byte a row, not 0 if it
        was; or none, for nobody. The n-th row without properties has those of `blocks` that end at block_ends[n]; none
        at all without `blocks`."""
        if len(spans) % _SPAN_WORDS or (len(redelivered) and len(redelivered) * _SPAN_WORDS < len(spans)):
            raise InvalidArgument("a row has six words, and is redelivered or not")
        self._count, self._first_tag = len(spans) // _SPAN_WORDS, first_tag
        self._source, self._routes, self._spans, self._redelivered = source, routes, spans, redelivered
        self._blocks = blocks
        if block_ends is not None:
            self._block_ends = block_ends
        try:
            return self._encode()
        finally:
            self._release()

    def ends(self) -> array[int]:
        """Of the last encoding: where each row ends ('i'). One whose method or header is longer than the receiver's
        frames is left out and ends where it would have begun: it can never be sent there."""
        return self._end_words[: self._count]

    def _release(self) -> int:
        """Hold on to no buffer of the caller's: one that is held cannot grow."""
        self._source = self._routes = self._redelivered = self._blocks = self._no_bytes
        self._out = self._no_bytes
        self._spans = self._no_words
        self._block_ends = self._no_ints
        return 0

    def _encode(self) -> bytearray:
        if len(self._end_of) < self._count:
            self._end_words = _ZERO_INT * (2 * self._count)
            self._end_of = self._end_words
        whole = bytearray(self._measure())
        self._out = whole
        self._fill()
        return whole

    def _measure(self) -> int:
        """Ends of all rows; the bytes of all of them."""
        at = 0
        self._with_block = 0
        for row in range(self._count):
            word = _SPAN_WORDS * row
            if self._spans[word] < 0 or self._spans[word + _ROUTE_END] > len(self._routes):
                raise InvalidArgument("a route leaves its buffer")
            route = self._spans[word + _ROUTE_END] - self._spans[word]
            body = self._span_bytes(word + _BODY)
            properties = self._properties_bytes(word)
            if route < 2 or properties < 2:
                raise InvalidArgument("a route has at least two bytes, and so have properties")
            method, header = self._fixed + route + _EMPTY_FRAME, _EMPTY_FRAME + _HEADER_BYTES + properties
            if method <= self._frame_max and header <= self._frame_max:
                room = self._frame_max - _EMPTY_FRAME
                at += method + header + body
                if body:
                    at += _EMPTY_FRAME * (1 if body <= room else (body + room - 1) // room)
            if at > _INT32_MAX:
                raise TooLarge("frames", at, _INT32_MAX)
            self._end_of[row] = at
        return at

    def _span_bytes(self, word: int) -> int:
        start, end = self._spans[word], self._spans[word + 1]
        if start < 0 or end < start or end > len(self._source):
            raise InvalidArgument("a span leaves its source")
        return end - start

    def _properties_bytes(self, word: int) -> int:
        if self._spans[word + _PROPS] >= 0:
            return self._span_bytes(word + _PROPS)
        self._next_block()
        return self._block_end - self._block_start if len(self._blocks) else 2

    def _next_block(self) -> int:
        if len(self._blocks):
            number = self._with_block
            self._block_start = self._block_ends[number - 1] if number else 0
            self._block_end = self._block_ends[number]
            if self._block_start < 0 or self._block_end < self._block_start or self._block_end > len(self._blocks):
                raise InvalidArgument("a block leaves its buffer")
        self._with_block += 1
        return 0

    def _fill(self) -> int:
        at = 0
        self._with_block = 0
        for row in range(self._count):
            if self._spans[_SPAN_WORDS * row + _PROPS] < 0:
                self._next_block()
            if self._end_of[row] == at:
                continue
            at = self._put_method(row, at)
            at = self._put_header(row, at)
            at = self._put_body(row, at)
        return 0

    def _put_head(self, kind: int, size: int, at: int) -> int:
        """Type, channel and size of a frame; where its payload begins."""
        # Eight bytes: the last one is of the payload, or the frame's end, and is written behind this.
        memory.store_big64(self._out, at, self._head_word | kind << 56 | size << 8)
        return at + _FRAME_HEAD

    def _put_method(self, row: int, at: int) -> int:
        word = _SPAN_WORDS * row
        route = self._spans[word + _ROUTE_END] - self._spans[word]
        at = self._put_head(_METHOD_FRAME, self._fixed + route, at)
        at = memory.put(self._out, at, self._before)
        if self._has_tag:
            memory.store_big64(self._out, at, self._first_tag + row)
            self._out[at + 8] = 1 if len(self._redelivered) and self._redelivered[row] else 0
            at += _TAG_BYTES
        memory.copy_bytes(self._out, at, self._routes, self._spans[word], route)
        at = memory.put(self._out, at + route, self._behind)
        self._out[at] = _FRAME_END
        return at + 1

    def _put_header(self, row: int, at: int) -> int:
        word = _SPAN_WORDS * row
        has_own, has_block = self._spans[word + _PROPS] >= 0, len(self._blocks) > 0
        size = 2
        if has_own:
            size = self._spans[word + _PROPS_END] - self._spans[word + _PROPS]
        elif has_block:
            size = self._block_end - self._block_start
        at = self._put_head(_HEADER_FRAME, _HEADER_BYTES + size, at)
        memory.store_big32(self._out, at, _BASIC << 16)
        memory.store_big64(self._out, at + 4, self._spans[word + _BODY_END] - self._spans[word + _BODY])
        at += _HEADER_BYTES
        if has_own:
            memory.copy_bytes(self._out, at, self._source, self._spans[word + _PROPS], size)
        elif has_block:
            memory.copy_bytes(self._out, at, self._blocks, self._block_start, size)
        self._out[at + size] = _FRAME_END
        return at + size + 1

    def _put_body(self, row: int, at: int) -> int:
        start, end = self._spans[_SPAN_WORDS * row + _BODY], self._spans[_SPAN_WORDS * row + _BODY_END]
        room = self._frame_max - _EMPTY_FRAME
        while start < end:
            size = min(end - start, room)
            at = self._put_head(_BODY_FRAME, size, at)
            memory.copy_bytes(self._out, at, self._source, start, size)
            self._out[at + size] = _FRAME_END
            at += size + 1
            start += size
        return at


def deliveries(channel: int, consumer_tag: bytes, frame_max: int) -> Encoder:
    """basic.deliver to a consumer."""
    return Encoder(channel, frame_max, _BASIC_DELIVER + _short_string(consumer_tag), True)


def get_answers(channel: int, message_count: int, frame_max: int) -> Encoder:
    """basic.get-ok; so many messages are left."""
    return Encoder(channel, frame_max, _BASIC_GET_OK, True, message_count.to_bytes(4, "big"))


def returns(channel: int, reply_code: int, reply_text: bytes, frame_max: int) -> Encoder:
    """basic.return; its routes and properties are those of scanned rows."""
    return Encoder(channel, frame_max, _BASIC_RETURN + reply_code.to_bytes(2, "big") + _short_string(reply_text), False)


def _short_string(text: bytes) -> bytes:
    if len(text) > 255:
        raise InvalidArgument("a short string has at most 255 bytes")
    return bytes([len(text)]) + text


def batch_spans(body: Buffer, layout: array[int], rows: array[int], route_ends: array[int], spans: Column) -> int:
    """Where the given rows of a checked batch are, as Encoder wants them; how many have no properties of AMQP 0.9.1.
    `layout` is that of log.batch.Batch. The route of a row is the one of its topic's number, or the first where the
    batch has no topics; it ends at route_ends[number], where the next one begins."""
    without = 0
    for i in range(len(rows)):
        row, word = rows[i], _SPAN_WORDS * i
        topic = memory.load_i32(body, layout[3] + 4 * row) if layout[3] >= 0 else 0
        spans[word] = route_ends[topic - 1] if topic else 0
        spans[word + _ROUTE_END] = route_ends[topic]
        spans[word + _PROPS] = spans[word + _PROPS_END] = -1
        _put_span(body, layout[13], layout[14], row, spans, word + _BODY)
        if layout[11] >= 0:
            _put_span(body, layout[11], layout[12], row, spans, word + _PROPS)
            if spans[word + _PROPS_END] - spans[word + _PROPS] < 3 or body[spans[word + _PROPS]] != _NATIVE_KIND:
                spans[word + _PROPS] = spans[word + _PROPS_END] = -1
            else:
                spans[word + _PROPS] += 1
        without += spans[word + _PROPS] < 0
    return without


def _put_span(body: Buffer, offsets_at: int, bytes_at: int, row: int, spans: Column, at: int) -> int:
    """Start and end of a row's entry to two words."""
    spans[at] = spans[at + 1] = 0
    if offsets_at >= 0:
        spans[at] = bytes_at + memory.load_i32(body, offsets_at + 4 * row)
        spans[at + 1] = bytes_at + memory.load_i32(body, offsets_at + 4 * row + 4)
    return 0


def encode_settlements(methods: Buffer, channels: array[int], tags: array[int], bits: Buffer) -> bytearray:
    """basic.ack (80), reject (90) or nack (120), each in 21 bytes, on their channels. Bits of ack: 1 multiple; of
    reject: 1 requeue; of nack: 1 multiple, 2 requeue."""
    count = len(methods)
    if len(channels) != count or len(tags) != count or len(bits) != count:
        raise InvalidArgument("a settlement has a method, a channel, a tag and bits")
    whole = bytearray(_SETTLEMENT_FRAME * count)
    out = whole
    at = 0
    for i in range(count):
        method, channel = methods[i], channels[i]
        if method not in (_ACK, _REJECT, _NACK) or channel < 1 or channel > _LAST_CHANNEL or tags[i] < 0:
            raise InvalidArgument("a settlement is 80, 90 or 120, of a channel and a tag")
        out[at] = _METHOD_FRAME
        out[at + 1] = channel >> 8
        out[at + 2] = channel & 0xFF
        memory.store_big32(out, at + 3, _SETTLEMENT_PAYLOAD)
        memory.store_big32(out, at + 7, _BASIC << 16 | method)
        memory.store_big64(out, at + 11, tags[i])
        out[at + 19] = bits[i]
        out[at + 20] = _FRAME_END
        at += _SETTLEMENT_FRAME
    return whole
