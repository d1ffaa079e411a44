"""Messages as AMQP 0.9.1 has them: the native properties that came with them, or such as say what PROPERTIES and key
do.

What a property becomes is in queues/message_view.py, the bytes are in log/FORMAT.md. Of ill-formed PROPERTIES counts
what can be read before the place that cannot."""

from __future__ import annotations

import binascii
from array import array
from typing import TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import headers, memory, utf8

Column: TypeAlias = "array[int] | memoryview[int]"

_KIND = 0x91
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS = 0x8000, 0x4000, 0x2000
_CORRELATION_ID, _REPLY_TO, _EXPIRATION, _MESSAGE_ID, _TIMESTAMP = 0x0400, 0x0200, 0x0100, 0x0080, 0x0040
_TYPE, _APP_ID, _CLUSTER_ID = 0x20, 0x08, 0x04
_USER_PROPERTY, _MQTT_FORMAT, _MQTT_TYPE, _MQTT_REPLY, _MQTT_CORRELATION = 0x26, 0x01, 0x03, 0x08, 0x09
_MAX_SHORT, _MAX_DIGITS, _MAX_BASE64 = 255, 19, 189
# Of a row beside twice its properties and its key: flags, lengths, the names of headers that are made for fields.
_BESIDE_BYTES, _FIRST_ROOM = 512, 1 << 12
_QUEUE = b"$queue/"
# Headers that are fields in AMQP: first user property of the name, in the order of the fields.
_ENCODING, _MESSAGE, _TIME, _KIND_OF = b"content-encoding", b"message-id-of-sender", b"timestamp-of-sender", b"type"
_APP, _CLUSTER = b"app-id", b"cluster-id"
_FORMAT_HEADER, _BASE64_HEADER, _BASE64 = b"x-payload-format", b"x-correlation-id-encoding", b"base64"
_KEY_HEADER, _REPLY_HEADER, _TYPE_HEADER, _CORRELATION_HEADER = (
    b"partition-key",
    b"reply-to",
    b"content-type",
    b"correlation-id",
)
# Words of a header that waits to be written, of a field.
_NAME, _NAME_END, _VALUE, _VALUE_END, _NEXT, _IS_FIRST, _HEADER_WORDS = range(7)
_AT_ENCODING, _AT_MESSAGE, _AT_TIME, _AT_TYPE, _AT_APP, _AT_CLUSTER, _NAMED_FIELDS = range(7)
# Of so many headers those of one name are found by comparing each with each.
_COMPARED = 16


def natives(
    data: Buffer,
    property_starts: Column | None,
    property_ends: Column | None,
    native_starts: Column | None,
    native_ends: Column | None,
    key_starts: Column | None,
    key_ends: Column | None,
    left_ms: array[int] | None,
    ends: array[int],
) -> bytearray:
    """Property flags and values of each row, without the byte that says their kind; row i ends at ends[i + 1]. Rows
    that came by AMQP 0.9.1 have them as they came. `left_ms` ('q'): how long the others are of use, 0 for ever."""
    return Maker(data).column(
        property_starts, property_ends, native_starts, native_ends, key_starts, key_ends, left_ms, ends
    )


