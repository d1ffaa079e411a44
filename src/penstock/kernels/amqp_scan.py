"""Frames of AMQP 0.9.1 of a receive buffer as columns of integers: publishes with their content, settlements and
heartbeats, no object for any.

Positions are below 2**31. Whatever the bytes: what begins at a position becomes a row, is left to the codec frame by
frame, or ends the scan with the reply code that its sender is told. How a stream is cut into buffers changes none."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import amqp_columns as names
from penstock.kernels import amqp_tables, memory

# Copies of names that other modules import: a name with a C type is not visible to Python.
_COLUMNS, _NATIVE_KIND = names.COLUMNS, names.NATIVE_KIND
_PUBLISH, _ACK, _NACK, _REJECT, _HEARTBEAT = (
    names.PUBLISH,
    names.ACK,
    names.NACK,
    names.REJECT,
    names.HEARTBEAT,
)
_NEEDS_BYTES, _OTHER_FRAME, _ROWS_FULL = names.NEEDS_BYTES, names.OTHER_FRAME, names.ROWS_FULL
_BAD_FRAME, _NOT_SCANNED = names.BAD_FRAME, names.NOT_SCANNED
_FRAME_ERROR, _SYNTAX_ERROR, _UNEXPECTED = names.FRAME_ERROR, names.SYNTAX_ERROR, names.UNEXPECTED_FRAME

# Types of frames; 8 is a heartbeat.
_METHOD_FRAME, _HEADER_FRAME, _BODY_FRAME, _HEARTBEAT_FRAME = 1, 2, 3, 8
_FRAME_END, _FRAME_HEAD, _EMPTY_FRAME, _MIN_FRAME_MAX = 0xCE, 7, 8, 4096
# Class 60 and the method, as the four bytes of a payload say them.
_BASIC_PUBLISH, _BASIC_ACK, _BASIC_REJECT, _BASIC_NACK = 0x3C0028, 0x3C0050, 0x3C005A, 0x3C0078
_BASIC_CONTENT = 0x3C0000
"""and of a header: class 60, weight 0"""
_LONG_STRING, _MAX_TABLE_BYTES = 0x53, names.MAX_TABLE_BYTES
_SETTLEMENT_BYTES, _LEAST_PUBLISH, _LEAST_HEADER = 13, 9, 14
_UNKNOWN_FLAGS = 0x0003
_INT32_MAX = 0x7FFFFFFF
# Named, because Cython takes a literal above 2**31 for a Python object.
_HIGHS, _LOW_32 = 0x8080808080808080, 0xFFFFFFFF
_SIGN_32, _TWO_32 = 0x80000000, 0x100000000


class Scanner:
    """For one thread; a loop has one for all its connections. What a scan found stays until the next one.

    `why` the scan ended, `position` of the frame at which it did, `size` of what must be there for it to go on (of
    NEEDS_BYTES: at least that; of OTHER_FRAME: the frame, which is there whole), and the `reason` if it is bad: names
    and values in amqp_columns. Of scan_regions, `whys`, `positions`, `sizes` and `reasons` have the same for each
    region: arrays of their own, which the next scan leaves alone."""

    def __init__(self, room: int) -> None:
        """For up to `room` rows a scan."""
        if not 1 <= room <= 1 << 24:
            raise InvalidArgument("a scanner has room for 1 to 2**24 rows")
        # As in mqtt_scan: columns a multiple of 4 KiB apart would share a few lines of the processor's cache.
        self._stride = (room & -16) + 32
        self.columns = array("i", [0]) * (_COLUMNS * self._stride)
        self._cells = self.columns
        self._room, self._row, self.rows = room, 0, 0
        self._region = 0
        self.why, self.position, self.size, self.reason = _NEEDS_BYTES, 0, 0, 0
        self.whys = self.positions = self.sizes = self.reasons = array("i")
        self._nothing: Buffer = b""
        self._data: Buffer = b""
        self._frame_max, self._max_body, self._assembling = 0, 0, 0
        self._stop, self._frame_end, self._channel, self._begin = 0, 0, 0, 0
        self._route, self._exchange_end, self._route_end, self._flags = 0, 0, 0, 0
        self._headers, self._headers_end, self._present = 0, 0, 0
        self._expiration_at, self._reply_to_at, self._user_id_at = -1, -1, -1
        self._priority, self._delivery_mode = -1, -1

    def column(self, number: int) -> array[int]:
        """A copy: one int32 for each row of the last scan."""
        if not 0 <= number < _COLUMNS:
            raise InvalidArgument(f"rows of frames have no column {number}")
        return self.columns[number * self._stride : number * self._stride + self.rows]

    def pick(self, numbers: Sequence[int]) -> list[array[int]]:
        """Several of them."""
        stride, rows, columns = self._stride, self.rows, self.columns
        return [columns[number * stride : number * stride + rows] for number in numbers]

    def pick_part(self, numbers: Sequence[int], first: int, stop: int) -> list[array[int]]:
        """Of rows first to stop - 1."""
        stride, columns, stop = self._stride, self.columns, min(stop, self.rows)
        return [columns[number * stride + first : number * stride + stop] for number in numbers]

    def pick_rows(self, numbers: Sequence[int], rows: array[int]) -> list[array[int]]:
        """Of these rows."""
        count, stride, at = len(rows), self._stride, 0
        flat = array("i", [0]) * (len(numbers) * count)
        cells = flat
        for number in numbers:
            if not 0 <= number < _COLUMNS:
                raise InvalidArgument(f"rows of frames have no column {number}")
            for i in range(count):
                if not 0 <= rows[i] < self.rows:
                    raise InvalidArgument("a row was not scanned")
                cells[at + i] = self._cells[number * stride + rows[i]]
            at += count
        return [flat[start : start + count] for start in range(0, len(flat), count)] if count else [flat] * len(numbers)

    def tags(self, first: int, stop: int) -> array[int]:
        """Delivery tags of rows first to stop - 1 ('q'), 0 where there is none. One of 2**63 or more is negative here:
        no broker has given it out."""
        if first < 0 or stop < first or stop > self.rows:
            raise InvalidArgument("a row was not scanned")
        found = array("q", [0]) * (stop - first)
        out = found
        for row in range(first, stop):
            high = self._cells[19 * self._stride + row]
            low = self._cells[18 * self._stride + row]
            out[row - first] = high * _TWO_32 + (low & _LOW_32)
        return found

    def scan(self, data: Buffer, start: int, stop: int, frame_max: int, max_body: int, assembling: int = 0) -> int:
        """How many rows begin in data[start:stop]. Rows before a bad frame are good.

        `frame_max` is what was negotiated, at least 4096. A publish is a row if its content has at most `max_body`
        bytes, in at most one frame, and its frames follow each other; else the codec gets its frames. `assembling` is
        the channel whose content the codec is in the middle of: frames of it are the codec's; 0 if there is none, -1
        for several. Behind OTHER_FRAME scanning goes on at position + size, once the codec has taken the frame; after
        ROWS_FULL and NEEDS_BYTES at position."""
        if start < 0 or stop < start or stop > len(data) or len(data) > _INT32_MAX:
            raise InvalidArgument("the part to scan leaves its buffer")
        if frame_max < _MIN_FRAME_MAX or frame_max > _INT32_MAX - _EMPTY_FRAME or max_body < 0:
            raise InvalidArgument("a frame may have at least 4096 bytes")
        self._frame_max, self._max_body, self._assembling = frame_max, max_body, assembling
        self._row = self._region = 0
        self._data = data
        try:
            self._walk(start, stop)
        finally:
            self._data = self._nothing
        self.rows = self._row
        return self.rows

    def scan_regions(
        self,
        data: Buffer,
        starts: Sequence[int],
        stops: Sequence[int],
        frame_maxima: Sequence[int],
        max_body: int,
        assembling: Sequence[int],
    ) -> int:
        """How many rows begin in all the regions data[starts[i]:stops[i]]: of each what scan() would give, one behind
        the other, with the region's number in REGION. A region whose frame_max is 0 is left alone; when the rows are
        full, the regions behind have none. Sequences of int32, one for each region."""
        count = len(starts)
        if len(stops) != count or len(frame_maxima) != count or len(assembling) != count:
            raise InvalidArgument("each region has a start, a stop, a frame_max and a channel that is being assembled")
        size = len(data)
        if size > _INT32_MAX or max_body < 0:
            raise InvalidArgument("the part to scan leaves its buffer")
        for i in range(count):
            if starts[i] < 0 or stops[i] < starts[i] or stops[i] > size:
                raise InvalidArgument("the part to scan leaves its buffer")
            if frame_maxima[i] and (frame_maxima[i] < _MIN_FRAME_MAX or frame_maxima[i] > _INT32_MAX - _EMPTY_FRAME):
                raise InvalidArgument("a frame may have at least 4096 bytes")
        zeros = array("i", [0])
        self.whys, self.positions, self.sizes, self.reasons = zeros * count, zeros * count, zeros * count, zeros * count
        self._max_body = max_body
        self._data = data
        try:
            self._walk_regions(starts, stops, frame_maxima, assembling)
        finally:
            self._data = self._nothing
        self.rows = self._row
        return self.rows

    def _walk_regions(
        self, starts: Sequence[int], stops: Sequence[int], frame_maxima: Sequence[int], assembling: Sequence[int]
    ) -> int:
        whys, positions, sizes, reasons = self.whys, self.positions, self.sizes, self.reasons
        self._row = 0
        for i in range(len(starts)):
            self._region, self._frame_max, self._assembling = i, frame_maxima[i], assembling[i]
            if self._frame_max:
                self._walk(starts[i], stops[i])
            else:
                self.why, self.position, self.size, self.reason = _NOT_SCANNED, starts[i], 0, 0
            whys[i], positions[i], sizes[i], reasons[i] = self.why, self.position, self.size, self.reason
        return 0

    def _walk(self, at: int, stop: int) -> int:
        self.why, self.size, self.reason = _NEEDS_BYTES, 0, 0
        self._stop = stop
        while at < stop:
            if self._row == self._room:
                self.why = _ROWS_FULL
                break
            self._begin = at
            end = self._row_end(at)
            if end < 0:
                break
            self._row += 1
            at = end
        self.position = at
        return 0

    def _row_end(self, at: int) -> int:
        """The row that begins at `at`, to the columns; where it ends, or -1 if it ends the scan."""
        kind = self._frame(at)
        if kind < 0:
            return -1
        end = self._frame_end
        if kind == _METHOD_FRAME:
            if end - at < _EMPTY_FRAME + 4:
                return self._bad(_FRAME_ERROR)
            method = memory.load_big32(self._data, at + _FRAME_HEAD)
            is_scanned = method in (_BASIC_PUBLISH, _BASIC_ACK, _BASIC_NACK, _BASIC_REJECT)
            if not is_scanned or self._channel == 0 or self._assembling < 0 or self._channel == self._assembling:
                return self._other(end)
            if method == _BASIC_PUBLISH:
                return self._publish(at, end)
            return self._settlement(method, at + _FRAME_HEAD + 4, end)
        if kind == _HEARTBEAT_FRAME:
            if end - at != _EMPTY_FRAME:
                return self._bad(_FRAME_ERROR)
            if self._channel:
                return self._bad(_UNEXPECTED)
            self._put_short_row(_HEARTBEAT, 0, 0, 0, end)
            return end
        return self._other(end)

    def _frame(self, at: int) -> int:
        """The type of the frame at `at`, its channel and its end to _channel and _frame_end; -1 if it is not there
        whole, or is bad."""
        kind = self._frame_head(at)
        return kind if kind >= 0 and self._is_whole() else -1

    def _is_whole(self) -> bool:
        """Whether the frame whose head was read is there with its end."""
        if self._frame_end > self._stop:
            self._needs(self._frame_end)
            return False
        if self._data[self._frame_end - 1] != _FRAME_END:
            self._bad(_FRAME_ERROR)
            return False
        return True

    def _frame_head(self, at: int) -> int:
        """As _frame, of a frame whose first eight bytes are there: none has fewer."""
        if self._stop - at < _EMPTY_FRAME:
            return self._needs(at + _EMPTY_FRAME)
        word = memory.load_big64(self._data, at)
        kind = word >> 56
        if kind == 0 or (kind > _BODY_FRAME and kind != _HEARTBEAT_FRAME):
            return self._bad(_FRAME_ERROR)
        size = word >> 8 & _LOW_32
        if size > self._frame_max:
            return self._bad(_FRAME_ERROR)
        self._channel = word >> 40 & 0xFFFF
        self._frame_end = at + _EMPTY_FRAME + size
        return kind

    def _needs(self, end: int) -> int:
        self.why, self.size = _NEEDS_BYTES, end - self._begin
        return -1

    def _bad(self, reason: int) -> int:
        self.why, self.size, self.reason = _BAD_FRAME, 0, reason
        return -1

    def _other(self, end: int) -> int:
        self.why, self.size = _OTHER_FRAME, end - self._begin
        return -1

    def _settlement(self, method: int, at: int, end: int) -> int:
        """basic.ack, basic.nack or basic.reject; its fields begin at `at`."""
        if end - at != _SETTLEMENT_BYTES - 4 + 1:
            return self._bad(_FRAME_ERROR)
        bits = self._data[at + 8]
        high, low = memory.load_big32(self._data, at), memory.load_big32(self._data, at + 4)
        if method == _BASIC_ACK:
            self._put_short_row(_ACK, (bits & 1) << 2, high, low, end)
        elif method == _BASIC_NACK:
            self._put_short_row(_NACK, (bits & 3) << 2, high, low, end)
        else:
            self._put_short_row(_REJECT, (bits & 1) << 3, high, low, end)
        return end

    def _publish(self, at: int, method_end: int) -> int:
        """basic.publish with its content, which is there whole or ends the scan."""
        channel = self._channel
        if not self._is_publish_method(at + _FRAME_HEAD + 6, method_end - 1):
            return -1
        kind = self._frame_head(method_end)
        if kind < 0:
            return -1
        if self._channel != channel:
            return self._other(method_end)
        if kind != _HEADER_FRAME:
            return self._bad(_UNEXPECTED)
        if not self._is_whole():
            return -1
        at, header_end = method_end + _FRAME_HEAD, self._frame_end
        if header_end - at < _LEAST_HEADER - 1:
            return self._bad(_FRAME_ERROR)
        if memory.load_big32(self._data, at) != _BASIC_CONTENT:
            return self._bad(_UNEXPECTED)
        if not self._are_properties(at + 12, header_end - 1):
            return self._bad(_SYNTAX_ERROR)
        announced = memory.load_big64(self._data, at + 4)
        if announced > self._max_body:
            return self._other(method_end)
        size = announced
        body, end = header_end, header_end
        if size:
            kind = self._frame_head(header_end)
            if kind < 0:
                return -1
            if self._channel != channel:
                return self._other(method_end)
            if kind != _BODY_FRAME:
                return self._bad(_UNEXPECTED)
            end = self._frame_end
            if end - header_end - _EMPTY_FRAME > size:
                return self._bad(_FRAME_ERROR)
            if end - header_end - _EMPTY_FRAME < size:
                return self._other(method_end)
            if not self._is_whole():
                return -1
            body = header_end + _FRAME_HEAD
        self._put_publish(channel, at + 12, header_end - 1, body, size, end)
        return end

    def _is_publish_method(self, at: int, stop: int) -> bool:
        """Exchange, routing key and bits: exactly the bytes from `at` to `stop`."""
        self._route = at
        if stop - at < _LEAST_PUBLISH - 6:
            self._bad(_FRAME_ERROR)
            return False
        key = at + 1 + self._data[at]
        if stop - key < 2:
            self._bad(_FRAME_ERROR)
            return False
        end = key + 1 + self._data[key]
        if stop - end != 1:
            self._bad(_FRAME_ERROR)
            return False
        self._exchange_end, self._route_end, self._flags = key, end, self._data[end] & 3
        if not self._is_plain(at, end) and not (self._is_text(at + 1, key) and self._is_text(key + 1, end)):
            self._bad(_FRAME_ERROR)
            return False
        return True

    def _is_plain(self, at: int, end: int) -> bool:
        """False if a byte of a route has its highest bit set. Eight at a time; the last eight may begin in front of the
        route, where a ticket that nobody uses may make it look as if there were one."""
        while end - at > 8:
            if memory.load_big64(self._data, at) & _HIGHS:
                return False
            at += 8
        return memory.load_big64(self._data, end - 8) & _HIGHS == 0

    def _is_text(self, at: int, end: int) -> bool:
        """UTF-8."""
        while at < end:
            first = self._data[at]
            size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
            if end - at < size or (size > 1 and not self._is_long_character(first, size, at)):
                return False
            at += size
        return True

    def _is_long_character(self, first: int, size: int, at: int) -> bool:
        if first < 0xC2 or first > 0xF4:
            return False
        second = self._data[at + 1]
        least = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        most = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if second < least or second > most:
            return False
        while size > 2 and self._data[at + size - 1] & 0xC0 == 0x80:
            size -= 1
        return size == 2

    def _are_properties(self, at: int, stop: int) -> bool:
        """Property flags and values: exactly the bytes from `at` to `stop`. Where some of them are goes to the fields
        of the row."""
        if stop - at < 2:
            return False
        present = memory.load_big16(self._data, at)
        at += 2
        self._present = present
        self._headers = self._headers_end = at
        self._expiration_at = self._reply_to_at = self._user_id_at = self._priority = self._delivery_mode = -1
        if present & _UNKNOWN_FLAGS:
            return False
        if present & 0x8000:
            at = self._string_end(at, stop)
        if present & 0x4000:
            at = self._string_end(at, stop)
        if present & 0x2000:
            at = self._headers_at(at, stop)
            if at < 0:
                return False
        if present & 0x1000:
            self._delivery_mode = self._octet(at, stop)
            at += 1
        if present & 0x0800:
            self._priority = self._octet(at, stop)
            at += 1
        if present & 0x0400:
            at = self._string_end(at, stop)
        if present & 0x0200:
            self._reply_to_at = at
            at = self._string_end(at, stop)
        if present & 0x0100:
            self._expiration_at = at
            at = self._string_end(at, stop)
        if present & 0x00FC:
            at = self._late_properties(present, at, stop)
        return at == stop

    def _late_properties(self, present: int, at: int, stop: int) -> int:
        if present & 0x0080:
            at = self._string_end(at, stop)
        if present & 0x0040:
            at += 8
        if present & 0x0020:
            at = self._string_end(at, stop)
        if present & 0x0010:
            self._user_id_at = at
            at = self._string_end(at, stop)
        if present & 0x0008:
            at = self._string_end(at, stop)
        if present & 0x0004:
            at = self._string_end(at, stop)
        return at

    def _headers_at(self, at: int, stop: int) -> int:
        """The table to _headers; where it ends, or -1."""
        if stop - at < 4:
            return -1
        size = memory.load_big32(self._data, at)
        at += 4
        if size > stop - at or size > _MAX_TABLE_BYTES or not self._is_table(at, at + size):
            return -1
        self._headers, self._headers_end = at, at + size
        return at + size

    def _is_table(self, at: int, stop: int) -> bool:
        """As amqp_tables says. Here, because a buffer costs more to hand over than most fields cost to look at."""
        while at < stop:
            at += 1 + self._data[at]
            if at >= stop:
                return False
            kind = self._data[at]
            width = -1 if kind == _LONG_STRING else amqp_tables.width(kind)
            if width >= 0:
                at += 1 + width
            elif width == -1:
                if stop - at < 5:
                    return False
                at += 5 + memory.load_big32(self._data, at + 1)
            else:
                at = amqp_tables.field_end(self._data, at, stop, 1)
                if at < 0:
                    return False
        return at == stop

    def _string_end(self, at: int, stop: int) -> int:
        """Beyond `stop` if it does not end before."""
        return at + 1 + self._data[at] if at < stop else stop + 1

    def _octet(self, at: int, stop: int) -> int:
        return self._data[at] if at < stop else -1

    def _put_short_row(self, kind: int, flags: int, high: int, low: int, end: int) -> int:
        """A row without a content."""
        row, stride = self._row, self._stride
        for column in range(4, 18):
            self._cells[row + column * stride] = 0
        self._cells[row] = kind
        self._cells[row + stride] = self._channel
        self._cells[row + 2 * stride] = flags
        self._cells[row + 3 * stride] = 0
        self._cells[row + 18 * stride] = low if low < _SIGN_32 else low - _TWO_32
        self._cells[row + 19 * stride] = high if high < _SIGN_32 else high - _TWO_32
        self._cells[row + 20 * stride] = self._region
        self._cells[row + 21 * stride] = end
        return 0

    def _put_publish(self, channel: int, properties: int, properties_end: int, body: int, size: int, end: int) -> int:
        row, stride = self._row, self._stride
        # In the order of amqp_columns, without a multiplication for each.
        self._cells[row] = _PUBLISH
        self._cells[row + stride] = channel
        self._cells[row + 2 * stride] = self._flags
        self._cells[row + 3 * stride] = self._present
        self._cells[row + 4 * stride] = self._route
        self._cells[row + 5 * stride] = self._exchange_end
        self._cells[row + 6 * stride] = self._route_end
        self._cells[row + 7 * stride] = properties
        self._cells[row + 8 * stride] = properties_end
        self._cells[row + 9 * stride] = self._headers
        self._cells[row + 10 * stride] = self._headers_end
        self._cells[row + 11 * stride] = self._expiration_at
        self._cells[row + 12 * stride] = self._reply_to_at
        self._cells[row + 13 * stride] = self._user_id_at
        self._cells[row + 14 * stride] = self._priority
        self._cells[row + 15 * stride] = self._delivery_mode
        self._cells[row + 16 * stride] = body
        self._cells[row + 17 * stride] = body + size
        self._cells[row + 18 * stride] = 0
        self._cells[row + 19 * stride] = 0
        self._cells[row + 20 * stride] = self._region
        self._cells[row + 21 * stride] = end
        return 0


def mark_native(data: bytearray | memoryview, kinds: array[int], properties: array[int]) -> int:
    """Write the kind of the column NATIVE in front of the properties of publishes: an entry of it is then the span from
    there to PROPS_END, and properties[row] becomes its beginning. Rows of other kinds are passed over. How many."""
    count = 0
    for row in range(len(kinds)):
        if kinds[row] != _PUBLISH:
            continue
        if properties[row] < 1 or properties[row] > len(data):
            raise InvalidArgument("properties are behind the size of a body")
        properties[row] -= 1
        data[properties[row]] = _NATIVE_KIND
        count += 1
    return count
