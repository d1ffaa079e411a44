"""Dead letters in bulk: picked rows of stored batches in one buffer, each with what is said of its move before its own
properties.

What is said, queues/deadletter.py knows; bodies and their layouts are those of kernels/batch.py. Rows, counts and
places are int32, offsets and times int64."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import headers, memory

Ints: TypeAlias = "array[int] | memoryview[int]"

WORDS = 5
"""places of a row: its key, its properties, its native ones, its value, and where that ends"""
# Words of a layout.
_TOPIC_INDEX_AT, _TOPICS_AT, _KEY_AT, _PROPERTIES_AT, _NATIVE_AT, _VALUE_AT = 3, 5, 7, 9, 11, 13
_USER_PROPERTY = 0x26
_FIRST_ROOM, _DIGITS = 1 << 12, 20
# Beside a row's own bytes: numbers and their lengths.
_NUMBER_BYTES = 5 * (_DIGITS + 2)
_ALL, _BRIEFLY, _NOTHING = range(3)


def pick(offsets: Ints, wanted: Ints, first: int, end: int, out_rows: Ints) -> int:
    """The rows of wanted offsets, which rise, from the place `first` on, as far as they are below `end`; -1 for those
    that are not among `offsets`. How many."""
    row, count = 0, 0
    while first + count < len(wanted) and wanted[first + count] < end:
        offset = wanted[first + count]
        if not count:
            row = _seek(offsets, offset)
        while row < len(offsets) and offsets[row] < offset:
            row += 1
        out_rows[count] = row if row < len(offsets) and offsets[row] == offset else -1
        count += 1
    return count


def _seek(offsets: Ints, offset: int) -> int:
    low, high = 0, len(offsets)
    while low < high:
        middle = (low + high) >> 1
        if offsets[middle] < offset:
            low = middle + 1
        else:
            high = middle
    return low


class Said:
    """What every letter of a move says, as the encoded pieces between the numbers that each has for itself."""

    def __init__(
        self,
        offset: bytes,
        identity: bytes,
        identity_prefix: bytes,
        reason: bytes,
        timed_out: bytes,
        retries: int,
        failures: bytes,
        first_failed: bytes,
        detail: bytes,
        time: bytes,
        dropped: set[bytes],
        shift: int,
        uncounted: int,
    ) -> None:
        """`timed_out` instead of `reason` for those that failed no more than `retries` times; `dropped` are names of
        properties that an earlier move put there; `shift` is added to times, and of deliveries so many are
        `uncounted`."""
        self.offset, self.identity, self.identity_prefix = offset, identity, identity_prefix
        self.reason, self.timed_out, self.retries = reason, timed_out, retries
        self.failures, self.first_failed, self.detail, self.time = failures, first_failed, detail, time
        self.dropped, self.shift, self.uncounted = dropped, shift, uncounted
        self.size = sum(map(len, (offset, identity, identity_prefix, failures, first_failed, detail, time)))
        self.size += max(len(reason), len(timed_out))


class Gathered:
    """Rows, one behind the other."""

    def __init__(self, said: Said, row_bytes: int, most_bytes: int, most_rows: int) -> None:
        """No row is to be longer than `row_bytes`, for which less is said of it, and all not than `most_bytes`, unless
        it is one alone."""
        self._said, self._row_bytes, self._most_bytes, self._most_rows = said, row_bytes, most_bytes, most_rows
        self._whole = bytearray(_FIRST_ROOM)
        self._out = self._whole
        self._at = self.rows = self.timed_out = 0
        self.size = 0
        """of the rows, with what they take beside their bytes"""
        self.places, self.topic_index = array("i"), array("i")
        self.topics: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._step = array("q", [0, 0, 0, 0])

    def whole(self) -> bytearray:
        """The buffer, which is done with here."""
        self._out = bytearray()
        del self._whole[self._at :]
        return self._whole

    def add(
        self,
        body: Buffer,
        layout: Ints,
        rows: Ints,
        first: int,
        count: int,
        offsets: Ints,
        deliveries: Ints,
        failures: Ints,
        firsts: Ints,
    ) -> int:
        """Rows of a body that are not -1, from the place `first` of `count` on, as many as there is room for: the place
        of the first that is left. Of those that are taken, offsets and so on are at the same places."""
        self.trimmed()
        self.places.frombytes(bytes(4 * WORDS * (count - first)))
        self.topic_index.frombytes(bytes(4 * (count - first)))
        places, index = self.places, self.topic_index
        at, last, number = first, -2, -1
        while at < count:
            row = rows[at]
            if row >= 0:
                size = self._row_size(body, layout, row)
                if self.rows and (self.size + size > self._most_bytes or self.rows >= self._most_rows):
                    break
                topic = -1 if layout[_TOPIC_INDEX_AT] < 0 else memory.load_i32(body, layout[_TOPIC_INDEX_AT] + 4 * row)
                if topic != last:
                    last, number = topic, self._topic(body, layout, topic)
                index[self.rows] = number
                topic_bytes, level = len(self.topics[number]), _ALL
                counts, failed, since = deliveries[at], failures[at], firsts[at]
                while not self._put(
                    body, layout, row, places, level, size, topic_bytes, offsets[at], counts, failed, since
                ):
                    level += 1
                self.rows += 1
            at += 1
        return at

    def trimmed(self) -> int:
        """Lets go of room for rows that were not there."""
        del self.places[WORDS * self.rows :]
        del self.topic_index[self.rows :]
        return self.rows

    def _row_size(self, body: Buffer, layout: Ints, row: int) -> int:
        """Of its columns and all that may be said of it."""
        own = self._span(body, layout, _KEY_AT, row) + self._span(body, layout, _PROPERTIES_AT, row)
        own += self._span(body, layout, _NATIVE_AT, row) + self._span(body, layout, _VALUE_AT, row)
        return own + self._said.size + _NUMBER_BYTES

    def _span(self, body: Buffer, layout: Ints, word: int, row: int) -> int:
        places = layout[word]
        if places < 0:
            return 0
        return memory.load_i32(body, places + 4 * row + 4) - memory.load_i32(body, places + 4 * row)

    def _topic(self, body: Buffer, layout: Ints, topic: int) -> int:
        """Its number here; that of the empty one for rows without a topic."""
        text = b""
        if topic >= 0:
            places, first = layout[_TOPICS_AT], layout[_TOPICS_AT + 1]
            start, stop = memory.load_i32(body, places + 4 * topic), memory.load_i32(body, places + 4 * topic + 4)
            text = memory.piece(body, first + start, first + stop)
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.topics)
            self.topics.append(text)
        return number

    def _put(
        self,
        body: Buffer,
        layout: Ints,
        row: int,
        places: Ints,
        level: int,
        size: int,
        topic_bytes: int,
        offset: int,
        deliveries: int,
        failures: int,
        first: int,
    ) -> bool:
        """False if it became too long, and less has to be said of it."""
        start = self._at
        self._reserve(size)
        word = WORDS * self.rows
        places[word] = self._at
        self._put_column(body, layout, _KEY_AT, row)
        places[word + 1] = self._at
        is_timed_out = failures <= self._said.retries
        if level < _NOTHING:
            self._put_said(level, is_timed_out, offset, deliveries, failures, first)
        if layout[_PROPERTIES_AT] >= 0:
            begin = memory.load_i32(body, layout[_PROPERTIES_AT] + 4 * row) + layout[_PROPERTIES_AT + 1]
            end = begin + self._span(body, layout, _PROPERTIES_AT, row)
            self._put_own(body, begin, end, level < _NOTHING)
        places[word + 2] = self._at
        self._put_column(body, layout, _NATIVE_AT, row)
        places[word + 3] = self._at
        self._put_column(body, layout, _VALUE_AT, row)
        places[word + 4] = self._at
        length = self._at - start + topic_bytes
        if length > self._row_bytes and level < _NOTHING:
            self._at = start
            return False
        self.size += length + 4 * WORDS + 16
        self.timed_out += is_timed_out
        return True

    def _put_column(self, body: Buffer, layout: Ints, word: int, row: int) -> int:
        if layout[word] < 0:
            return 0
        start = memory.load_i32(body, layout[word] + 4 * row)
        stop = memory.load_i32(body, layout[word] + 4 * row + 4)
        memory.copy_bytes(self._out, self._at, body, layout[word + 1] + start, stop - start)
        self._at += stop - start
        return 0

    def _put_said(self, level: int, is_timed_out: bool, offset: int, deliveries: int, failures: int, first: int) -> int:
        said, nothing = self._said, b""
        self._put_number(said.offset, nothing, offset)
        self._put_number(said.identity, said.identity_prefix, offset)
        self._put_number(said.timed_out if is_timed_out else said.reason, nothing, max(deliveries - said.uncounted, 0))
        self._put_number(said.failures, nothing, failures)
        if first > 0:
            self._put_number(said.first_failed, nothing, first + said.shift)
        if level == _ALL:
            self._at = memory.put(self._out, self._at, said.detail)
        self._at = memory.put(self._out, self._at, said.time)
        return 0

    def _put_number(self, before: bytes, prefix: bytes, number: int) -> int:
        """A piece, the length of a text, the text: a prefix and decimal digits."""
        self._at = memory.put(self._out, self._at, before)
        digits, rest = 1, number
        while rest >= 10:
            rest = rest // 10
            digits += 1
        size = len(prefix) + digits
        self._out[self._at] = size >> 8
        self._out[self._at + 1] = size & 0xFF
        self._at = memory.put(self._out, self._at + 2, prefix)
        rest, place = number, self._at + digits - 1
        while place >= self._at:
            self._out[place] = 48 + rest % 10
            rest = rest // 10
            place -= 1
        self._at += digits
        return 0

    def _put_own(self, data: Buffer, at: int, end: int, drops: bool) -> int:
        """Without what an earlier move said; from a place on that cannot be read, everything."""
        begin = at
        while drops and at < end:
            following = headers.step(data, at, end, self._step)
            if following < 0:
                break
            if data[at] == _USER_PROPERTY and self._is_dropped(data, self._step[0], self._step[1]):
                self._put_piece(data, begin, at)
                begin = following
            at = following
        return self._put_piece(data, begin, end)

    def _is_dropped(self, data: Buffer, start: int, end: int) -> bool:
        """The names of a move begin with `dlq-`."""
        if end - start < 4 or data[start] != 0x64 or data[start + 1] != 0x6C or data[start + 2] != 0x71:
            return False
        return memory.piece(data, start, end) in self._said.dropped

    def _put_piece(self, data: Buffer, start: int, end: int) -> int:
        memory.copy_bytes(self._out, self._at, data, start, end - start)
        self._at += end - start
        return 0

    def _reserve(self, size: int) -> int:
        if size < 0:
            raise InvalidArgument("a span leaves its source")
        if self._at + size > len(self._out):
            grown = bytearray(2 * self._at + size)
            memory.copy_bytes(grown, 0, self._out, 0, self._at)
            self._whole = grown
            self._out = grown
        return 0
