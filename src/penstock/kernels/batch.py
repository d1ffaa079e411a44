"""The loops of the batch format: build a body from spans, check one that cannot be trusted, walk batches in a segment.

Positions and sizes are below 2**31, offsets and timestamps are int64. Every read and write is checked against the ends
of its buffer. Batches are described in log/FORMAT.md."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.core.errors import CorruptBatch, InvalidArgument, TooLarge
from penstock.core.ports import Buffer
from penstock.kernels import memory
from penstock.kernels.crc import crc32c

Ints: TypeAlias = "array[int] | None"


def spans_bytes(starts: array[int], ends: array[int], entries: int, source_bytes: int) -> int:
    """Bytes that the first `entries` spans cover; InvalidArgument if one leaves the source."""
    if entries < 0 or len(starts) < entries or len(ends) < entries:
        raise InvalidArgument("a column has fewer spans than the batch has records")
    total = 0
    for i in range(entries):
        if starts[i] < 0 or ends[i] < starts[i] or ends[i] > source_bytes:
            raise InvalidArgument("a span leaves its source")
        total += ends[i] - starts[i]
    return total


def var_bytes(starts: Ints, ends: Ints, entries: int, source_bytes: int) -> int:
    """Size of a variable-length column with its padding; 0 when the column is absent."""
    if starts is None or ends is None:
        return 0
    return _pad8(4 * entries + 4) + _pad8(spans_bytes(starts, ends, entries, source_bytes))


def build(
    limit_bytes: int,
    source: Buffer,
    count: int,
    timestamp_delta: Ints,
    offset_delta: Ints,
    expiry: Ints,
    topic_index: Ints,
    topic_starts: Ints,
    topic_ends: Ints,
    key_starts: Ints,
    key_ends: Ints,
    property_starts: Ints,
    property_ends: Ints,
    native_starts: Ints,
    native_ends: Ints,
    value_starts: Ints,
    value_ends: Ints,
    producer_id: int = 0,
    producer_epoch: int = 0,
    base_sequence: int = 0,
) -> bytearray:
    """The header but what seal() fills, then the body with every column that is not None, in the order of the format.
    TooLarge when the body would pass `limit_bytes`; nothing is allocated then."""
    source_bytes = len(source)
    topics = 0
    size = 0
    flags = _VALUE
    if timestamp_delta is not None:
        flags |= _TIMESTAMP_DELTA
        size += _pad8(4 * count)
    if offset_delta is not None:
        flags |= _OFFSET_DELTA
        size += _pad8(4 * count + 4)
    if expiry is not None:
        flags |= _EXPIRY
        size += 8 * count
    flags |= (0 if key_starts is None else _KEY) | (0 if property_starts is None else _PROPERTIES)
    flags |= 0 if native_starts is None else _NATIVE
    if topic_index is not None:
        flags |= _TOPIC
        topics = 0 if topic_starts is None else len(topic_starts)
        size += _pad8(4 * count) + 8 + var_bytes(topic_starts, topic_ends, topics, source_bytes)
    size += var_bytes(key_starts, key_ends, count, source_bytes)
    size += var_bytes(property_starts, property_ends, count, source_bytes)
    size += var_bytes(native_starts, native_ends, count, source_bytes)
    size += var_bytes(value_starts, value_ends, count, source_bytes)
    if size > limit_bytes:
        raise TooLarge("batch body", size, limit_bytes)
    whole = bytearray(64 + size)
    put_header(whole, count, flags, 0, producer_id, producer_epoch, base_sequence)
    out = whole
    at = put_int32(out, 64, timestamp_delta, count)
    at = put_int32(out, at, offset_delta, count + 1)
    at = put_int64(out, at, expiry, count)
    if topic_index is not None:
        at = put_topic_index(out, at, topic_index, count, topics)
        memory.store_i32(out, at, topics)
        at = put_spans(out, at + 8, source, topic_starts, topic_ends, topics)
    at = put_spans(out, at, source, key_starts, key_ends, count)
    at = put_spans(out, at, source, property_starts, property_ends, count)
    at = put_spans(out, at, source, native_starts, native_ends, count)
    put_spans(out, at, source, value_starts, value_ends, count)
    return whole


def put_int32(out: bytearray, at: int, values: Ints, entries: int) -> int:
    if values is None:
        return at
    if len(values) < entries:
        raise InvalidArgument("a column has fewer entries than the batch has records")
    for i in range(entries):
        memory.store_i32(out, at + 4 * i, values[i])
    return at + _pad8(4 * entries)


def put_topic_index(out: bytearray, at: int, values: array[int], entries: int, topics: int) -> int:
    for i in range(min(entries, len(values))):
        if values[i] < 0 or values[i] >= topics:
            raise InvalidArgument("a topic index is outside the dictionary")
    return put_int32(out, at, values, entries)


def put_int64(out: bytearray, at: int, values: Ints, entries: int) -> int:
    if values is None:
        return at
    if len(values) < entries:
        raise InvalidArgument("a column has fewer entries than the batch has records")
    for i in range(entries):
        memory.store_i64(out, at + 8 * i, values[i])
    return at + 8 * entries


def put_spans(out: bytearray, at: int, source: Buffer, starts: Ints, ends: Ints, entries: int) -> int:
    """Write offsets and bytes of a variable-length column; the position behind it. Spans must be checked before."""
    if starts is None or ends is None:
        return at
    first_byte = at + _pad8(4 * entries + 4)
    filled = 0
    for i in range(entries):
        size = ends[i] - starts[i]
        memory.copy_bytes(out, first_byte + filled, source, starts[i], size)
        filled += size
        memory.store_i32(out, at + 4 * i + 4, filled)
    return first_byte + _pad8(filled)


def put_header(
    batch: bytearray,
    count: int,
    flags: int,
    compression: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> int:
    """All of the header but what seal() fills, where zeros are."""
    out = batch
    memory.store_u32(out, 0, _MAGIC)
    memory.store_u32(out, 16, len(batch) - 64)
    memory.store_u32(out, 20, count)
    memory.store_u32(out, 28, flags | compression << 16 | _VERSION << 24)
    memory.store_u32(out, 48, producer_id & _LOW_32)
    memory.store_u32(out, 52, producer_id >> 32)
    memory.store_u32(out, 56, producer_epoch)
    return memory.store_u32(out, 60, base_sequence)


def seal(batch: bytearray, base_offset: int, epoch: int, base_timestamp: int, max_timestamp: int) -> int:
    """Fill what the log decides about a batch, offset and timestamps below 2**63, epoch below 2**32; then the
    checksum."""
    if base_offset < 0 or epoch < 0 or epoch > _LOW_32 or base_timestamp < 0 or max_timestamp < base_timestamp:
        raise InvalidArgument("a batch is stamped with an offset, epoch or timestamp out of range")
    out = batch
    memory.store_i64(out, 8, base_offset)
    memory.store_u32(out, 24, epoch)
    memory.store_i64(out, 32, base_timestamp)
    memory.store_i64(out, 40, max_timestamp)
    return memory.store_u32(out, 4, crc32c(batch, 0, 8))


def lay_out(data: Buffer, start: int, stop: int, count: int, flags: int, layout: array[int] | memoryview) -> int:
    """Check the body in data[start:stop] and fill `layout` (16 words, log/batch.py names them) with the position of
    each column, -1 where it is absent. CorruptBatch when anything does not fit, is out of order, or is left over."""
    for i in range(16):
        layout[i] = -1
    at = start
    if flags & 1:
        layout[0] = at
        at = _timestamps_end(data, at, stop, count)
    if flags & 2:
        layout[1] = at
        at = _offsets_end(data, at, stop, count)
    if flags & 4:
        layout[2] = at
        at = _expiry_end(data, at, stop, count)
    if flags & 8:
        layout[3] = at
        at = _topics_end(data, at, stop, count, layout)
    for i in range(4):
        if flags & (16 << i):
            layout[7 + 2 * i] = at
            layout[8 + 2 * i] = at + _pad8(4 * count + 4)
            at = _var_end(data, at, stop, count)
    layout[15] = at
    if at != stop:
        raise CorruptBatch("bytes are left over behind the last column", at)
    return 0


def scan(data: Buffer, start: int, stop: int, rows: array[int]) -> int:
    """Walk the batches in data[start:stop] by their headers: position, base offset, count, max timestamp and total
    bytes of each go to `rows`. Ends at the first bytes that cannot be a batch, or when `rows` is full; how many."""
    at = start
    found = 0
    room = len(rows) // 5
    stop = min(stop, len(data))
    while found < room and at >= 0 and at + 64 <= stop:
        total = 64 + memory.load_u32(data, at + 16)
        if memory.load_u32(data, at) != _MAGIC or data[at + 31] != 1 or total % 8 != 0 or total > stop - at:
            break
        if memory.load_i64(data, at + 8) < 0 or memory.load_i64(data, at + 40) < 0:
            break
        rows[5 * found] = at
        rows[5 * found + 1] = memory.load_i64(data, at + 8)
        rows[5 * found + 2] = memory.load_u32(data, at + 20)
        rows[5 * found + 3] = memory.load_i64(data, at + 40)
        rows[5 * found + 4] = total
        found += 1
        at += total
    return found


def keys_at(data: Buffer) -> int:
    """Where the offsets of the keys begin in a batch that was checked, is not compressed and has neither deltas nor
    expiries; -1 where it has no keys. Their bytes begin behind the padding."""
    flags = memory.load_u32(data, 28)
    if not flags & 16:
        return -1
    at = 64
    if flags & 8:
        at += _pad8(4 * memory.load_u32(data, 20))
        topics = memory.load_i32(data, at)
        at += 8
        at += _pad8(4 * topics + 4) + _pad8(memory.load_i32(data, at + 4 * topics))
    return at


def entry_spans(data: Buffer, offsets_at: int, bytes_at: int, starts: array[int], ends: array[int]) -> int:
    """Where the entries of a checked variable-length column lie, as many as there is room for."""
    for i in range(len(starts)):
        starts[i] = bytes_at + memory.load_i32(data, offsets_at + 4 * i)
        ends[i] = bytes_at + memory.load_i32(data, offsets_at + 4 * i + 4)
    return 0


def add_deltas(data: Buffer, at: int, base: int, step: int, out: array[int] | memoryview) -> int:
    """out[i] = base + int32 column at `at`; without a column (at < 0) base + i * step. Sums stay below 2**63."""
    for i in range(len(out)):
        out[i] = base + (memory.load_i32(data, at + 4 * i) if at >= 0 else i * step)
    return 0


def _pad8(size: int) -> int:
    return (size + 7) & -8


def _fixed_end(at: int, stop: int, size: int) -> int:
    if _pad8(size) > stop - at:
        raise CorruptBatch("a column is longer than the body", at)
    return at + _pad8(size)


def _timestamps_end(data: Buffer, at: int, stop: int, count: int) -> int:
    end = _fixed_end(at, stop, 4 * count)
    fault = memory.first_fall(data, at, count)
    if count > 0 and memory.load_i32(data, at) < 0:
        fault = 0
    if fault < count:
        raise CorruptBatch("timestamps go back", at + 4 * fault)
    return end


def _offsets_end(data: Buffer, at: int, stop: int, count: int) -> int:
    end = _fixed_end(at, stop, 4 * count + 4)
    fault = memory.first_stall(data, at, count + 1)
    if memory.load_i32(data, at) < 0:
        fault = 0
    if fault <= count:
        raise CorruptBatch("offsets do not rise", at + 4 * fault)
    if memory.load_i32(data, at + 4 * count) == 0:
        raise CorruptBatch("the offset range is empty", at)
    return end


def _expiry_end(data: Buffer, at: int, stop: int, count: int) -> int:
    end = _fixed_end(at, stop, 8 * count)
    fault = memory.first_negative(data, at, count)
    if fault < count:
        raise CorruptBatch("an expiry time is negative", at + 8 * fault)
    return end


def _topics_end(data: Buffer, at: int, stop: int, count: int, layout: array[int] | memoryview) -> int:
    dictionary = _fixed_end(at, stop, 4 * count)
    if stop - dictionary < 8:
        raise CorruptBatch("the topic dictionary is missing", dictionary)
    topics = memory.load_i32(data, dictionary)
    if topics < 0 or memory.load_i32(data, dictionary + 4) != 0:
        raise CorruptBatch("the topic dictionary has a bad length", dictionary)
    fault = memory.first_outside(data, at, count, topics)
    if fault < count:
        raise CorruptBatch("a topic index is outside the dictionary", at + 4 * fault)
    layout[4] = topics
    layout[5] = dictionary + 8
    layout[6] = dictionary + 8 + _pad8(4 * topics + 4)
    return _var_end(data, dictionary + 8, stop, topics)


def _var_end(data: Buffer, at: int, stop: int, entries: int) -> int:
    """The position behind a variable-length column whose offsets begin at `at`."""
    first_byte = _fixed_end(at, stop, 4 * entries + 4)
    if memory.load_i32(data, at) != 0:
        raise CorruptBatch("the offsets of a column do not begin at 0", at)
    fault = memory.first_fall(data, at, entries + 1)
    if fault <= entries:
        raise CorruptBatch("the offsets of a column go back", at + 4 * fault)
    return _fixed_end(first_byte, stop, memory.load_i32(data, at + 4 * entries))


_TIMESTAMP_DELTA, _OFFSET_DELTA, _EXPIRY, _TOPIC, _KEY, _PROPERTIES, _NATIVE, _VALUE = 1, 2, 4, 8, 16, 32, 64, 128
# Named, because Cython takes a literal above 2**31 for a Python object.
_MAGIC = int.from_bytes(b"PSTB", "little")
_LOW_32 = 0xFFFFFFFF
_VERSION = 1
