"""Acknowledgements in bulk, packet ids, and what mqtt_publish needs to know of the messages it encodes.

Packet ids are 1 to 65535, positions and row numbers below 2**31."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import batch, memory

Ints: TypeAlias = "array[int] | None"
Column: TypeAlias = "array[int] | memoryview[int]"

SPAN_WORDS = 7
_TOPIC, _TOPIC_END, _PROPERTIES, _PROPERTIES_END, _VALUE, _VALUE_END, _EXPIRES, _SPAN_WORDS = range(8)
_LAST_ID, _HEAD_BYTES = 65535, 64


def encode_acks(kind: int, packet_ids: array[int], reasons: Ints, version: int) -> bytearray:
    """PUBACK (4) to PUBCOMP (7), one for each id, in four bytes where the reason is 0. MQTT 3.1.1 (version 4) has no
    reasons: InvalidArgument for one that is not 0."""
    if kind < 4 or kind > 7 or (reasons is not None and len(reasons) < len(packet_ids)):
        raise InvalidArgument("acknowledgements are of kind 4 to 7, with a reason for each packet id")
    size = 4 * len(packet_ids)
    if reasons is not None:
        for i in range(len(packet_ids)):
            size += reasons[i] != 0
        if version < 5 and size > 4 * len(packet_ids):
            raise InvalidArgument("MQTT 3.1.1 has no reasons to refuse a packet: close the connection")
    whole = bytearray(size)
    out = whole
    head = kind << 4 | (2 if kind == 6 else 0)
    at = 0
    for i in range(len(packet_ids)):
        if packet_ids[i] < 1 or packet_ids[i] > _LAST_ID:
            raise InvalidArgument("a packet id is 1 to 65535")
        out[at] = head
        out[at + 1] = 2
        out[at + 2] = packet_ids[i] >> 8
        out[at + 3] = packet_ids[i] & 0xFF
        at += 4
        if reasons is not None and reasons[i] != 0:
            out[at - 3] = 3
            out[at] = reasons[i] & 0xFF
            at += 1
    return whole


def frame_packets(data: Buffer) -> bytearray:
    """Each packet as a WebSocket message of its own: a binary frame of a server, without a mask. Bytes at the end that
    are no whole packet are one more. At most 2**31 bytes."""
    stop = len(data)
    size = at = 0
    while at < stop:
        end = _packet_end(data, at, stop)
        size += end - at + (2 if end - at < 126 else 4 if end - at < 65536 else 10)
        at = end
    whole = bytearray(size)
    out = whole
    place = at = 0
    while at < stop:
        end = _packet_end(data, at, stop)
        length = end - at
        out[place] = 0x82
        if length < 126:
            out[place + 1] = length
            place += 2
        elif length < 65536:
            out[place + 1] = 126
            out[place + 2] = length >> 8
            out[place + 3] = length & 0xFF
            place += 4
        else:
            out[place + 1] = 127
            for i in range(8):
                out[place + 2 + i] = length >> 8 * (7 - i) & 0xFF
            place += 10
        memory.copy_bytes(out, place, data, at, length)
        place += length
        at = end
    return whole


def _packet_end(data: Buffer, at: int, stop: int) -> int:
    """Where the packet at `at` ends; `stop` if it is not there whole."""
    length = shift = 0
    for place in range(at + 1, min(at + 5, stop)):
        length |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return min(place + 1 + length, stop)
    return stop


def patch_packet_ids(packets: bytearray, positions: array[int], packet_ids: array[int]) -> int:
    """Other ids into encoded packets, at the positions that the encoder told; 0 is no position."""
    if len(packet_ids) < len(positions):
        raise InvalidArgument("there are fewer packet ids than packets")
    for i in range(len(positions)):
        if packet_ids[i] < 1 or packet_ids[i] > _LAST_ID or positions[i] < 0:
            raise InvalidArgument("a packet id is 1 to 65535, its position not negative")
        if positions[i]:
            packets[positions[i]] = packet_ids[i] >> 8
            packets[positions[i] + 1] = packet_ids[i] & 0xFF
    return 0


def batch_spans(body: Buffer, layout: array[int], rows: array[int], spans: Column) -> int:
    """Where topic, properties and value of the given rows of a checked batch are, and when they expire: SPAN_WORDS
    words ('q') a row. `layout` is that of log.batch.Batch."""
    for i in range(len(rows)):
        _put_row(body, layout, rows[i], spans, _SPAN_WORDS * i)
    return 0


def whole_spans(batches: list[Buffer], firsts: array[int], spans: array[int], numbers: array[int]) -> int:
    """batch_spans() of all rows of plain checked batches (kernels/plain): those of batch i are rows firsts[i] and
    following of `spans`. Of each of them to `numbers` ('q') the offset, behind those of all rows 1, then the time."""
    room = len(spans) // _SPAN_WORDS
    words = array("q", bytes(8 * 16))
    layout = words
    for i in range(len(batches)):
        data = batches[i]
        first, count = firsts[i], memory.load_u32(data, 20)
        batch.lay_out(data, _HEAD_BYTES, len(data), count, memory.load_u32(data, 28) & 0xFF, layout)
        if first < 0 or first + count > room:
            raise InvalidArgument("a batch has more rows than there is room for")
        offset, time = memory.load_i64(data, 8), memory.load_i64(data, 32)
        for row in range(count):
            _put_row(data, layout, row, spans, _SPAN_WORDS * (first + row))
            numbers[first + row] = offset + row
            numbers[room + first + row] = 1
            numbers[2 * room + first + row] = time
    return 0


def _put_row(body: Buffer, layout: array[int], row: int, spans: Column, at: int) -> int:
    """The words of a row, from spans[at] on."""
    _put_topic(body, layout, row, spans, at + _TOPIC)
    _put_span(body, layout[9], layout[10], row, spans, at + _PROPERTIES)
    _put_span(body, layout[13], layout[14], row, spans, at + _VALUE)
    spans[at + _EXPIRES] = memory.load_i64(body, layout[2] + 8 * row) if layout[2] >= 0 else 0
    return 0


def _put_span(body: Buffer, offsets_at: int, bytes_at: int, row: int, spans: Column, at: int) -> int:
    """Start and end of a row's entry to two words."""
    spans[at] = spans[at + 1] = 0
    if offsets_at >= 0:
        spans[at] = bytes_at + memory.load_i32(body, offsets_at + 4 * row)
        spans[at + 1] = bytes_at + memory.load_i32(body, offsets_at + 4 * row + 4)
    return 0


