"""Batches: how records are stored, in a journal frame, in a segment and on the wire. FORMAT.md has the bytes.

`encode` and `seal` are the hot path. `check` and `Batch.parse` take bytes that cannot be trusted: whatever the bytes,
they return or raise CorruptBatch."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from struct import Struct
from typing import NamedTuple

from penstock.core.errors import CorruptBatch, InvalidArgument
from penstock.core.ports import Buffer
from penstock.core.types import Compression
from penstock.kernels import batch as kernel
from penstock.kernels import header as head_kernel
from penstock.kernels import rows
from penstock.kernels.crc import crc32c
from penstock.log import compression as codec
from penstock.log.columns import Columns, Spans
from penstock.log.header import (
    CRC_AT,
    CRC_FROM,
    EXPIRY,
    HEADER_BYTES,
    KEY,
    MAX_BODY_BYTES,
    NATIVE,
    OFFSET_DELTA,
    PROPERTIES,
    TIMESTAMP_DELTA,
    TOPIC,
    VALUE,
    Header,
    read_header,
    read_whole,
)

__all__ = [
    "EXPIRY",
    "HEADER_BYTES",
    "KEY",
    "MAX_BODY_BYTES",
    "NATIVE",
    "OFFSET_DELTA",
    "PROPERTIES",
    "TIMESTAMP_DELTA",
    "TOPIC",
    "VALUE",
    "Batch",
    "Header",
    "Row",
    "below_offset",
    "build",
    "check",
    "check_crc",
    "encode",
    "flags_of",
    "from_offset",
    "next_offset",
    "read_body",
    "read_header",
    "seal",
    "select_rows",
]

_INT32 = Struct("<i")
_TWO_INT32 = Struct("<ii")
_INT64 = Struct("<q")
_UINT32 = Struct("<I")

# Words of the layout that kernels.batch.lay_out fills: position of each column, -1 if absent.
_TIMESTAMP_AT, _OFFSET_AT, _EXPIRY_AT, _TOPIC_INDEX_AT, _TOPIC_COUNT = range(5)
_TOPICS_AT, _KEY_AT, _PROPERTIES_AT, _NATIVE_AT, _VALUE_AT = 5, 7, 9, 11, 13
_EMPTY_LAYOUT = array("q", bytes(16 * 8))
_FIXED_AT = {
    TIMESTAMP_DELTA: _TIMESTAMP_AT,
    OFFSET_DELTA: _OFFSET_AT,
    EXPIRY: _EXPIRY_AT,
    TOPIC: _TOPIC_INDEX_AT,
}
_VAR_AT = {TOPIC: _TOPICS_AT, KEY: _KEY_AT, PROPERTIES: _PROPERTIES_AT, NATIVE: _NATIVE_AT, VALUE: _VALUE_AT}


class Row(NamedTuple):
    """One record as objects, for tools. An absent or empty key, topic or property field is None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes
    topic: bytes | None
    properties: bytes | None
    native: bytes | None
    expiry: int


def encode(columns: Columns, compression: Compression = Compression.NONE) -> bytearray:
    """A whole batch, lacking what the log decides: seal() fills that. TooLarge over MAX_BODY_BYTES, InvalidArgument for
    no records or a span outside the source. Stored uncompressed where compression saves less than an eighth."""
    if columns.count < 1:
        raise InvalidArgument("a batch has at least one record")
    return build(columns, compression)


def build(
    columns: Columns,
    compression: int = 0,
    timestamp_delta: array[int] | None = None,
    offset_delta: array[int] | None = None,
) -> bytearray:
    """encode() with the two columns that only batches made from other batches have (FORMAT.md)."""
    key, properties, native, topics, value = (
        columns.key,
        columns.properties,
        columns.native,
        columns.topics,
        columns.value,
    )
    batch = kernel.build(
        MAX_BODY_BYTES,
        columns.source,
        columns.count,
        timestamp_delta,
        offset_delta,
        columns.expiry,
        columns.topic_index,
        None if topics is None else topics.starts,
        None if topics is None else topics.ends,
        None if key is None else key.starts,
        None if key is None else key.ends,
        None if properties is None else properties.starts,
        None if properties is None else properties.ends,
        None if native is None else native.starts,
        None if native is None else native.ends,
        value.starts,
        value.ends,
        columns.producer_id,
        columns.producer_epoch,
        columns.base_sequence,
    )
    return codec.compressed(batch, Compression(compression)) if compression else batch


