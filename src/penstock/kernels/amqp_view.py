"""The view that other protocols have of messages with AMQP 0.9.1 properties: what NATIVE says, as PROPERTIES say it.

What a native property becomes is in queues/message_view.py, the bytes are in log/FORMAT.md. Nothing is taken for more
than it was checked to be: a row whose native bytes are ill-formed keeps its PROPERTIES and gets no view."""

from __future__ import annotations

import binascii
import struct
from array import array
from decimal import Decimal
from typing import TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import headers, memory, utf8

Column: TypeAlias = "array[int] | memoryview[int]"

KIND = 0x91
"""first byte of native properties of AMQP 0.9.1"""

_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _DELIVERY_MODE, _PRIORITY = 0x8000, 0x4000, 0x2000, 0x1000, 0x0800
_CORRELATION_ID, _REPLY_TO, _EXPIRATION, _MESSAGE_ID, _TIMESTAMP = 0x0400, 0x0200, 0x0100, 0x0080, 0x0040
_TYPE, _USER_ID, _APP_ID, _CLUSTER_ID, _UNKNOWN, _MORE = 0x20, 0x10, 0x08, 0x04, 0x02, 0x01

_USER_PROPERTY, _MQTT_FORMAT, _MQTT_TYPE, _MQTT_REPLY, _MQTT_CORRELATION = 0x26, 0x01, 0x03, 0x08, 0x09
_MAX_TEXT, _MAX_DEPTH = 65535, 32
# A row's view has at most six bytes for one of the native ones (JSON's \u0000), and names of fields.
_GROWTH, _NAME_BYTES, _FIRST_ROOM = 6, 512, 1 << 12
# So much longer than its native properties is the view of a message that has a few.
_BESIDE = 64
_QUEUE = b"$queue/"
_ENCODING, _MESSAGE, _TIME, _KIND_OF = b"content-encoding", b"message-id-of-sender", b"timestamp-of-sender", b"type"
_USER, _APP, _CLUSTER, _REPLY = b"user-id", b"app-id", b"cluster-id", b"reply-to"
_FORMAT_HEADER, _BASE64_HEADER, _BASE64 = b"x-payload-format", b"x-correlation-id-encoding", b"base64"
_TRUE, _FALSE, _NULL, _HEX = b"true", b"false", b"null", b"0123456789abcdef"
_ONE = b"1"
_ALL_64 = 0xFFFFFFFFFFFFFFFF


def count(native: Buffer, starts: Column, ends: Column) -> int:
    """How many rows have AMQP 0.9.1 properties."""
    found = 0
    for row in range(len(starts)):
        if ends[row] > starts[row] and native[starts[row]] == KIND:
            found += 1
    return found


def wrong(native: Buffer, starts: Column, ends: Column) -> int:
    """The first row that has native properties and may not be stored with them: other than kind, flags and values,
    well-formed to the last byte; -1 if there is none."""
    made = Maker()
    for row in range(len(starts)):
        if ends[row] > starts[row] and not made.can_read(native, starts[row], ends[row]):
            return row
    return -1


def view(
    properties: Buffer,
    property_starts: Column | None,
    property_ends: Column | None,
    native: Buffer,
    native_starts: Column,
    native_ends: Column,
    ends: Column,
) -> bytearray:
    """The PROPERTIES of each row, then those that NATIVE has beside them; row i ends at ends[i + 1]. A field or a name
    that is in PROPERTIES is taken from there alone."""
    return Maker().column(properties, property_starts, property_ends, native, native_starts, native_ends, ends)