def _put_topic(body: Buffer, layout: array[int], row: int, spans: Column, at: int) -> int:
    if layout[3] < 0:
        spans[at] = spans[at + 1] = 0
        return 0
    return _put_span(body, layout[5], layout[6], memory.load_i32(body, layout[3] + 4 * row), spans, at)


def column_spans(
    topic_index: Ints,
    topic_starts: Ints,
    topic_ends: Ints,
    property_starts: Ints,
    property_ends: Ints,
    value_starts: array[int],
    value_ends: array[int],
    expiry: Ints,
    rows: array[int],
    spans: array[int],
) -> int:
    """The same for rows of log.columns.Columns: messages on their way in, which are handed on at once."""
    for i in range(len(rows)):
        at = _SPAN_WORDS * i
        row = rows[i]
        spans[at + _TOPIC] = spans[at + _TOPIC_END] = spans[at + _PROPERTIES] = spans[at + _PROPERTIES_END] = 0
        if topic_index is not None and topic_starts is not None and topic_ends is not None:
            spans[at + _TOPIC] = topic_starts[topic_index[row]]
            spans[at + _TOPIC_END] = topic_ends[topic_index[row]]
        if property_starts is not None and property_ends is not None:
            spans[at + _PROPERTIES] = property_starts[row]
            spans[at + _PROPERTIES_END] = property_ends[row]
        spans[at + _VALUE] = value_starts[row]
        spans[at + _VALUE_END] = value_ends[row]
        spans[at + _EXPIRES] = 0 if expiry is None else expiry[row]
    return 0


def mark_aliases(topic_index: array[int], rows: array[int], topic_aliases: array[int], out: array[int]) -> int:
    """What encode() takes as `aliases`: topic_aliases[t] is 0 if topic t has none, the alias if the client knows it
    already, -alias if it is to be told, which happens in the first row; it is positive then. How many were told."""
    told = 0
    for i in range(len(rows)):
        topic = topic_index[rows[i]]
        out[i] = topic_aliases[topic]
        if out[i] < 0:
            topic_aliases[topic] = -out[i]
            told += 1
    return told