class Maker:
    """Of one column."""

    def __init__(self, data: Buffer) -> None:
        self._data = data
        self._whole = bytearray(_FIRST_ROOM)
        self._out = self._whole
        self._at = 0
        self._step = array("q", [0, 0, 0, 0])
        self._headers = array("q", [0]) * (_HEADER_WORDS * _COMPARED)
        self._named = array("q", [0]) * (2 * _NAMED_FIELDS)
        self._count = 0
        self._type = self._type_end = self._reply = self._reply_end = 0
        self._correlation = self._correlation_end = self._key = self._key_end = 0
        self._format = -1
        self._is_base64 = False

    def column(
        self,
        property_starts: Column | None,
        property_ends: Column | None,
        native_starts: Column | None,
        native_ends: Column | None,
        key_starts: Column | None,
        key_ends: Column | None,
        left_ms: array[int] | None,
        ends: array[int],
    ) -> bytearray:
        ends[0] = 0
        start = end = first = stop = 0
        for row in range(len(ends) - 1):
            if native_starts is not None and native_ends is not None:
                first, stop = native_starts[row], native_ends[row]
            if property_starts is not None and property_ends is not None:
                start, end = property_starts[row], property_ends[row]
            self._key = self._key_end = 0
            if key_starts is not None and key_ends is not None:
                self._key, self._key_end = key_starts[row], key_ends[row]
            self._check(first, stop)
            self._check(start, end)
            self._check(self._key, self._key_end)
            self._reserve(2 * (end - start) + stop - first + self._key_end - self._key + _BESIDE_BYTES)
            if stop > first and self._data[first] == _KIND:
                self._put_piece(first + 1, stop)
            else:
                self._read(start, end)
                self._put_row(0 if left_ms is None else left_ms[row])
            ends[row + 1] = self._at
        self._out = bytearray()
        del self._whole[self._at :]
        return self._whole

    def _check(self, start: int, end: int) -> int:
        if start < 0 or end < start or end > len(self._data):
            raise InvalidArgument("a span leaves its source")
        return 0

    def _reserve(self, size: int) -> int:
        if self._at + size > len(self._out):
            grown = bytearray(2 * self._at + size)
            memory.copy_bytes(grown, 0, self._out, 0, self._at)
            self._whole = grown
            self._out = grown
        return 0

    # What the properties say

    def _read(self, at: int, end: int) -> int:
        self._count, self._format, self._is_base64 = 0, -1, False
        self._type = self._reply = self._correlation = -1
        for i in range(_NAMED_FIELDS):
            self._named[2 * i] = -1
        room = _HEADER_WORDS * ((end - at) // 5 + 1)
        if room > len(self._headers):
            self._headers = array("q", bytes(8 * room))
        while at < end:
            kind, place = self._data[at], at
            at = headers.step(self._data, at, end, self._step)
            if at < 0:
                return 0
            if kind == _USER_PROPERTY:
                self._take_header()
            elif kind == _MQTT_FORMAT:
                self._format = self._data[place + 1]
            elif kind == _MQTT_TYPE:
                self._type, self._type_end = place + 3, at
            elif kind == _MQTT_REPLY:
                self._reply, self._reply_end = place + 3, at
            elif kind == _MQTT_CORRELATION:
                self._correlation, self._correlation_end = place + 3, at
        return 0

    def _take_header(self) -> int:
        """One whose name is too long for AMQP is left out."""
        name, name_end, value, value_end = self._step[0], self._step[1], self._step[2], self._step[3]
        field = self._field(name, name_end, value, value_end)
        if field >= 0:
            self._named[2 * field], self._named[2 * field + 1] = value, value_end
        elif name_end - name <= _MAX_SHORT:
            at = _HEADER_WORDS * self._count
            self._headers[at + _NAME], self._headers[at + _NAME_END] = name, name_end
            self._headers[at + _VALUE], self._headers[at + _VALUE_END] = value, value_end
            self._headers[at + _NEXT], self._headers[at + _IS_FIRST] = -1, 1
            self._count += 1
        return 0

    def _field(self, name: int, name_end: int, value: int, value_end: int) -> int:
        """Which field a header is in AMQP; -1 if it is none, or the field is taken, or cannot hold the value."""
        if value_end - value > _MAX_SHORT:
            return -1
        size, field = name_end - name, -1
        if size == len(_ENCODING) and self._is_named(name, _ENCODING):
            field = _AT_ENCODING
        elif size == len(_MESSAGE) and self._is_named(name, _MESSAGE):
            field = _AT_MESSAGE
        elif size == len(_TIME) and self._is_named(name, _TIME):
            field = _AT_TIME if self._is_number(value, value_end) else -1
        elif size == len(_KIND_OF) and self._is_named(name, _KIND_OF):
            field = _AT_TYPE
        elif size == len(_APP) and self._is_named(name, _APP):
            field = _AT_APP
        elif size == len(_CLUSTER) and self._is_named(name, _CLUSTER):
            field = _AT_CLUSTER
        return field if field >= 0 and self._named[2 * field] < 0 else -1

    def _is_named(self, at: int, name: bytes) -> bool:
        same = 0
        while same < len(name) and self._data[at + same] == name[same]:
            same += 1
        return same == len(name)

    def _is_number(self, at: int, end: int) -> bool:
        if end == at or end - at > _MAX_DIGITS or (self._data[at] == 48 and end > at + 1):
            return False
        while at < end and 48 <= self._data[at] <= 57:
            at += 1
        return at == end

    def _has(self, name: bytes) -> bool:
        """Whether there is a header of that name."""
        for i in range(self._count):
            at = _HEADER_WORDS * i
            size = self._headers[at + _NAME_END] - self._headers[at + _NAME]
            if size == len(name) and self._is_named(self._headers[at + _NAME], name):
                return True
        return False

    # The row

    def _put_row(self, left_ms: int) -> int:
        place = self._at
        self._at += 2
        flags = self._put_first(0)
        flags = self._put_table(flags)
        if self._correlation >= 0:
            flags = self._put_correlation(flags)
        if self._reply >= 0 and self._reply_end - self._reply_start() <= _MAX_SHORT:
            flags |= _REPLY_TO
            self._put_short(self._reply_start(), self._reply_end)
        if left_ms:
            flags |= _EXPIRATION
            self._put_expiration(left_ms if left_ms > 0 else 0)
        flags |= self._put_named(_AT_MESSAGE, _MESSAGE_ID)
        if self._named[2 * _AT_TIME] >= 0:
            flags |= _TIMESTAMP
            self._put_number(self._value_of(self._named[2 * _AT_TIME], self._named[2 * _AT_TIME + 1]), 8)
        flags |= self._put_named(_AT_TYPE, _TYPE)
        flags |= self._put_named(_AT_APP, _APP_ID)
        flags |= self._put_named(_AT_CLUSTER, _CLUSTER_ID)
        self._out[place] = flags >> 8
        self._out[place + 1] = flags & 0xFF
        return 0

    def _put_first(self, flags: int) -> int:
        if self._type >= 0 and self._type_end - self._type <= _MAX_SHORT:
            flags |= _CONTENT_TYPE
            self._put_short(self._type, self._type_end)
        return flags | self._put_named(_AT_ENCODING, _CONTENT_ENCODING)

    def _reply_start(self) -> int:
        """Behind what the address of a queue begins with."""
        size = len(_QUEUE)
        if self._reply_end - self._reply > size and self._is_named(self._reply, _QUEUE):
            return self._reply + size
        return self._reply

    def _put_correlation(self, flags: int) -> int:
        """Unless it went into a header, because it is too long."""
        size = self._correlation_end - self._correlation
        if self._is_base64 and size <= _MAX_BASE64:
            made = binascii.b2a_base64(
                memory.piece(self._data, self._correlation, self._correlation_end), newline=False
            )
            self._out[self._at] = len(made)
            self._at = memory.put(self._out, self._at + 1, made)
            return flags | _CORRELATION_ID
        if not self._is_base64 and size <= _MAX_SHORT:
            self._put_short(self._correlation, self._correlation_end)
            return flags | _CORRELATION_ID
        return flags

    def _put_named(self, field: int, flag: int) -> int:
        if self._named[2 * field] < 0:
            return 0
        self._put_short(self._named[2 * field], self._named[2 * field + 1])
        return flag

    def _put_expiration(self, left_ms: int) -> int:
        text = str(left_ms).encode()
        self._out[self._at] = len(text)
        self._at = memory.put(self._out, self._at + 1, text)
        return 0

    # Headers

    def _put_table(self, flags: int) -> int:
        place = self._at
        self._at += 4
        if self._count > 1:
            self._link()
        for i in range(self._count):
            at = _HEADER_WORDS * i
            if self._headers[at + _IS_FIRST]:
                self._put_short(self._headers[at + _NAME], self._headers[at + _NAME_END])
                self._put_values(at)
        self._put_made()
        size = self._at - place - 4
        self._at = place
        if size == 0:
            return flags
        self._put_number(size, 4)
        self._at += size
        return flags | _HEADERS

    def _link(self) -> int:
        """Those of one name, each to the next."""
        if self._count > _COMPARED:
            return self._link_by_name()
        for i in range(self._count):
            at = _HEADER_WORDS * i
            for j in range(i + 1, self._count):
                other = _HEADER_WORDS * j
                if self._is_same(at, other):
                    self._headers[at + _NEXT], self._headers[other + _IS_FIRST] = other, 0
                    break
        return 0

    def _link_by_name(self) -> int:
        last: dict[bytes, int] = {}
        for i in range(self._count):
            at = _HEADER_WORDS * i
            name = memory.piece(self._data, self._headers[at + _NAME], self._headers[at + _NAME_END])
            before = last.get(name, -1)
            if before >= 0:
                self._headers[before + _NEXT], self._headers[at + _IS_FIRST] = at, 0
            last[name] = at
        return 0

    def _is_same(self, at: int, other: int) -> bool:
        start, size = self._headers[at + _NAME], self._headers[at + _NAME_END] - self._headers[at + _NAME]
        begin = self._headers[other + _NAME]
        if self._headers[other + _NAME_END] - begin != size:
            return False
        same = 0
        while same < size and self._data[start + same] == self._data[begin + same]:
            same += 1
        return same == size

    def _put_values(self, at: int) -> int:
        """One as a long string, several as an array of them."""
        if self._headers[at + _NEXT] < 0:
            return self._put_long(self._headers[at + _VALUE], self._headers[at + _VALUE_END])
        self._out[self._at] = 0x41
        place = self._at + 1
        self._at += 5
        while at >= 0:
            self._put_long(self._headers[at + _VALUE], self._headers[at + _VALUE_END])
            at = self._headers[at + _NEXT]
        end = self._at
        self._at = place
        self._put_number(end - place - 4, 4)
        self._at = end
        return 0

    def _put_made(self) -> int:
        """Headers for what AMQP has no field for, or none that is long enough."""
        if self._format >= 0 and not self._has(_FORMAT_HEADER):
            self._put_named_header(_FORMAT_HEADER, 1)
            self._out[self._at] = 48 + (self._format & 1)
            self._at += 1
        if self._type >= 0 and self._type_end - self._type > _MAX_SHORT:
            self._put_span_header(_TYPE_HEADER, self._type, self._type_end)
        if self._reply >= 0 and self._reply_end - self._reply_start() > _MAX_SHORT:
            self._put_span_header(_REPLY_HEADER, self._reply_start(), self._reply_end)
        if self._key_end > self._key and not self._has(_KEY_HEADER):
            self._put_span_header(_KEY_HEADER, self._key, self._key_end)
        if self._correlation >= 0:
            self._put_correlation_headers()
        return 0

    def _put_correlation_headers(self) -> int:
        size = self._correlation_end - self._correlation
        self._is_base64 = not utf8.is_text(self._data, self._correlation, self._correlation_end, True)
        if self._is_base64 and not self._has(_BASE64_HEADER):
            self._put_named_header(_BASE64_HEADER, len(_BASE64))
            self._at = memory.put(self._out, self._at, _BASE64)
        if self._is_base64 and size > _MAX_BASE64:
            made = binascii.b2a_base64(
                memory.piece(self._data, self._correlation, self._correlation_end), newline=False
            )
            self._put_named_header(_CORRELATION_HEADER, len(made))
            self._at = memory.put(self._out, self._at, made)
        elif not self._is_base64 and size > _MAX_SHORT:
            self._put_span_header(_CORRELATION_HEADER, self._correlation, self._correlation_end)
        return 0

    def _put_span_header(self, name: bytes, start: int, end: int) -> int:
        self._put_named_header(name, end - start)
        return self._put_piece(start, end)

    def _put_named_header(self, name: bytes, size: int) -> int:
        """Up to its value, a long string of that size."""
        self._out[self._at] = len(name)
        self._at = memory.put(self._out, self._at + 1, name)
        self._out[self._at] = 0x53
        self._at += 1
        return self._put_number(size, 4)

    # Bytes

    def _put_short(self, start: int, end: int) -> int:
        self._out[self._at] = end - start
        self._at += 1
        return self._put_piece(start, end)

    def _put_long(self, start: int, end: int) -> int:
        self._out[self._at] = 0x53
        self._at += 1
        self._put_number(end - start, 4)
        return self._put_piece(start, end)

    def _put_piece(self, start: int, end: int) -> int:
        memory.copy_bytes(self._out, self._at, self._data, start, end - start)
        self._at += end - start
        return 0

    def _put_number(self, value: int, size: int) -> int:
        for i in range(size):
            self._out[self._at + i] = value >> (8 * (size - 1 - i)) & 0xFF
        self._at += size
        return 0

    def _value_of(self, at: int, end: int) -> int:
        value = 0
        for i in range(at, end):
            value = 10 * value + self._data[i] - 48
        return value