class Maker:
    """Of one column."""

    def __init__(self) -> None:
        self._whole = bytearray(_FIRST_ROOM)
        self._out = self._whole
        self._data: Buffer = b""
        self._at = 0
        self._found = array("q", [0, 0, 0, 0])
        self._has_names = False
        self._names: set[bytes] = set()
        self._fields = 0
        self._decoded = b""
        self._correlation = self._correlation_end = 0
        self._is_decoded = False

    def can_read(self, native: Buffer, start: int, end: int) -> bool:
        """Whether what lies there, at least a byte, is well-formed."""
        if start < 0 or end > len(native):
            raise InvalidArgument("a span leaves its source")
        self._data, self._at, self._fields, self._has_names = native, 0, 0, False
        self._reserve(_GROWTH * (end - start) + _NAME_BYTES)
        return native[start] == KIND and self._put_row(start + 1, end)

    def column(
        self,
        properties: Buffer,
        property_starts: Column | None,
        property_ends: Column | None,
        native: Buffer,
        native_starts: Column,
        native_ends: Column,
        ends: Column,
    ) -> bytearray:
        self._data = native
        ends[0] = 0
        start = end = size = 0
        # Mostly a view is about as long as what it is of: then its memory is taken once.
        for row in range(len(native_starts)):
            first, stop = native_starts[row], native_ends[row]
            if first < 0 or stop < first or stop > len(native):
                raise InvalidArgument("a span leaves its source")
            size += stop - first + _BESIDE
        self._reserve(size + _NAME_BYTES)
        for row in range(len(native_starts)):
            if property_starts is not None and property_ends is not None:
                start, end = property_starts[row], property_ends[row]
            first, stop = native_starts[row], native_ends[row]
            if start < 0 or end < start or end > len(properties):
                raise InvalidArgument("a span leaves its source")
            self._reserve(end - start + _GROWTH * (stop - first) + _NAME_BYTES)
            memory.copy_bytes(self._out, self._at, properties, start, end - start)
            self._at += end - start
            if stop > first and native[first] == KIND and self._note(properties, start, end):
                mark = self._at
                if not self._put_row(first + 1, stop):
                    self._at = mark
            ends[row + 1] = self._at
        self._out = bytearray()
        del self._whole[self._at :]
        return self._whole

    def _reserve(self, size: int) -> int:
        if self._at + size > len(self._out):
            grown = bytearray(2 * self._at + size)
            memory.copy_bytes(grown, 0, self._out, 0, self._at)
            self._whole = grown
            self._out = grown
        return 0

    def _note(self, properties: Buffer, at: int, end: int) -> bool:
        """What the row has already. False if that cannot be read to its end: nothing can be put behind it."""
        self._fields, self._has_names = 0, False
        if at == end:
            return True
        self._names.clear()
        while at < end:
            kind = properties[at]
            if kind < 0x10:
                self._fields |= 1 << kind
            at = headers.step(properties, at, end, self._found)
            if at < 0:
                return False
            if kind == _USER_PROPERTY:
                self._has_names = True
                self._names.add(memory.piece(properties, self._found[0], self._found[1]))
        return True

    def _put_row(self, at: int, end: int) -> bool:
        """Fields first, then headers, as pack() in queues/properties.py has them. False for what is ill-formed."""
        if at + 2 > end:
            return False
        flags = self._short(at)
        at += 2
        more = flags
        while more & _MORE:
            if at + 2 > end:
                return False
            more = self._short(at)
            at += 2
            if more & ~_MORE:
                return False
        if flags & _UNKNOWN:
            return False
        self._correlation, self._is_decoded = -1, False
        table = table_end = -1
        if flags & _CONTENT_TYPE:
            at = self._put_field(at, end, _MQTT_TYPE)
        if at >= 0 and flags & _CONTENT_ENCODING:
            at = self._put_short_text(_ENCODING, at, end)
        if at >= 0 and flags & _HEADERS:
            table, table_end = at + 4, self._long_end(at, end)
            at = table_end
        if at >= 0 and flags & _DELIVERY_MODE:
            at += 1
        if at >= 0 and flags & _PRIORITY:
            at += 1
        if at >= 0 and flags & _CORRELATION_ID:
            self._correlation = at + 1
            at = self._correlation_end = self._short_end(at, end)
        if at >= 0 and flags & _REPLY_TO:
            at = self._put_reply(at, end)
        if at >= 0 and flags & _EXPIRATION:
            at = self._short_end(at, end)
        if at >= 0:
            at = self._put_rest(flags, at, end)
        if at != end:
            return False
        if table >= 0 and not self._put_table(table, table_end):
            return False
        return self._put_correlation()

    def _put_rest(self, flags: int, at: int, end: int) -> int:
        """What follows the expiration; behind it, -1 if it is ill-formed."""
        if flags & _MESSAGE_ID:
            at = self._put_short_text(_MESSAGE, at, end)
        if at >= 0 and flags & _TIMESTAMP:
            if at + 8 > end:
                return -1
            self._put_time(at)
            at += 8
        if at >= 0 and flags & _TYPE:
            at = self._put_short_text(_KIND_OF, at, end)
        if at >= 0 and flags & _USER_ID:
            at = self._put_short_text(_USER, at, end)
        if at >= 0 and flags & _APP_ID:
            at = self._put_short_text(_APP, at, end)
        if at >= 0 and flags & _CLUSTER_ID:
            at = self._put_short_text(_CLUSTER, at, end)
        return at

    # Fields

    def _put_field(self, at: int, end: int, kind: int) -> int:
        """A short string as a field of its own, if it is text; behind it, -1 if it leaves its row."""
        stop = self._short_end(at, end)
        if stop >= 0 and not self._fields & 1 << kind and utf8.is_text(self._data, at + 1, stop, False):
            self._out[self._at] = kind
            self._put_string(at + 1, stop)
        return stop

    def _put_reply(self, at: int, end: int) -> int:
        """A queue's bare name as its address; what can be no topic stays a header."""
        stop = self._short_end(at, end)
        if stop <= at + 1 or self._fields & 1 << _MQTT_REPLY or not utf8.is_text(self._data, at + 1, stop, False):
            return stop
        for i in range(at + 1, stop):
            if self._data[i] == 0x2B or self._data[i] == 0x23:
                return self._put_short_text(_REPLY, at, end)
        self._out[self._at] = _MQTT_REPLY
        if self._data[at + 1] == 0x24:
            self._put_string(at + 1, stop)
            return stop
        self._put_length(self._at + 1, len(_QUEUE) + stop - at - 1)
        self._at = memory.put(self._out, self._at + 3, _QUEUE)
        self._put_piece(at + 1, stop)
        return stop

    def _put_short_text(self, name: bytes, at: int, end: int) -> int:
        """A short string as a header; base64 where it is no text."""
        stop = self._short_end(at, end)
        if stop >= 0 and not (self._has_names and name in self._names):
            place = self._begin(name)
            self._put_text(at + 1, stop)
            self._finish(place)
        return stop

    def _put_time(self, at: int) -> int:
        if not (self._has_names and _TIME in self._names):
            place = self._begin(_TIME)
            self._put_digits(self._number(at, 8))
            self._finish(place)
        return 0

    def _put_correlation(self) -> bool:
        if self._correlation < 0 or self._fields & 1 << _MQTT_CORRELATION:
            return True
        self._out[self._at] = _MQTT_CORRELATION
        if self._is_decoded:
            self._put_length(self._at + 1, len(self._decoded))
            self._at = memory.put(self._out, self._at + 3, self._decoded)
        else:
            self._put_string(self._correlation, self._correlation_end)
        return True

    # Headers

    def _put_table(self, at: int, end: int) -> bool:
        while at < end:
            at = self._put_header(at, end)
            if at < 0:
                return False
        return True

    def _put_header(self, at: int, end: int) -> int:
        """Behind it, -1 if it is ill-formed. One that MQTT cannot carry is left out: a name that is no text, or a value
        of over 65,535 bytes."""
        mark, name, name_end = self._at, at + 1, self._short_end(at, end)
        if name_end < 0 or name_end == end:
            return -1
        if self._data[name] == 0x78 and name_end - name >= len(_FORMAT_HEADER):
            stop = self._special(name, name_end, end)
            if stop >= 0:
                return stop
        is_kept = utf8.is_text(self._data, name, name_end, False)
        if is_kept and self._has_names:
            is_kept = memory.piece(self._data, name, name_end) not in self._names
        self._out[self._at] = _USER_PROPERTY
        self._put_string(name, name_end)
        place = self._at
        self._at += 2
        at = self._put_value(name_end, end)
        if at < 0 or not is_kept or self._at - place - 2 > _MAX_TEXT:
            self._at = mark
        else:
            self._put_length(place, self._at - place - 2)
        return at

    def _special(self, name: int, name_end: int, end: int) -> int:
        """What native_of() puts into headers because AMQP has no field for it; -1 if the header is none of these."""
        if self._data[name_end] != 0x53:
            return -1
        stop = self._long_end(name_end + 1, end)
        if stop < 0:
            return -1
        value = memory.piece(self._data, name_end + 5, stop)
        said = memory.piece(self._data, name, name_end)
        if said == _FORMAT_HEADER and value in (b"0", b"1") and not self._fields & 1 << _MQTT_FORMAT:
            self._fields |= 1 << _MQTT_FORMAT
            self._out[self._at] = _MQTT_FORMAT
            self._out[self._at + 1] = 1 if value == _ONE else 0
            self._at += 2
            return stop
        if said == _BASE64_HEADER and value == _BASE64 and self._correlation >= 0 and not self._is_decoded:
            try:
                encoded = memory.piece(self._data, self._correlation, self._correlation_end)
                self._decoded = binascii.a2b_base64(encoded, strict_mode=True)
            except binascii.Error:
                return -1
            self._is_decoded = True
            return stop
        return -1

    # Values: `at` is that of the byte that says the type

    def _put_value(self, at: int, end: int) -> int:
        """As text."""
        kind = self._data[at]
        if kind == 0x53 or kind == 0x78:
            stop = self._long_end(at + 1, end)
            if stop >= 0 and kind == 0x53:
                self._put_text(at + 5, stop)
            elif stop >= 0:
                self._put_base64(at + 5, stop)
            return stop
        if kind == 0x56:
            return at + 1
        if kind == 0x46 or kind == 0x41:
            return self._put_json(at, end, 0)
        return self._put_scalar(at, end, False)

    def _put_json(self, at: int, end: int, depth: int) -> int:
        kind = self._data[at]
        if kind == 0x53 or kind == 0x78:
            stop = self._long_end(at + 1, end)
            if stop >= 0:
                self._put_json_string(at + 5, stop, kind == 0x78)
            return stop
        if kind == 0x56:
            self._at = memory.put(self._out, self._at, _NULL)
            return at + 1
        if kind != 0x46 and kind != 0x41:
            return self._put_scalar(at, end, True)
        stop = self._long_end(at + 1, end)
        if stop < 0 or depth == _MAX_DEPTH:
            return -1
        return stop if self._put_entries(at + 5, stop, kind == 0x46, depth) else -1

    def _put_entries(self, at: int, end: int, is_table: bool, depth: int) -> bool:
        """Of a table or an array, in its brackets."""
        is_first = True
        self._put_byte(0x7B if is_table else 0x5B)
        while at < end:
            if not is_first:
                self._put_byte(0x2C)
            is_first = False
            if is_table:
                name_end = self._short_end(at, end)
                if name_end < 0 or name_end == end:
                    return False
                self._put_json_string(at + 1, name_end, False)
                self._put_byte(0x3A)
                at = name_end
            at = self._put_json(at, end, depth + 1)
            if at < 0:
                return False
        self._put_byte(0x7D if is_table else 0x5D)
        return True

    def _put_scalar(self, at: int, end: int, is_json: bool) -> int:
        """Behind a boolean or a number; -1 for another type, or one that is cut short."""
        kind = self._data[at]
        size = _size_of(kind)
        if size == 0 or at + 1 + size > end:
            return -1
        if kind == 0x74:
            self._at = memory.put(self._out, self._at, _TRUE if self._data[at + 1] else _FALSE)
        elif kind == 0x64 or kind == 0x66:
            self._put_float(at + 1, size, is_json)
        elif kind == 0x44:
            self._put_decimal(at + 1)
        else:
            value = self._number(at + 1, size)
            if kind != 0x42 and kind != 0x75 and kind != 0x69 and kind != 0x54 and value >> (8 * size - 1):
                self._put_byte(0x2D)
                value = (_ALL_64 >> (64 - 8 * size)) - value + 1
            self._put_digits(value)
        return at + 1 + size

    def _put_float(self, at: int, size: int, is_json: bool) -> int:
        [value] = struct.unpack(">d" if size == 8 else ">f", memory.piece(self._data, at, at + size))
        text = repr(value).encode()
        is_quoted = is_json and (value - value) != 0
        if is_quoted:
            self._put_byte(0x22)
        self._at = memory.put(self._out, self._at, text)
        if is_quoted:
            self._put_byte(0x22)
        return 0

    def _put_decimal(self, at: int) -> int:
        [scale, value] = struct.unpack(">Bi", memory.piece(self._data, at, at + 5))
        self._at = memory.put(self._out, self._at, str(Decimal(value).scaleb(-scale)).encode())
        return 0

    # Text

    def _put_text(self, start: int, end: int) -> int:
        if utf8.is_text(self._data, start, end, False):
            return self._put_piece(start, end)
        return self._put_base64(start, end)

    def _put_base64(self, start: int, end: int) -> int:
        made = binascii.b2a_base64(memory.piece(self._data, start, end), newline=False)
        self._at = memory.put(self._out, self._at, made)
        return 0

    def _put_json_string(self, start: int, end: int, is_bytes: bool) -> int:
        self._put_byte(0x22)
        if is_bytes or not utf8.is_text(self._data, start, end, True):
            self._put_base64(start, end)
        else:
            at = start
            for i in range(start, end):
                byte = self._data[i]
                if byte >= 0x20 and byte != 0x22 and byte != 0x5C:
                    continue
                self._put_piece(at, i)
                self._put_escape(byte)
                at = i + 1
            self._put_piece(at, end)
        self._put_byte(0x22)
        return 0

    def _put_escape(self, byte: int) -> int:
        self._put_byte(0x5C)
        if byte == 0x22 or byte == 0x5C:
            self._put_byte(byte)
            return 0
        self._put_byte(0x75)
        self._put_byte(0x30)
        self._put_byte(0x30)
        self._put_byte(_HEX[byte >> 4])
        self._put_byte(_HEX[byte & 15])
        return 0

    def _put_digits(self, value: int) -> int:
        size, rest = 1, value
        while rest > 9:
            rest //= 10
            size += 1
        for i in range(size):
            self._out[self._at + size - 1 - i] = 48 + value % 10
            value //= 10
        self._at += size
        return 0

    # Bytes

    def _begin(self, name: bytes) -> int:
        """A user property up to its value; where the length of that goes."""
        self._out[self._at] = _USER_PROPERTY
        self._put_length(self._at + 1, len(name))
        place = memory.put(self._out, self._at + 3, name)
        self._at = place + 2
        return place

    def _finish(self, place: int) -> int:
        return self._put_length(place, self._at - place - 2)

    def _put_string(self, start: int, end: int) -> int:
        """With its length, one byte behind what is written."""
        self._put_length(self._at + 1, end - start)
        self._at += 3
        return self._put_piece(start, end)

    def _put_piece(self, start: int, end: int) -> int:
        memory.copy_bytes(self._out, self._at, self._data, start, end - start)
        self._at += end - start
        return 0

    def _put_byte(self, byte: int) -> int:
        self._out[self._at] = byte
        self._at += 1
        return 0

    def _put_length(self, at: int, size: int) -> int:
        self._out[at] = size >> 8
        self._out[at + 1] = size & 0xFF
        return 0

    def _short(self, at: int) -> int:
        high = self._data[at]
        return high << 8 | self._data[at + 1]

    def _short_end(self, at: int, end: int) -> int:
        """Where a short string ends; -1 beyond `end`."""
        if at >= end:
            return -1
        stop = at + 1 + self._data[at]
        return stop if stop <= end else -1

    def _long_end(self, at: int, end: int) -> int:
        """Where what begins with four bytes of length ends; -1 beyond `end`."""
        if at + 4 > end:
            return -1
        stop = at + 4 + self._number(at, 4)
        return stop if stop <= end else -1

    def _number(self, at: int, size: int) -> int:
        """Unsigned."""
        value = 0
        for i in range(size):
            value = value << 8 | self._data[at + i]
        return value


def _size_of(kind: int) -> int:
    """Bytes of a value behind its type; 0 for types that are not of one size, or are none. As RabbitMQ reads them: `l`
    is signed, `s` a short integer."""
    if kind == 0x74 or kind == 0x62 or kind == 0x42:
        return 1
    if kind == 0x73 or kind == 0x55 or kind == 0x75:
        return 2
    if kind == 0x49 or kind == 0x69 or kind == 0x66:
        return 4
    if kind == 0x44:
        return 5
    if kind == 0x6C or kind == 0x4C or kind == 0x64 or kind == 0x54:
        return 8
    return 0
