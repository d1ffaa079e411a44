"""MQTT packets of a receive buffer as columns of integers: PUBLISH and the four acknowledgements, no object for any.

Positions are below 2**31. Whatever the bytes: a packet becomes a row, is left to the codec, or ends the scan with the
reason code of MQTT 5 that its sender is told. How a stream is cut into buffers changes neither rows nor reason."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import memory, utf8
from penstock.kernels import mqtt_columns as names

# Copies of names that other modules import: a name with a C type is not visible to Python.
_COLUMNS, _EXPIRY_AT, _CONTENT_TYPE_AT, _ALIAS_AT = (
    names.COLUMNS,
    names.EXPIRY_AT,
    names.CONTENT_TYPE_AT,
    names.ALIAS_AT,
)
_RESPONSE_TOPIC_AT, _CORRELATION_AT = names.RESPONSE_TOPIC_AT, names.CORRELATION_AT
_HAS_ALIAS, _IS_TEXT, _HAS_USER_PROPERTIES = names.HAS_ALIAS, names.IS_TEXT, names.HAS_USER_PROPERTIES
_NEEDS_BYTES, _OTHER_PACKET = names.NEEDS_BYTES, names.OTHER_PACKET
_ROWS_FULL, _BAD_PACKET, _NOT_SCANNED = names.ROWS_FULL, names.BAD_PACKET, names.NOT_SCANNED
_PUBLISH, _PUBREL, _PUBCOMP = names.PUBLISH, names.PUBREL, names.PUBCOMP
_MALFORMED, _PROTOCOL_ERROR, _TOO_LARGE = names.MALFORMED_PACKET, names.PROTOCOL_ERROR, names.PACKET_TOO_LARGE
_BAD_TOPIC, _BAD_ALIAS = names.TOPIC_NAME_INVALID, names.TOPIC_ALIAS_INVALID
_NO_RETAIN, _NO_QOS = names.RETAIN_NOT_SUPPORTED, names.QOS_NOT_SUPPORTED

# Identifiers of properties.
_FORMAT, _EXPIRY, _CONTENT_TYPE, _RESPONSE_TOPIC, _CORRELATION = 0x01, 0x02, 0x03, 0x08, 0x09
_SUBSCRIPTION, _REASON_STRING, _TOPIC_ALIAS, _USER_PROPERTY = 0x0B, 0x1F, 0x23, 0x26
_PLUS_SIGN, _HASH_SIGN = b"+#"

_INT32_MAX = 0x7FFFFFFF
# Eight bytes at a time. Named, because Cython takes a literal above 2**31 for a Python object.
_LOW_64 = 0xFFFFFFFFFFFFFFFF
_HIGHS, _LOWS, _LETTERS = 0x8080808080808080, 0x0101010101010101, 0x6161616161616161
_PLUSES, _HASHES = 0x2B2B2B2B2B2B2B2B, 0x2323232323232323


class Scanner:
    """For one thread; a loop has one for all its connections. What a scan found stays until the next one.

    `why` the scan ended, `position` of the packet at which it did, `size` of that packet in bytes (0: not known yet),
    and the `reason` if it is bad: names and values in mqtt_columns. Of scan_regions, `whys`, `positions`, `sizes` and
    `reasons` have the same for each region: arrays of their own, which the next scan leaves alone."""

    def __init__(self, room: int) -> None:
        """For up to `room` packets a scan."""
        if not 1 <= room <= 1 << 24:
            raise InvalidArgument("a scanner has room for 1 to 2**24 packets")
        # Columns a multiple of 4 KiB apart would share the same few lines of the processor's cache: three times slower.
        self._stride = (room & -16) + 32
        self.columns = array("i", [0]) * (_COLUMNS * self._stride)
        self._cells = self.columns
        self._room, self._row, self.rows = room, 0, 0
        self._region = 0
        self.why, self.position, self.size, self.reason = _NEEDS_BYTES, 0, 0, 0
        self.whys = self.positions = self.sizes = self.reasons = array("i")
        self._nothing: Buffer = b""
        self._data: Buffer = b""
        self._version, self._max_bytes, self._max_alias, self._max_qos, self._may_retain = 4, 0, 0, 0, False
        self._end, self._present, self._alias = 0, 0, 0

    def column(self, number: int) -> array[int]:
        """A copy: one int32 for each row of the last scan."""
        if not 0 <= number < _COLUMNS:
            raise InvalidArgument(f"rows of packets have no column {number}")
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
                raise InvalidArgument(f"rows of packets have no column {number}")
            for i in range(count):
                if not 0 <= rows[i] < self.rows:
                    raise InvalidArgument("a row was not scanned")
                cells[at + i] = self._cells[number * stride + rows[i]]
            at += count
        return [flat[start : start + count] for start in range(0, len(flat), count)] if count else [flat] * len(numbers)

    def scan(
        self,
        data: Buffer,
        start: int,
        stop: int,
        version: int,
        max_packet_bytes: int,
        max_alias: int,
        max_qos: int,
        may_retain: bool,
    ) -> int:
        """How many packets became rows, from data[start:stop]. Rows before a bad packet are good.
        Version is 4 (MQTT 3.1.1) or 5; the limits are those that the sender was told. Behind OTHER_PACKET, which is
        there whole, scanning goes on at position + size; after ROWS_FULL and NEEDS_BYTES at position."""
        if start < 0 or stop < start or stop > len(data) or len(data) > _INT32_MAX:
            raise InvalidArgument("the part to scan leaves its buffer")
        if version != 4 and version != 5:
            raise InvalidArgument("packets are scanned as MQTT 4 (3.1.1) or 5")
        self._version, self._max_bytes, self._max_alias = version, max_packet_bytes, max_alias
        self._max_qos, self._may_retain = max_qos, may_retain
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
        versions: Sequence[int],
        max_packet_bytes: int,
        alias_maxima: Sequence[int],
        max_qos: int,
        may_retain: bool,
    ) -> int:
        """How many packets of all the regions data[starts[i]:stops[i]] became rows: of each what scan() would give,
        one behind the other, with the region's number in REGION. A region of version 0 is left alone; when the rows
        are full, the regions behind have none. Sequences of int32, one for each region."""
        count = len(starts)
        if len(stops) != count or len(versions) != count or len(alias_maxima) != count:
            raise InvalidArgument("each region has a start, a stop, a version and a highest alias")
        size = len(data)
        if size > _INT32_MAX:
            raise InvalidArgument("the part to scan leaves its buffer")
        for i in range(count):
            if starts[i] < 0 or stops[i] < starts[i] or stops[i] > size:
                raise InvalidArgument("the part to scan leaves its buffer")
            if versions[i] != 0 and versions[i] != 4 and versions[i] != 5:
                raise InvalidArgument("packets are scanned as MQTT 4 (3.1.1) or 5")
        zeros = array("i", [0])
        self.whys, self.positions, self.sizes, self.reasons = zeros * count, zeros * count, zeros * count, zeros * count
        self._max_bytes, self._max_qos, self._may_retain = max_packet_bytes, max_qos, may_retain
        self._data = data
        try:
            self._walk_regions(starts, stops, versions, alias_maxima)
        finally:
            self._data = self._nothing
        self.rows = self._row
        return self.rows

    def _walk_regions(
        self, starts: Sequence[int], stops: Sequence[int], versions: Sequence[int], alias_maxima: Sequence[int]
    ) -> int:
        whys, positions, sizes, reasons = self.whys, self.positions, self.sizes, self.reasons
        self._row = 0
        for i in range(len(starts)):
            self._region, self._version, self._max_alias = i, versions[i], alias_maxima[i]
            if self._version:
                self._walk(starts[i], stops[i])
            else:
                self.why, self.position, self.size, self.reason = _NOT_SCANNED, starts[i], 0, 0
            whys[i], positions[i], sizes[i], reasons[i] = self.why, self.position, self.size, self.reason
        return 0

    def _walk(self, at: int, stop: int) -> int:
        self.why, self.size, self.reason = _NEEDS_BYTES, 0, 0
        while at < stop:
            if self._row == self._room:
                self.why = _ROWS_FULL
                break
            head = self._data[at]
            body = self._body(head, at, stop)
            if body < 0:
                break
            if 3 <= head >> 4 <= 7:
                self.reason = self._publish(head, body) if head >> 4 == 3 else self._acknowledgement(head, body)
                if self.reason:
                    self.why = _BAD_PACKET
                    break
            else:
                self.why = _OTHER_PACKET
                break
            self._row += 1
            self.size = 0
            at = self._end
        self.position = at
        return 0

    def _body(self, head: int, at: int, stop: int) -> int:
        """Where the packet at `at` goes on behind its length; -1 if it ends the scan. Its end goes to _end."""
        self.reason = self._head_fault(head)
        if self.reason:
            self.why = _BAD_PACKET
            return -1
        body = self._length(at + 1, stop, self._version == 5)
        if body == -_MALFORMED:
            self.why, self.reason = _BAD_PACKET, _MALFORMED
            return -1
        if body < 0:
            return -1
        self.size = self._end - at
        if self.size > self._max_bytes:
            self.why, self.reason = _BAD_PACKET, _TOO_LARGE
            return -1
        return body if self._end <= stop else -1

    def _head_fault(self, head: int) -> int:
        """What is wrong with a first byte; 0 if nothing is. Flags of other kinds are the codec's."""
        kind = head >> 4
        if kind == _PUBLISH:
            qos = head >> 1 & 3
            if qos == 3 or (qos == 0 and head & 8):
                return _MALFORMED
            if qos > self._max_qos:
                return _NO_QOS
            return _NO_RETAIN if head & 1 and not self._may_retain else 0
        if kind == 0 or (_PUBLISH < kind <= _PUBCOMP and head & 15 != (2 if kind == _PUBREL else 0)):
            return _MALFORMED
        return 0

    def _length(self, at: int, stop: int, is_minimal: bool) -> int:
        """The position behind a variable byte integer, and to _end that position plus the integer. -2 if the bytes
        stop within it, -_MALFORMED if it is longer than four bytes or, where that matters, than it need be."""
        value = 0
        for i in range(4):
            if at + i >= stop:
                return -2
            byte = self._data[at + i]
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                if is_minimal and byte == 0 and i > 0:
                    return -_MALFORMED
                self._end = at + i + 1 + value
                return at + i + 1
        return -_MALFORMED

    def _publish(self, head: int, at: int) -> int:
        """The packet to the columns; the reason why not, or 0."""
        end = self._end
        if end - at < 2:
            return _MALFORMED
        topic = at + 2
        at = topic + self._number(at)
        if at > end:
            return _MALFORMED
        fault = self._text_fault(topic, at, True)
        if fault:
            return fault
        topic_end = at
        packet_id = 0
        if head & 6:
            if end - at < 2:
                return _MALFORMED
            packet_id = self._number(at)
            at += 2
            if packet_id == 0:
                return _PROTOCOL_ERROR
        self._present = self._alias = 0
        properties = properties_end = at
        if self._version == 5:
            properties = self._length(at, end, True)
            properties_end, self._end = self._end, end
            if properties < 0 or properties_end > end:
                return _MALFORMED
            fault = self._properties(properties, properties_end)
            if fault:
                return fault
        if topic == topic_end and self._alias == 0:
            return _PROTOCOL_ERROR if self._version == 5 else _MALFORMED
        return self._put_row(head, packet_id, 0, topic, topic_end, properties, properties_end)

    def _acknowledgement(self, head: int, at: int) -> int:
        end, reason = self._end, 0
        if end - at < 2 or (end - at > 2 and self._version == 4):
            return _MALFORMED
        packet_id = self._number(at)
        at += 2
        if packet_id == 0:
            return _PROTOCOL_ERROR
        if at < end:
            reason = self._data[at]
            at += 1
            if not _is_reason(head >> 4, reason):
                return _PROTOCOL_ERROR
        if at < end:
            at = self._length(at, end, True)
            properties_end, self._end = self._end, end
            if at < 0 or properties_end != end:
                return _MALFORMED
            fault = self._acknowledgement_properties(at, end)
            if fault:
                return fault
        self._present = self._alias = 0
        return self._put_row(head, packet_id, reason, 0, 0, at, end)

    def _acknowledgement_properties(self, at: int, end: int) -> int:
        has_string = False
        while at < end:
            kind = self._data[at]
            if kind == _USER_PROPERTY:
                at = self._pair_end(at + 1, end)
            elif kind == _REASON_STRING:
                if has_string:
                    return _PROTOCOL_ERROR
                has_string = True
                at = self._string_end(at + 1, end, False)
            else:
                return _MALFORMED
            if at < 0:
                return -at
        return 0

    def _properties(self, at: int, end: int) -> int:
        """What is wrong with the properties of a PUBLISH; 0 if nothing is."""
        while at < end:
            kind = self._data[at]
            if kind == _USER_PROPERTY:
                self._present |= _HAS_USER_PROPERTIES
                at = self._pair_end(at + 1, end)
            else:
                at = self._single_end(kind, at + 1, end)
            if at < 0:
                return -at
        return 0

    def _single_end(self, kind: int, at: int, end: int) -> int:
        """Where the value of a property that may occur once ends, its position to the columns; -reason if it is bad."""
        if kind == _SUBSCRIPTION:
            return -_PROTOCOL_ERROR
        if kind != _TOPIC_ALIAS and kind != _CORRELATION and kind != _RESPONSE_TOPIC and not 0 < kind <= _CONTENT_TYPE:
            return -_MALFORMED
        bit = _HAS_ALIAS if kind == _TOPIC_ALIAS else 1 << kind
        if self._present & bit:
            return -_PROTOCOL_ERROR
        self._present |= bit
        if kind == _TOPIC_ALIAS:
            return self._alias_end(at, end)
        if kind == _FORMAT:
            return self._format_end(at, end)
        if kind == _EXPIRY:
            self._put(_EXPIRY_AT, at)
            return at + 4 if end - at >= 4 else -_MALFORMED
        if kind == _CORRELATION:
            self._put(_CORRELATION_AT, at)
            return self._binary_end(at, end)
        if kind == _CONTENT_TYPE:
            self._put(_CONTENT_TYPE_AT, at)
            return self._string_end(at, end, False)
        self._put(_RESPONSE_TOPIC_AT, at)
        stop = self._string_end(at, end, True)
        return -_BAD_TOPIC if stop == at + 2 else stop

    def _alias_end(self, at: int, end: int) -> int:
        if end - at < 2:
            return -_MALFORMED
        self._alias = self._number(at)
        self._put(_ALIAS_AT, at)
        return at + 2 if 0 < self._alias <= self._max_alias else -_BAD_ALIAS

    def _format_end(self, at: int, end: int) -> int:
        if at >= end:
            return -_MALFORMED
        if self._data[at] > 1:
            return -_PROTOCOL_ERROR
        if self._data[at]:
            self._present |= _IS_TEXT
        return at + 1

    def _pair_end(self, at: int, end: int) -> int:
        at = self._string_end(at, end, False)
        return at if at < 0 else self._string_end(at, end, False)

    def _string_end(self, at: int, end: int, is_topic: bool) -> int:
        stop = self._binary_end(at, end)
        if stop < 0:
            return stop
        fault = self._text_fault(at + 2, stop, is_topic)
        return -fault if fault else stop

    def _binary_end(self, at: int, end: int) -> int:
        if end - at < 2:
            return -_MALFORMED
        stop = at + 2 + self._number(at)
        return stop if stop <= end else -_MALFORMED

    def _text_fault(self, at: int, end: int, is_topic: bool) -> int:
        """What is wrong with data[at:end] as a string of MQTT, or as the name of a topic: no wildcards there. 0 if
        nothing is. Eight ASCII bytes at a time as long as that lasts, the last ones filled up with letters."""
        room = len(self._data) - 8
        while at < end and at <= room:
            word = memory.load_i64(self._data, at) & _LOW_64
            if end - at < 8:
                word = word & _LOW_64 >> 64 - 8 * (end - at) | _LETTERS << 8 * (end - at) & _LOW_64
            odd = word | (word - _LOWS)
            if is_topic:
                odd |= ((word ^ _PLUSES) - _LOWS) | ((word ^ _HASHES) - _LOWS)
            if odd & _HIGHS:
                return self._odd_text_fault(at, end, is_topic)
            at += 8
        return 0 if at >= end else self._odd_text_fault(at, end, is_topic)

    def _odd_text_fault(self, at: int, end: int, is_topic: bool) -> int:
        fault = 0
        while at < end:
            first = self._data[at]
            if is_topic and first in (_PLUS_SIGN, _HASH_SIGN):
                fault = _BAD_TOPIC
            size = utf8.character_bytes(self._data, at, end)
            if size == 0:
                return _MALFORMED
            at += size
        return fault

    def _number(self, at: int) -> int:
        high = self._data[at]
        return high << 8 | self._data[at + 1]

    def _put(self, column: int, value: int) -> int:
        self._cells[column * self._stride + self._row] = value
        return 0

    def _put_row(
        self, head: int, packet_id: int, reason: int, topic: int, topic_end: int, properties: int, properties_end: int
    ) -> int:
        row, stride = self._row, self._stride
        # In the order of mqtt_columns, from HEAD to PAYLOAD_END, and REGION: a multiplication each is what this saves.
        self._cells[row] = head
        self._cells[row + stride] = packet_id
        self._cells[row + 2 * stride] = reason
        self._cells[row + 3 * stride] = self._present
        self._cells[row + 4 * stride] = self._alias
        self._cells[row + 5 * stride] = topic
        self._cells[row + 6 * stride] = topic_end
        self._cells[row + 7 * stride] = properties
        self._cells[row + 8 * stride] = properties_end
        self._cells[row + 9 * stride] = properties_end
        self._cells[row + 10 * stride] = self._end
        self._cells[row + 16 * stride] = self._region
        return 0


def _is_reason(kind: int, reason: int) -> bool:
    """Whether an acknowledgement of that kind may have the reason code (MQTT 5, 3.4.2.1 to 3.7.2.1)."""
    if reason == 0 or kind >= _PUBREL:
        return reason == 0 or reason == 0x92
    return reason in (0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