def flags_of(columns: Columns) -> int:
    """Which columns a batch of them has."""
    return (
        VALUE
        | (0 if columns.key is None else KEY)
        | (0 if columns.properties is None else PROPERTIES)
        | (0 if columns.native is None else NATIVE)
        | (0 if columns.topic_index is None else TOPIC)
        | (0 if columns.expiry is None else EXPIRY)
    )


def seal(
    batch: bytearray, base_offset: int, epoch: int, timestamp_ms: int, max_timestamp_ms: int | None = None
) -> None:
    """Fill offset, epoch and timestamps in place, then the checksum. May be called again with other values.
    `max_timestamp_ms` is for batches that build() gave a timestamp column."""
    last_ms = timestamp_ms if max_timestamp_ms is None else max_timestamp_ms
    kernel.seal(batch, base_offset, epoch, timestamp_ms, last_ms)


def check_crc(data: Buffer) -> None:
    """Exactly one batch with a good header and checksum. The body may still be ill-formed: see check()."""
    head_kernel.check_whole(data)
    if crc32c(data, 0, CRC_FROM) != _UINT32.unpack_from(data, CRC_AT)[0]:
        raise CorruptBatch("the checksum does not match")


def check(data: Buffer) -> Header:
    """Exactly one batch, good in every respect: safe to store and to hand to any reader."""
    return Batch.parse(data).header


def next_offset(data: Buffer) -> int:
    """The first offset behind the batch's range. Looks into the body only of a thinned batch."""
    header = read_header(data)
    if not header.flags & OFFSET_DELTA:
        return header.base_offset + header.count
    return Batch.parse(data, verify=False).next_offset


def read_body(data: Buffer) -> memoryview:
    """The columns of a batch whose header is good, uncompressed. They may be ill-formed."""
    packed, compression = memoryview(data)[HEADER_BYTES:], Compression(read_header(data).compression)
    return codec.decompress(packed, compression, MAX_BODY_BYTES) if compression else packed


