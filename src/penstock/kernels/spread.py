"""Sealed batches for many logs out of one set of columns, in one call: what a small batch costs is mostly calls.

Rows lie in the order of the logs; log i gets the next counts[i] of them. Positions and sizes are below 2**31, offsets
and timestamps are int64. Batches are described in log/FORMAT.md."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.core.errors import InvalidArgument, TooLarge
from penstock.core.ports import Buffer
from penstock.kernels import batch, memory
from penstock.kernels.crc import crc32c

Column: TypeAlias = "tuple[array[int], array[int]]"
"""where entries start and end in the source"""

_EXPIRY, _TOPIC, _KEY, _PROPERTIES, _NATIVE, _VALUE = 4, 8, 16, 32, 64, 128


class Rows:
    """The columns of a spread, each an array of its own; what `flags` does not name is not looked at."""

    def __init__(
        self,
        source: Buffer,
        flags: int,
        expiry: array[int],
        topic_index: array[int],
        topics: Column,
        key: Column,
        properties: Column,
        native: Column,
        value: Column,
    ) -> None:
        self.source, self.flags = source, flags
        self.expiry, self.topic_index = expiry, topic_index
        self.topic_starts, self.topic_ends = topics
        self.key_starts, self.key_ends = key
        self.property_starts, self.property_ends = properties
        self.native_starts, self.native_ends = native
        self.value_starts, self.value_ends = value
        self.topics = len(self.topic_starts) if flags & _TOPIC else 0
        # The topics of one part, numbered in the order of their first use, and the number that each has there.
        self.used_starts = array("i", bytes(4 * self.topics))
        self.used_ends = array("i", bytes(4 * self.topics))
        self.used = array("i", bytes(4 * self.topics))
        self.numbers = array("i", [-1]) * self.topics

    def count(self) -> int:
        return len(self.value_starts)

    def part_bytes(self, first: int, stop: int) -> int:
        """Of the body that holds rows first..stop - 1; InvalidArgument if a span leaves the source."""
        count, room = stop - first, len(self.source)
        size = 8 * count if self.flags & _EXPIRY else 0
        if self.flags & _TOPIC:
            topics = self.number_topics(first, stop)
            size += _pad8(4 * count) + 8 + batch.var_bytes(self.used_starts, self.used_ends, topics, room)
            self.forget_numbers(topics)
        if self.flags & _KEY:
            size += batch.var_bytes(self.key_starts[first:stop], self.key_ends[first:stop], count, room)
        if self.flags & _PROPERTIES:
            size += batch.var_bytes(self.property_starts[first:stop], self.property_ends[first:stop], count, room)
        if self.flags & _NATIVE:
            size += batch.var_bytes(self.native_starts[first:stop], self.native_ends[first:stop], count, room)
        return size + batch.var_bytes(self.value_starts[first:stop], self.value_ends[first:stop], count, room)

    def put_part(self, out: bytearray, at: int, first: int, stop: int) -> int:
        """Write that body at a position where zeros are; the position behind it."""
        count, source = stop - first, self.source
        if self.flags & _EXPIRY:
            at = batch.put_int64(out, at, self.expiry[first:stop], count)
        if self.flags & _TOPIC:
            at = self.put_topics(out, at, first, stop)
        if self.flags & _KEY:
            at = batch.put_spans(out, at, source, self.key_starts[first:stop], self.key_ends[first:stop], count)
        if self.flags & _PROPERTIES:
            at = batch.put_spans(
                out, at, source, self.property_starts[first:stop], self.property_ends[first:stop], count
            )
        if self.flags & _NATIVE:
            at = batch.put_spans(out, at, source, self.native_starts[first:stop], self.native_ends[first:stop], count)
        return batch.put_spans(out, at, source, self.value_starts[first:stop], self.value_ends[first:stop], count)

    def put_topics(self, out: bytearray, at: int, first: int, stop: int) -> int:
        topics = self.number_topics(first, stop)
        for i in range(first, stop):
            memory.store_i32(out, at + 4 * (i - first), self.numbers[self.topic_index[i]])
        at += _pad8(4 * (stop - first))
        memory.store_i32(out, at, topics)
        at = batch.put_spans(out, at + 8, self.source, self.used_starts, self.used_ends, topics)
        self.forget_numbers(topics)
        return at

    def number_topics(self, first: int, stop: int) -> int:
        """How many topics these rows use. forget_numbers() before the next part."""
        if stop > len(self.topic_index):
            raise InvalidArgument("a column has fewer entries than the batch has records")
        found = 0
        for i in range(first, stop):
            topic = self.topic_index[i]
            if topic < 0 or topic >= self.topics:
                raise InvalidArgument("a topic index is outside the dictionary")
            if self.numbers[topic] < 0:
                self.numbers[topic] = found
                self.used[found] = topic
                self.used_starts[found] = self.topic_starts[topic]
                self.used_ends[found] = self.topic_ends[topic]
                found += 1
        return found

    def forget_numbers(self, topics: int) -> int:
        for i in range(topics):
            self.numbers[self.used[i]] = -1
        return 0


def build(
    limit_bytes: int,
    rows: Rows,
    counts: array[int],
    base_offsets: array[int],
    epochs: array[int],
    timestamps: array[int],
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> list[bytearray]:
    """One sealed batch a log. TooLarge where a body, or all batches together, would pass `limit_bytes`; nothing is
    allocated then. InvalidArgument where a log gets no rows, or the rows are not as many as the logs get."""
    parts = len(counts)
    sizes = array("q", bytes(8 * parts))
    total = _measure(limit_bytes, rows, counts, sizes)
    lengths = sizes
    whole = bytearray(total)
    out = whole
    made = []
    at = 0
    first = 0
    for i in range(parts):
        end = at + lengths[i]
        if base_offsets[i] < 0 or epochs[i] < 0 or epochs[i] > _LOW_32 or timestamps[i] < 0:
            raise InvalidArgument("a batch is stamped with an offset, epoch or timestamp out of range")
        rows.put_part(out, at + 64, first, first + counts[i])
        memory.store_u32(out, at, _MAGIC)
        memory.store_u32(out, at + 16, end - at - 64)
        memory.store_u32(out, at + 20, counts[i])
        memory.store_u32(out, at + 28, rows.flags | _VERSION << 24)
        memory.store_u32(out, at + 48, producer_id & _LOW_32)
        memory.store_u32(out, at + 52, producer_id >> 32)
        memory.store_u32(out, at + 56, producer_epoch)
        memory.store_u32(out, at + 60, base_sequence)
        memory.store_i64(out, at + 8, base_offsets[i])
        memory.store_u32(out, at + 24, epochs[i])
        memory.store_i64(out, at + 32, timestamps[i])
        memory.store_i64(out, at + 40, timestamps[i])
        memory.store_u32(out, at + 4, crc32c(whole, 0, at + 8, end))
        made.append(whole[at:end])
        at = end
        first += counts[i]
    return made


def _measure(limit_bytes: int, rows: Rows, counts: array[int], sizes: array[int]) -> int:
    """Bytes of each batch to `sizes`; of all of them."""
    total = 0
    first = 0
    left = rows.count()
    for i in range(len(counts)):
        left -= counts[i]
        if counts[i] < 1 or left < 0:
            raise InvalidArgument("a batch has at least one record, and the rows go to one log each")
        size = rows.part_bytes(first, first + counts[i])
        if size > limit_bytes:
            raise TooLarge("batch body", size, limit_bytes)
        sizes[i] = 64 + size
        total += 64 + size
        first += counts[i]
    if left > 0:
        raise InvalidArgument("there are more rows than the logs get")
    if total > limit_bytes:
        raise TooLarge("the commit", total, limit_bytes)
    return total


def _pad8(size: int) -> int:
    return (size + 7) & -8


# Named, because Cython takes a literal above 2**31 for a Python object.
_MAGIC = int.from_bytes(b"PSTB", "little")
_LOW_32 = 0xFFFFFFFF
_VERSION = 1
