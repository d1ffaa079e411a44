"""What RabbitMQ writes into the headers of a dead letter, in native properties of AMQP 0.9.1: one entry of the array
`x-death` for each queue and reason, `x-first-death-…`, and no expiration.

Properties come in without the byte that says their kind, and go out with it. Ill-formed ones stay as they are. Places
and numbers are int32."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import amqp_columns as names
from penstock.kernels import amqp_tables, memory

Ints: TypeAlias = "array[int] | memoryview[int]"

_KIND = 0x91
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _DELIVERY_MODE, _PRIORITY = 0x8000, 0x4000, 0x2000, 0x1000, 0x0800
_CORRELATION_ID, _REPLY_TO, _EXPIRATION, _MORE = 0x0400, 0x0200, 0x0100, 0x01
_ARRAY, _STRING, _TABLE, _TIME, _LONG = 0x41, 0x53, 0x46, 0x54, 0x6C
_MAX_TABLE = names.MAX_TABLE_BYTES
_FIRST_ROOM, _BESIDE_BYTES = 1 << 12, 512
_CC, _DEATH = b"CC", b"x-death"
_FIRST = (b"x-first-death-exchange", b"x-first-death-queue", b"x-first-death-reason")
_QUEUE, _REASON, _COUNT, _REJECTED = b"queue", b"reason", b"count", b"rejected"
_EXCHANGE, _ORIGINAL, _KEYS, _WHEN = b"exchange", b"original-expiration", b"routing-keys", b"time"
# Words of what is known of an entry of the array.
_START, _END, _QUEUE_AT, _QUEUE_END, _REASON_AT, _REASON_END, _COUNT_AT, _SAME, _ENTRY_WORDS = range(9)


class Deaths:
    """Of one queue and reason."""

    def __init__(self, queue: bytes, reason: bytes, time_s: int, drops_cc: bool) -> None:
        """`drops_cc`: the letter goes where the queue says, and not to keys that its publisher named beside."""
        self._queue, self._reason, self._time_s, self._drops_cc = queue, reason, time_s, drops_cc
        self._whole = bytearray(_FIRST_ROOM)
        self._out = self._whole
        self._data: Buffer = b""
        self._at = self._rows = 0
        self.places = array("i", [0])
        """where rows end, behind a 0"""
        self.copies: list[tuple[int, list[bytes]]] = []
        """rows with more keys in their `CC`, and these"""
        self._headers = self._headers_end = self._expiration = self._expiration_end = 0
        self._table = self._table_end = self._cc = self._cc_end = self._death = self._death_end = 0
        self._words = array("q", bytes(8 * _ENTRY_WORDS * 32))
        self._count = 0

    def whole(self) -> bytearray:
        """The buffer, which is done with here."""
        self._out = bytearray()
        del self._whole[self._at :]
        return self._whole

    def add(
        self, data: Buffer, starts: Ints, ends: Ints, topics: Ints, exchanges: list[bytes], keys: list[bytes]
    ) -> int:
        """Rows, and of each the topic that says with which exchange and key it was published."""
        self._data = data
        for row in range(len(starts)):
            start, end, topic = starts[row], ends[row], topics[row]
            if start < 0 or end < start or end > len(data):
                raise InvalidArgument("a span leaves its source")
            exchange, key = exchanges[topic], keys[topic]
            size = 3 * (end - start) + 2 * (len(self._queue) + len(exchange)) + len(key) + _BESIDE_BYTES
            self._reserve(size)
            before = self._at
            if not self._parse(start, end) or not self._put_row(start, end, exchange, key):
                self._at = before
                self._out[self._at] = _KIND
                self._at += 1
                self._put_piece(start, end)
            self.places.append(self._at)
            self._rows += 1
        self._data = b""
        return 0

    # What is there

    def _parse(self, start: int, end: int) -> bool:
        at = start + 2
        if at > end:
            return False
        flags = more = memory.load_big16(self._data, start)
        while more & _MORE:
            if at + 2 > end:
                return False
            more = memory.load_big16(self._data, at)
            at += 2
        if flags & _CONTENT_TYPE:
            at = self._short_end(at, end)
        if at >= 0 and flags & _CONTENT_ENCODING:
            at = self._short_end(at, end)
        self._headers = self._headers_end = self._table = self._table_end = at
        if at >= 0 and flags & _HEADERS:
            if at + 4 > end:
                return False
            self._table, at = at + 4, at + 4 + memory.load_big32(self._data, at)
            self._headers_end = self._table_end = at
            if at > end or not amqp_tables.is_table(self._data, self._table, at):
                return False
        if at >= 0:
            at += (1 if flags & _DELIVERY_MODE else 0) + (1 if flags & _PRIORITY else 0)
        if at >= 0 and flags & _CORRELATION_ID:
            at = self._short_end(at, end)
        if at >= 0 and flags & _REPLY_TO:
            at = self._short_end(at, end)
        self._expiration = self._expiration_end = at
        if at >= 0 and flags & _EXPIRATION:
            at = self._expiration_end = self._short_end(at, end)
        return 0 <= at <= end

    def _short_end(self, at: int, end: int) -> int:
        if at >= end or at + 1 + self._data[at] > end:
            return -1
        return at + 1 + self._data[at]

    def _find(self) -> int:
        """The headers that matter here."""
        self._cc = self._death = -1
        at = self._table
        while at < self._table_end:
            kind_at = at + 1 + self._data[at]
            stop = amqp_tables.field_end(self._data, kind_at, self._table_end, 1)
            if self._is_named(at + 1, kind_at, _CC):
                self._cc, self._cc_end = kind_at, stop
            elif self._is_named(at + 1, kind_at, _DEATH):
                self._death, self._death_end = kind_at, stop
            at = stop
        return 0

    def _is_named(self, start: int, end: int, name: bytes) -> bool:
        if end - start != len(name):
            return False
        same = 0
        while same < len(name) and self._data[start + same] == name[same]:
            same += 1
        return same == len(name)

    def _read_deaths(self) -> int:
        """The entries, each queue and reason once, in their order; what is no entry is left out."""
        self._count = 0
        at, stop = self._death + 5, self._death_end
        while at < stop:
            end = amqp_tables.field_end(self._data, at, stop, 2)
            if self._data[at] == _TABLE:
                self._read_death(at + 5, end)
            at = end
        return 0

    def _read_death(self, start: int, end: int) -> int:
        if _ENTRY_WORDS * (self._count + 1) > len(self._words):
            grown = array("q", bytes(16 * len(self._words)))
            for i in range(len(self._words)):
                grown[i] = self._words[i]
            self._words = grown
        at, word = start, _ENTRY_WORDS * self._count
        self._words[word + _START], self._words[word + _END] = start, end
        self._words[word + _QUEUE_AT] = self._words[word + _QUEUE_END] = -1
        self._words[word + _REASON_AT] = self._words[word + _REASON_END] = self._words[word + _COUNT_AT] = -1
        self._words[word + _SAME] = 1
        while at < end:
            kind_at = at + 1 + self._data[at]
            stop = amqp_tables.field_end(self._data, kind_at, end, 3)
            is_text = self._data[kind_at] == _STRING
            if is_text and self._is_named(at + 1, kind_at, _QUEUE):
                self._words[word + _QUEUE_AT], self._words[word + _QUEUE_END] = kind_at + 5, stop
            elif is_text and self._is_named(at + 1, kind_at, _REASON):
                self._words[word + _REASON_AT], self._words[word + _REASON_END] = kind_at + 5, stop
            elif self._is_named(at + 1, kind_at, _COUNT):
                self._words[word + _COUNT_AT] = kind_at
            at = stop
        for i in range(self._count):
            other = _ENTRY_WORDS * i
            if self._is_same(word + _QUEUE_AT, other + _QUEUE_AT) and self._is_same(
                word + _REASON_AT, other + _REASON_AT
            ):
                self._words[other + _SAME] += 1
                return 0
        self._count += 1
        return 0

    def _is_same(self, word: int, other: int) -> bool:
        start, begin = self._words[word], self._words[other]
        size = self._words[word + 1] - start
        if self._words[other + 1] - begin != size or (start < 0) != (begin < 0):
            return False
        same = 0
        while same < size and self._data[start + same] == self._data[begin + same]:
            same += 1
        return same == size

    def _is_text(self, word: int, text: bytes) -> bool:
        return self._words[word] >= 0 and self._is_named(self._words[word], self._words[word + 1], text)

    # What is made of it

    def _put_row(self, start: int, end: int, exchange: bytes, key: bytes) -> bool:
        """False if the headers would be longer than headers may be."""
        self._find()
        place = self._at
        flags = memory.load_big16(self._data, start) & ~_EXPIRATION | _HEADERS
        self._out[place] = _KIND
        self._out[place + 1] = flags >> 8
        self._out[place + 2] = flags & 0xFF
        self._at = place + 3
        self._put_piece(start + 2, self._headers)
        table = self._at
        self._at += 4
        self._put_kept()
        self._put_deaths(exchange, key)
        if self._at - table - 4 > _MAX_TABLE:
            return False
        memory.store_big32(self._out, table, self._at - table - 4)
        self._put_piece(self._headers_end, self._expiration)
        self._put_piece(self._expiration_end, end)
        if self._cc >= 0 and not self._drops_cc:
            self._note_copies()
        return True

    def _put_kept(self) -> int:
        """The headers that stay as they are."""
        at = begin = self._table
        while at < self._table_end:
            kind_at = at + 1 + self._data[at]
            stop = amqp_tables.field_end(self._data, kind_at, self._table_end, 1)
            if self._is_replaced(at + 1, kind_at):
                self._put_piece(begin, at)
                begin = stop
            at = stop
        return self._put_piece(begin, self._table_end)

    def _is_replaced(self, start: int, end: int) -> bool:
        if end - start == len(_CC):
            return self._drops_cc and self._is_named(start, end, _CC)
        if end - start < len(_DEATH) or self._data[start] != 0x78:
            return False
        if self._is_named(start, end, _DEATH):
            return True
        if self._death >= 0:
            return False
        for i in range(3):  # noqa: SIM110  # a generator is no C
            if self._is_named(start, end, _FIRST[i]):
                return True
        return False

    def _put_deaths(self, exchange: bytes, key: bytes) -> int:
        if self._death < 0:
            self._put_text(_FIRST[0], exchange)
            self._put_text(_FIRST[1], self._queue)
            self._put_text(_FIRST[2], self._reason)
        self._count = 0
        if self._death >= 0 and self._data[self._death] == _ARRAY:
            self._read_deaths()
        self._put_name(_DEATH, _ARRAY)
        place = self._at
        self._at += 4
        found = -1
        for i in range(self._count):
            word = _ENTRY_WORDS * i
            if self._is_text(word + _QUEUE_AT, self._queue) and self._is_text(word + _REASON_AT, self._reason):
                found = i
        if found >= 0:
            self._put_again(_ENTRY_WORDS * found)
        else:
            self._put_new(exchange, key)
        # RabbitMQ turns what was there round, each time that it looks at it.
        for i in range(self._count - 1, -1, -1):
            if i != found:
                word = _ENTRY_WORDS * i
                self._put_entry(self._words[word + _START], self._words[word + _END])
        memory.store_big32(self._out, place, self._at - place - 4)
        return 0

    def _put_entry(self, start: int, end: int) -> int:
        self._out[self._at] = _TABLE
        memory.store_big32(self._out, self._at + 1, end - start)
        self._at += 5
        return self._put_piece(start, end)

    def _put_again(self, word: int) -> int:
        """The same once more."""
        start, end, count_at = self._words[word + _START], self._words[word + _END], self._words[word + _COUNT_AT]
        self._out[self._at] = _TABLE
        place = self._at + 1
        self._at += 5
        count = self._words[word + _SAME] if self._count > 1 else 0
        if count_at >= 0:
            count = self._whole_number(count_at)
        self._put_long(_COUNT, count + 1)
        if count_at < 0:
            self._put_piece(start, end)
        else:
            self._put_piece(start, count_at - 1 - len(_COUNT))
            self._put_piece(amqp_tables.field_end(self._data, count_at, end, 3), end)
        memory.store_big32(self._out, place, self._at - place - 4)
        return 0

    def _whole_number(self, at: int) -> int:
        """0 for what is none."""
        kind = self._data[at]
        size = amqp_tables.width(kind)
        if size < 1 or kind == 0x66 or kind == 0x64 or kind == 0x44 or self._data[at + 1] >= 128:
            return 0
        value = 0
        for i in range(1, size + 1):
            value = value * 256 + self._data[at + i]
        return value

    def _put_new(self, exchange: bytes, key: bytes) -> int:
        self._out[self._at] = _TABLE
        place = self._at + 1
        self._at += 5
        self._put_long(_COUNT, 1)
        self._put_text(_EXCHANGE, exchange)
        if self._expiration_end > self._expiration:
            self._put_name(_ORIGINAL, _STRING)
            memory.store_big32(self._out, self._at, self._expiration_end - self._expiration - 1)
            self._at += 4
            self._put_piece(self._expiration + 1, self._expiration_end)
        self._put_text(_QUEUE, self._queue)
        self._put_text(_REASON, self._reason)
        self._put_name(_KEYS, _ARRAY)
        keys = self._at
        self._at += 4
        self._put_string(key)
        self._put_copies()
        memory.store_big32(self._out, keys, self._at - keys - 4)
        self._put_name(_WHEN, _TIME)
        memory.store_big64(self._out, self._at, self._time_s)
        self._at += 8
        memory.store_big32(self._out, place, self._at - place - 4)
        return 0

    def _put_copies(self) -> int:
        """The strings in `CC`."""
        if self._cc < 0 or self._data[self._cc] != _ARRAY:
            return 0
        at = self._cc + 5
        while at < self._cc_end:
            stop = amqp_tables.field_end(self._data, at, self._cc_end, 2)
            if self._data[at] == _STRING:
                self._put_piece(at, stop)
            at = stop
        return 0

    def _note_copies(self) -> int:
        found: list[bytes] = []
        if self._data[self._cc] == _ARRAY:
            at = self._cc + 5
            while at < self._cc_end:
                stop = amqp_tables.field_end(self._data, at, self._cc_end, 2)
                if self._data[at] == _STRING:
                    found.append(memory.piece(self._data, at + 5, stop))
                at = stop
        if found:
            self.copies.append((self._rows, found))
        return 0

    # Bytes

    def _put_name(self, name: bytes, kind: int) -> int:
        self._out[self._at] = len(name)
        self._at = memory.put(self._out, self._at + 1, name)
        self._out[self._at] = kind
        self._at += 1
        return 0

    def _put_text(self, name: bytes, text: bytes) -> int:
        self._put_name(name, _STRING)
        self._at -= 1
        return self._put_string(text)

    def _put_string(self, text: bytes) -> int:
        """With its type."""
        self._out[self._at] = _STRING
        memory.store_big32(self._out, self._at + 1, len(text))
        self._at = memory.put(self._out, self._at + 5, text)
        return 0

    def _put_long(self, name: bytes, value: int) -> int:
        self._put_name(name, _LONG)
        memory.store_big64(self._out, self._at, value)
        self._at += 8
        return 0

    def _put_piece(self, start: int, end: int) -> int:
        memory.copy_bytes(self._out, self._at, self._data, start, end - start)
        self._at += end - start
        return 0

    def _reserve(self, size: int) -> int:
        if self._at + size > len(self._out):
            grown = bytearray(2 * self._at + size)
            memory.copy_bytes(grown, 0, self._out, 0, self._at)
            self._whole = grown
            self._out = grown
        return 0

    # Cycles

    def mark_cycles(self, native: Buffer, starts: Ints, ends: Ints, queue: bytes, marks: bytearray) -> int:
        """Marks rows whose `x-death` says that they died in that queue before, and were rejected nowhere since: nobody
        but the broker sends them round. Native properties have their kind in front. How many."""
        self._data = native
        found = 0
        for row in range(len(starts)):
            if ends[row] <= starts[row] + 1 or native[starts[row]] != _KIND:
                continue
            if self._parse(starts[row] + 1, ends[row]) and self._is_cycle(queue):
                marks[row] = 1
                found += 1
        self._data = b""
        return found

    def _is_cycle(self, queue: bytes) -> bool:
        self._find()
        if self._death < 0 or self._data[self._death] != _ARRAY:
            return False
        at, stop = self._death + 5, self._death_end
        while at < stop:
            end = amqp_tables.field_end(self._data, at, stop, 2)
            if self._data[at] != _TABLE:
                return False
            self._count = 0
            self._read_death(at + 5, end)
            if self._is_text(_REASON_AT, _REJECTED):
                return False
            if self._is_text(_QUEUE_AT, queue):
                return True
            at = end
        return False