@dataclass(slots=True)
class Batch:
    """A checked batch, uncompressed. Field i of a record is read on demand; columns are views, valid while it lives.
    Never changed: not frozen only because that doubles what it costs to make one."""

    header: Header
    body: memoryview
    layout: array[int]

    @classmethod
    def parse(cls, data: Buffer, verify: bool = True) -> Batch:
        """CorruptBatch unless `data` is exactly one well-formed batch. verify=False leaves out only the checksum."""
        if verify:
            check_crc(data)
        header = read_whole(data)
        body, start = (read_body(data), 0) if header.compression else (memoryview(data), HEADER_BYTES)
        layout = _EMPTY_LAYOUT[:]
        kernel.lay_out(body, start, len(body), header.count, header.flags, layout)
        batch = cls(header, body, layout)
        last_ms = batch._last_timestamp() if header.flags & TIMESTAMP_DELTA else header.base_timestamp
        if last_ms != header.max_timestamp:
            raise CorruptBatch("the greatest timestamp is not that of the last record")
        return batch

    def __len__(self) -> int:
        return self.header.count

    def __iter__(self) -> Iterator[Row]:
        for i, (offset, timestamp) in enumerate(zip(self.offsets(), self.timestamps(), strict=True)):
            yield Row(
                offset,
                timestamp,
                self.key(i),
                self.value(i),
                self.topic(i),
                self.properties(i),
                self.native(i),
                self.expiry(i),
            )

    @property
    def next_offset(self) -> int:
        at, count = self.layout[_OFFSET_AT], self.header.count
        return self.header.base_offset + (count if at < 0 else self._int32(at, count))

    def offsets(self) -> array[int]:
        return self._sums(_OFFSET_AT, self.header.base_offset, 1)

    def timestamps(self) -> array[int]:
        return self._sums(_TIMESTAMP_AT, self.header.base_timestamp, 0)

    def key(self, row: int) -> bytes | None:
        return self._field(_KEY_AT, row) or None

    def value(self, row: int) -> bytes:
        return self._field(_VALUE_AT, row)

    def properties(self, row: int) -> bytes | None:
        return self._field(_PROPERTIES_AT, row) or None

    def native(self, row: int) -> bytes | None:
        return self._field(_NATIVE_AT, row) or None

    def topic(self, row: int) -> bytes | None:
        at = self.layout[_TOPIC_INDEX_AT]
        return None if at < 0 else self._entry(_TOPICS_AT, self._int32(at, self._row(row))) or None

    def expiry(self, row: int) -> int:
        """Ms since 1970; 0 for never."""
        at = self.layout[_EXPIRY_AT]
        return 0 if at < 0 else int(_INT64.unpack_from(self.body, at + 8 * self._row(row))[0])

    def fixed_column(self, flag: int) -> memoryview | None:
        """Raw bytes of the TIMESTAMP_DELTA, OFFSET_DELTA (without its last entry), EXPIRY or TOPIC (index) column."""
        at, width = self.layout[_FIXED_AT[flag]], 8 if flag == EXPIRY else 4
        return None if at < 0 else self.body[at : at + width * self.header.count]

    def var_column(self, flag: int) -> tuple[int, memoryview, memoryview] | None:
        """Entries, int32 offsets and bytes of the TOPIC (dictionary), KEY, PROPERTIES, NATIVE or VALUE column."""
        word = _VAR_AT[flag]
        offsets_at, bytes_at = self.layout[word], self.layout[word + 1]
        if offsets_at < 0:
            return None
        entries = self.layout[_TOPIC_COUNT] if flag == TOPIC else self.header.count
        size = self._int32(offsets_at, entries)
        return entries, self.body[offsets_at : offsets_at + 4 * entries + 4], self.body[bytes_at : bytes_at + size]

    def spans(self, flag: int) -> Spans | None:
        """Where the entries of that column, of those that var_column() gives, are in the body; None without it."""
        entries = max(self.layout[_TOPIC_COUNT], 0) if flag == TOPIC else self.header.count
        return self._spans(_VAR_AT[flag], entries)

    def columns(self, picked: array[int] | None = None) -> Columns:
        """All rows, as spans over this batch's body, or those of the given numbers (int32), in that order."""
        header, rows = self.header, self.header.count
        index = self.fixed_column(TOPIC)
        whole = Columns(
            count=rows,
            source=self.body,
            value=self._spans(_VALUE_AT, rows) or Spans(array("i", bytes(4 * rows)), array("i", bytes(4 * rows))),
            key=self._spans(_KEY_AT, rows),
            properties=self._spans(_PROPERTIES_AT, rows),
            native=self._spans(_NATIVE_AT, rows),
            topic_index=_array("i", index) if index is not None else None,
            topics=self._spans(_TOPICS_AT, max(self.layout[_TOPIC_COUNT], 0)),
            expiry=self._expiries(),
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )
        return whole if picked is None else whole.select(picked)

    def _row(self, row: int) -> int:
        if not 0 <= row < self.header.count:
            raise IndexError(row)
        return row

    def _field(self, word: int, row: int) -> bytes:
        return b"" if self.layout[word] < 0 else self._entry(word, self._row(row))

    def _entry(self, word: int, entry: int) -> bytes:
        offsets_at, bytes_at = self.layout[word], self.layout[word + 1]
        start, end = _TWO_INT32.unpack_from(self.body, offsets_at + 4 * entry)
        return bytes(self.body[bytes_at + start : bytes_at + end])

    def _int32(self, at: int, entry: int) -> int:
        return int(_INT32.unpack_from(self.body, at + 4 * entry)[0])

    def _spans(self, word: int, entries: int) -> Spans | None:
        offsets_at, bytes_at = self.layout[word], self.layout[word + 1]
        if offsets_at < 0:
            return None
        starts, ends = array("i", bytes(4 * entries)), array("i", bytes(4 * entries))
        kernel.entry_spans(self.body, offsets_at, bytes_at, starts, ends)
        return Spans(starts, ends)

    def _sums(self, word: int, base: int, step: int) -> array[int]:
        out = array("q", bytes(8 * self.header.count))
        kernel.add_deltas(self.body, self.layout[word], base, step, out)
        return out

    def _expiries(self) -> array[int] | None:
        column = self.fixed_column(EXPIRY)
        return _array("q", column) if column is not None else None

    def _timestamp_deltas(self, picked: array[int]) -> array[int] | None:
        """Of the given rows; None where the base timestamp says it all."""
        column = self.fixed_column(TIMESTAMP_DELTA)
        if column is None or not picked:
            return None
        out = array("i", bytes(4 * len(picked)))
        rows.take_int32(_array("i", column), picked, out)
        return out if out[-1] else None

    def _offset_deltas(self, picked: array[int], base_offset: int, end_offset: int) -> array[int]:
        offsets = array("q", bytes(8 * len(picked)))
        rows.take_int64(self.offsets(), picked, offsets)
        out = array("i", bytes(4 * len(picked)))
        rows.subtract(offsets, base_offset, out)
        out.append(end_offset - base_offset)
        return out

    def _last_timestamp(self) -> int:
        at, count = self.layout[_TIMESTAMP_AT], self.header.count
        return self.header.base_timestamp + (0 if at < 0 or not count else self._int32(at, count - 1))


