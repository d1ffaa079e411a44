"""PUBLISH packets to clients in bulk, straight from the bytes of a stored batch or of a receive buffer.

Positions and sizes are below 2**31, numbers in properties 0 to 2**63 - 1, times in ms below 2**62. All that is read and
written is checked against the ends of its buffer."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.core.errors import InvalidArgument, TooLarge
from penstock.core.ports import Buffer
from penstock.kernels import memory

Ints: TypeAlias = "array[int] | None"

# Words of a row's spans, as mqtt_encode fills them.
_TOPIC, _TOPIC_END, _PROPERTIES, _PROPERTIES_END, _VALUE, _VALUE_END, _EXPIRES, _SPAN_WORDS = range(8)
_EXPIRY_PROPERTY, _ALIAS_PROPERTY = 0x02, 0x23
_EXPIRY_BYTES, _ALIAS_BYTES = 5, 3
_MAX_TOPIC_BYTES, _LAST_ID, _LAST_LENGTH = 65535, 65535, 268_435_455
_LOW_32, _INT32_MAX = 0xFFFFFFFF, 0x7FFFFFFF
_ZERO, _MAX_DIGITS = 48, 19
_ZERO_INT = array("i", [0])
_POWERS = array("q", [10**power for power in range(_MAX_DIGITS)])


class Template:
    """What the packets of one kind have in common. For one thread: an encoder writes down here what it wrote last."""

    def __init__(self, default_topic: bytes = b"", properties: bytes = b"", fields: Ints = None) -> None:
        """A message without a topic goes out under `default_topic`. With MQTT 5 each gets the properties. A field of
        them is three words a, b, c: the bytes a to b and then number c of the row, in decimal, are a string, whose
        length is not in `properties`. Fields rise; what is outside them goes out as it is."""
        self.default_topic, self.properties = default_topic, properties
        self.fields = array("i") if fields is None else fields
        self.digits = array("i", [1]) * len(self.fields)
        self.written = array("q", [0]) * (2 * len(self.fields))
        at = 0
        for i in range(len(self.fields) // 3):
            start, end = self.fields[3 * i], self.fields[3 * i + 1]
            if start < at or end < start or end > len(properties) or self.fields[3 * i + 2] < 0:
                raise InvalidArgument("the fields of a template rise and stay inside it")
            at = end


class PublishEncoder:
    """One serves all receivers of a kind, in one thread; it keeps some words for as many rows as it ever encoded."""

    def __init__(self, version: int, max_packet_bytes: int, template: Template | None = None) -> None:
        """`template`: of what encode() is given."""
        if version != 4 and version != 5:
            raise InvalidArgument("packets are encoded as MQTT 4 (3.1.1) or 5")
        self._version, self._max_bytes = version, min(max_packet_bytes, _INT32_MAX)
        self._own = [Template() if template is None else template]
        self._no_ints, self._no_words, self._no_bytes = array("i"), array("q"), bytearray()
        self._sizes, self._powers = array("q"), _POWERS
        self._end_words, self._id_words = array("i"), array("i")
        self._end_of, self._id_at = self._end_words, self._id_words
        self._with_id = self._used = 0
        self._count, self._now, self._has_aliases = 0, 0, False
        self._block_at = self._block_bytes = 0
        self._source: Buffer = b""
        self._default_topic: Buffer = b""
        self._template: Buffer = b""
        self._heads: Buffer = b""
        self._prefixes: Buffer = b""
        self._release()

    def encode(
        self,
        source: Buffer,
        spans: array[int],
        heads: Buffer,
        now_ms: int,
        packet_ids: Ints = None,
        numbers: Ints = None,
        aliases: Ints = None,
        prefixes: Buffer = b"",
        prefix_ends: Ints = None,
        prefix_of: Ints = None,
    ) -> bytearray:
        """A packet for each of `heads`, its first byte: 0x30 with dup, QoS and retain. `spans` as mqtt_encode gives
        them. Among the properties in `source` are no topic alias and no message expiry: the time left is put there.

        `packet_ids`: one for each row with QoS, in order. Without it they are 0, for patch_packet_ids to fill.
        `numbers` ('q'): of all rows number 0, then of all rows number 1, as the template wants them.
        `aliases`: of each row; 0 for none, below 0 if it is to be told with the topic, above if it goes alone.
        `prefixes`: properties that come first, the same in each packet; or, with `prefix_ends` and `prefix_of`, those
        up to prefix_ends[prefix_of[row]] from where the prefix before it ends."""
        self._prefixes = prefixes
        self._has_aliases = aliases is not None and self._version == 5
        if aliases is not None:
            self._aliases = aliases
        if prefix_ends is not None and prefix_of is not None:
            self._prefix_ends, self._prefix_of = prefix_ends, prefix_of
        stops = array("i", [len(heads)])
        return self.encode_each([source], self._own, stops, spans, heads, now_ms, packet_ids, numbers)

    def encode_each(
        self,
        sources: list[Buffer],
        templates: list[Template],
        stops: array[int],
        spans: array[int],
        heads: Buffer,
        now_ms: int,
        packet_ids: Ints = None,
        numbers: Ints = None,
    ) -> bytearray:
        """encode() of rows of many sources, one behind the other: those of source i end before row stops[i], and their
        template is templates[i]."""
        self._count, self._now = len(heads), now_ms
        self._spans, self._heads = spans, heads
        if packet_ids is not None:
            self._ids = packet_ids
        if numbers is not None:
            self._numbers = numbers
        try:
            if len(sources) == 0 or stops[len(sources) - 1] != self._count:
                raise InvalidArgument("every row is of a source")
            return self._encode(sources, templates, stops)
        finally:
            self._release()

    def _release(self) -> int:
        """Hold on to no buffer of the caller's: one that is held cannot grow."""
        self._source = self._heads = self._prefixes = self._no_bytes
        self._out = self._no_bytes
        self._ids = self._aliases = self._prefix_ends = self._prefix_of = self._no_ints
        self._spans = self._numbers = self._no_words
        self._default_topic = self._template = self._no_bytes
        self._fields = self._digits = self._no_ints
        self._written = self._no_words
        self._has_aliases = False
        return 0

    def ends(self) -> array[int]:
        """Of the last encoding: where each row's packet ends ('i'). One that would be longer than the receiver takes is
        left out and ends where it would have begun."""
        return self._end_words[: self._count]

    def id_positions(self) -> array[int]:
        """Of the last encoding: where the packet ids are ('i'), one for each row with QoS, as patch_packet_ids wants
        them; 0 for a packet that was left out."""
        return self._id_words[: self._with_id]

    def _encode(self, sources: list[Buffer], templates: list[Template], stops: array[int]) -> bytearray:
        self._reserve()
        self._with_id = self._used = self._block_at = self._block_bytes = 0
        at = first = 0
        for i in range(len(sources)):
            self._use(sources[i], templates[i])
            at = self._measure(first, stops[i], at)
            first = stops[i]
        whole = bytearray(at)
        self._out = whole
        at = first = 0
        for i in range(len(sources)):
            if i == 0 or templates[i] is not templates[i - 1]:
                self._block_bytes = 0
            self._use(sources[i], templates[i])
            at = self._fill(first, stops[i], at)
            first = stops[i]
        return whole

    def _use(self, source: Buffer, template: Template) -> int:
        self._source = source
        self._default_topic, self._template = template.default_topic, template.properties
        self._fields, self._digits, self._written = template.fields, template.digits, template.written
        return 0

    def _reserve(self) -> int:
        """Words for every row; kept from call to call, because to take them anew costs more than a small encoding."""
        if len(self._end_of) < self._count:
            self._end_words, self._id_words = _ZERO_INT * (2 * self._count), _ZERO_INT * (2 * self._count)
            self._end_of, self._id_at = self._end_words, self._id_words
            self._sizes = array("q", [0]) * (4 * self._count)
        return 0

    def _measure(self, first: int, stop: int, at: int) -> int:
        """Ends of the packets of some rows, of which the first begins at `at`; of each its properties and all behind
        the length to _sizes. Counts those with an id. Where the last one ends."""
        if first < 0 or stop < first or stop > self._count:
            raise InvalidArgument("the rows of a source follow those of the one before it")
        if self._version == 5:
            self._measure_numbers(first, stop)
        for row in range(first, stop):
            head = self._heads[row]
            if head >> 4 != 3 or head & 6 == 6:
                raise InvalidArgument("a PUBLISH begins with 0x30 and a QoS of 0 to 2")
            size = 2 + self._topic_bytes(row) + self._span_bytes(_SPAN_WORDS * row + _VALUE)
            if head & 6:
                self._id_at[self._with_id] = 0
                self._with_id += 1
                size += 2
            if self._version == 5:
                properties = self._sizes[2 * row] + self._properties_bytes(row)
                self._sizes[2 * row] = properties
                size += _length_bytes(properties) + properties
            self._sizes[2 * row + 1] = size
            whole = 1 + _length_bytes(size) + size
            if whole <= self._max_bytes and size <= _LAST_LENGTH:
                at += whole
            if at > _INT32_MAX:
                raise TooLarge("packets", at, _INT32_MAX)
            self._end_of[row] = at
        return at

    def _measure_numbers(self, first: int, stop: int) -> int:
        """Bytes of all numbers of each row, with the lengths of the strings they are in, to _sizes."""
        for row in range(first, stop):
            self._sizes[2 * row] = 0
        for field in range(len(self._fields) // 3):
            numbers_at = self._fields[3 * field + 2] * self._count
            for row in range(first, stop):
                number = self._numbers[numbers_at + row]
                if number < 0:
                    raise InvalidArgument("a number in a property is not negative")
                self._sizes[2 * row] += 2 + self._count_digits(field, number)
        return 0

    def _span_bytes(self, word: int) -> int:
        start, end = self._spans[word], self._spans[word + 1]
        if start < 0 or end < start or end > len(self._source):
            raise InvalidArgument("a span leaves its source")
        return end - start

    def _topic_bytes(self, row: int) -> int:
        if self._has_aliases and (self._aliases[row] > _LAST_ID or self._aliases[row] < -_LAST_ID):
            raise InvalidArgument("a topic alias is 1 to 65535")
        if self._has_aliases and self._aliases[row] > 0:
            return 0
        size = self._span_bytes(_SPAN_WORDS * row + _TOPIC)
        if size == 0:
            size = len(self._default_topic)
        if size == 0 or size > _MAX_TOPIC_BYTES:
            raise InvalidArgument("a message has no topic, or one of more than 65535 bytes")
        return size

    def _properties_bytes(self, row: int) -> int:
        size = self._span_bytes(_SPAN_WORDS * row + _PROPERTIES) + len(self._template)
        if self._spans[_SPAN_WORDS * row + _EXPIRES] > 0:
            size += _EXPIRY_BYTES
        if self._has_aliases and self._aliases[row]:
            size += _ALIAS_BYTES
        if len(self._prefixes):
            size += self._prefix_bytes(row)
        return size

    def _prefix_start(self, row: int) -> int:
        if len(self._prefix_of) == 0 or self._prefix_of[row] == 0:
            return 0
        return self._prefix_ends[self._prefix_of[row] - 1]

    def _prefix_bytes(self, row: int) -> int:
        if len(self._prefix_of) == 0:
            return len(self._prefixes)
        if self._prefix_of[row] < 0:
            raise InvalidArgument("the number of a prefix is negative")
        start, end = self._prefix_start(row), self._prefix_ends[self._prefix_of[row]]
        if start < 0 or end < start or end > len(self._prefixes):
            raise InvalidArgument("a prefix leaves its buffer")
        return end - start

    def _count_digits(self, field: int, number: int) -> int:
        """Mostly as many as in the row before."""
        digits = self._digits[field]
        while digits < _MAX_DIGITS and number >= self._powers[digits]:
            digits += 1
        while digits > 1 and number < self._powers[digits - 1]:
            digits -= 1
        self._digits[field] = digits
        return digits

    def _fill(self, first: int, stop: int, at: int) -> int:
        """The packets of some rows, of which the first begins at `at`; where the last one ends."""
        for row in range(first, stop):
            head = self._heads[row]
            packet_id = 0
            if head & 6:
                packet_id = self._id(self._used)
                self._used += 1
            if self._end_of[row] == at:
                continue
            self._out[at] = head
            at = self._put_length(at + 1, self._sizes[2 * row + 1])
            at = self._put_topic(row, at)
            if head & 6:
                self._id_at[self._used - 1] = at
                at = self._put_short(at, packet_id)
            if self._version == 5:
                at = self._put_properties(row, self._put_length(at, self._sizes[2 * row]))
            at = self._put_span(_SPAN_WORDS * row + _VALUE, at)
        return at

    def _id(self, place: int) -> int:
        if len(self._ids) == 0:
            return 0
        if self._ids[place] < 1 or self._ids[place] > _LAST_ID:
            raise InvalidArgument("a packet id is 1 to 65535")
        return self._ids[place]

    def _put_topic(self, row: int, at: int) -> int:
        if self._has_aliases and self._aliases[row] > 0:
            return self._put_short(at, 0)
        word = _SPAN_WORDS * row + _TOPIC
        size = self._spans[word + 1] - self._spans[word]
        if size:
            return self._put_span(word, self._put_short(at, size))
        size = len(self._default_topic)
        at = self._put_short(at, size)
        memory.copy_bytes(self._out, at, self._default_topic, 0, size)
        return at + size

    def _put_properties(self, row: int, at: int) -> int:
        if len(self._prefixes):
            size = self._prefix_bytes(row)
            memory.copy_bytes(self._out, at, self._prefixes, self._prefix_start(row), size)
            at += size
        expires = self._spans[_SPAN_WORDS * row + _EXPIRES]
        if expires > 0:
            self._out[at] = _EXPIRY_PROPERTY
            left = min((expires - self._now + 999) // 1000, _LOW_32) if expires > self._now else 0
            at = self._put_short(self._put_short(at + 1, left >> 16), left & 0xFFFF)
        if self._has_aliases and self._aliases[row]:
            alias = self._aliases[row]
            self._out[at] = _ALIAS_PROPERTY
            at = self._put_short(at + 1, alias if alias > 0 else -alias)
        if len(self._template):
            at = self._put_template(row, at)
        return self._put_span(_SPAN_WORDS * row + _PROPERTIES, at)

    def _put_template(self, row: int, at: int) -> int:
        """From one packet to the next the numbers stay or rise by little: mostly only their last digits are new."""
        if self._block_bytes and self._is_near(row):
            memory.copy_bytes(self._out, at, self._out, self._block_at, self._block_bytes)
            self._put_last_digits(row, at - self._block_at)
            self._block_at = at
            return at + self._block_bytes
        self._block_at, done = at, 0
        for field in range(len(self._fields) // 3):
            start, end = self._fields[3 * field], self._fields[3 * field + 1]
            at = self._put_part(done, start, at)
            number = self._numbers[self._fields[3 * field + 2] * self._count + row]
            digits = self._count_digits(field, number)
            at = self._put_part(start, end, self._put_short(at, end - start + digits)) + digits
            self._put_decimal(at, digits, number)
            self._written[2 * field], self._written[2 * field + 1] = number, at
            done = end
        at = self._put_part(done, len(self._template), at)
        self._block_bytes = at - self._block_at
        return at

    def _is_near(self, row: int) -> bool:
        """Whether no number of the row differs from that in the packet before but in its last digit."""
        for field in range(len(self._fields) // 3):
            number = self._numbers[self._fields[3 * field + 2] * self._count + row]
            before = self._written[2 * field]
            if number < before or number - before > 9 - before % 10:
                return False
        return True

    def _put_last_digits(self, row: int, distance: int) -> int:
        for field in range(len(self._fields) // 3):
            number = self._numbers[self._fields[3 * field + 2] * self._count + row]
            end = self._written[2 * field + 1] + distance
            self._out[end - 1] = _ZERO + number % 10
            self._written[2 * field], self._written[2 * field + 1] = number, end
        return 0

    def _put_part(self, start: int, end: int, at: int) -> int:
        memory.copy_bytes(self._out, at, self._template, start, end - start)
        return at + end - start

    def _put_decimal(self, end: int, digits: int, number: int) -> int:
        """Two digits a division, from the right."""
        while digits > 1:
            pair = number % 100
            number //= 100
            self._out[end - 1] = _ZERO + pair % 10
            self._out[end - 2] = _ZERO + pair // 10
            end -= 2
            digits -= 2
        if digits:
            self._out[end - 1] = _ZERO + number
        return 0

    def _put_span(self, word: int, at: int) -> int:
        start, size = self._spans[word], self._spans[word + 1] - self._spans[word]
        memory.copy_bytes(self._out, at, self._source, start, size)
        return at + size

    def _put_short(self, at: int, value: int) -> int:
        self._out[at] = value >> 8
        self._out[at + 1] = value & 0xFF
        return at + 2

    def _put_length(self, at: int, value: int) -> int:
        while value > 127:
            self._out[at] = value & 127 | 128
            value >>= 7
            at += 1
        self._out[at] = value
        return at + 1


def _length_bytes(value: int) -> int:
    return 1 if value < 128 else 2 if value < 16_384 else 3 if value < 2_097_152 else 4