def _array(typecode: str, column: memoryview) -> array[int]:
    out: array[int] = array(typecode)
    out.frombytes(column)
    return out


def from_offset(data: Buffer, offset: int) -> Buffer:
    """The part of a batch at and above an offset inside its range; the batch itself when that is all of it."""
    if offset <= read_header(data).base_offset:
        return data
    batch = Batch.parse(data)
    if offset >= batch.next_offset:
        raise InvalidArgument(f"offset {offset} is behind the batch, which ends at {batch.next_offset}")
    first = bisect_left(batch.offsets(), offset)
    return _rewrite(batch, array("i", range(first, len(batch))), offset, batch.next_offset)


def below_offset(data: Buffer, offset: int) -> Buffer:
    """The part of a batch below an offset inside its range; the batch itself when that is all of it."""
    base_offset = read_header(data).base_offset
    if offset >= next_offset(data):
        return data
    if offset <= base_offset:
        raise InvalidArgument(f"the batch begins at {base_offset}, nothing of it is below {offset}")
    batch = Batch.parse(data)
    stop = bisect_left(batch.offsets(), offset)
    return _rewrite(batch, array("i", range(stop)), base_offset, offset)


def select_rows(data: Buffer, picked: array[int]) -> bytearray:
    """The rows of the given numbers (int32, rising) as a sealed batch of the same offset range and epoch."""
    batch = Batch.parse(data)
    if not rows.rise(picked, len(batch)):
        raise InvalidArgument("the rows to keep must rise and lie in the batch")
    return _rewrite(batch, picked, batch.header.base_offset, batch.next_offset)


def _rewrite(batch: Batch, picked: array[int], base_offset: int, end_offset: int) -> bytearray:
    header = batch.header
    columns = batch.columns(picked)
    if header.producer_id:
        sequence = header.base_sequence + base_offset - header.base_offset
        columns = replace(columns, base_sequence=sequence & 0xFFFFFFFF)
    timestamp_delta = batch._timestamp_deltas(picked)
    offset_delta = None
    if len(picked) != end_offset - base_offset:
        offset_delta = batch._offset_deltas(picked, base_offset, end_offset)
    out = build(columns, header.compression, timestamp_delta, offset_delta)
    last_ms = header.base_timestamp + (timestamp_delta[-1] if timestamp_delta else 0)
    seal(out, base_offset, header.epoch, header.base_timestamp, last_ms)
    return out
