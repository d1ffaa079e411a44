from __future__ import annotations

import struct
from array import array
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.batches import Records, plain_int32, plain_var, records

from penstock.core.errors import CorruptBatch, InvalidArgument, TooLarge
from penstock.core.types import Compression
from penstock.kernels.crc import crc32c
from penstock.log.batch import (
    HEADER_BYTES,
    MAX_BODY_BYTES,
    OFFSET_DELTA,
    TIMESTAMP_DELTA,
    VALUE,
    Batch,
    build,
    check,
    check_crc,
    encode,
    next_offset,
    read_header,
    seal,
)
from penstock.log.columns import Columns

COMPRESSIONS = st.sampled_from(list(Compression))


def sealed(columns: Columns, compression: Compression = Compression.NONE, offset: int = 10) -> bytearray:
    batch = encode(columns, compression)
    seal(batch, offset, 3, 1_700_000_000_000)
    return batch


def resealed(batch: bytearray) -> bytearray:
    struct.pack_into("<I", batch, 4, crc32c(batch, 0, 8))
    return batch


def raw(body: bytes, count: int, flags: int, compression: int = 0) -> bytearray:
    head = struct.pack("<4sIQIIIHBBqqQHHI", b"PSTB", 0, 0, len(body), count, 0, flags, compression, 1, 5, 5, 0, 0, 0, 0)
    return resealed(bytearray(head + body))


@given(some=records(), compression=COMPRESSIONS, offset=st.integers(0, 2**62))
@settings(max_examples=100, deadline=None)
def test_records_come_back_as_they_were(some: Records, compression: Compression, offset: int) -> None:
    rows = list(Batch.parse(sealed(some.columns(), compression, offset)))
    count = len(some.values)
    assert [row.offset for row in rows] == list(range(offset, offset + count))
    assert {row.timestamp for row in rows} == {1_700_000_000_000}
    assert [row.value for row in rows] == some.values
    assert [row.key or b"" for row in rows] == (some.keys or [b""] * count)
    assert [row.topic or b"" for row in rows] == (some.topics or [b""] * count)
    assert [row.properties or b"" for row in rows] == (some.properties or [b""] * count)
    assert [row.native or b"" for row in rows] == (some.native or [b""] * count)
    assert [row.expiry for row in rows] == (some.expiry or [0] * count)


@given(some=records(max_count=3), compression=COMPRESSIONS, place=st.integers(0), flip=st.integers(1, 255))
@settings(max_examples=150, deadline=None)
def test_any_changed_byte_is_found(some: Records, compression: Compression, place: int, flip: int) -> None:
    batch = sealed(some.columns(), compression)
    batch[place % len(batch)] ^= flip
    with pytest.raises(CorruptBatch):
        check(batch)


@given(some=records(max_count=3), compression=COMPRESSIONS, place=st.integers(8), byte=st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_changed_bytes_with_a_right_checksum_are_read_or_refused(
    some: Records, compression: Compression, place: int, byte: int
) -> None:
    batch = sealed(some.columns(), compression)
    batch[8 + place % (len(batch) - 8)] = byte
    try:
        rows = list(Batch.parse(resealed(batch)))
    except CorruptBatch:
        return
    assert len(rows) == read_header(batch).count


@given(some=records(max_count=2), cut=st.integers(1, 500))
@settings(max_examples=50, deadline=None)
def test_a_cut_or_lengthened_batch_is_refused(some: Records, cut: int) -> None:
    batch = sealed(some.columns())
    for other in (batch[: max(0, len(batch) - cut)], batch + bytes(cut)):
        with pytest.raises(CorruptBatch):
            check_crc(other)


def test_a_batch_can_be_sealed_again_with_other_values() -> None:
    batch = sealed(Columns.of([b"a", b"b"]))
    seal(batch, 77, 4, 9)
    header = check(batch)
    assert (header.base_offset, header.epoch, header.base_timestamp, header.max_timestamp) == (77, 4, 9, 9)
    assert next_offset(batch) == 79


def test_the_producer_is_kept() -> None:
    columns = replace(Columns.of([b"a"]), producer_id=2**64 - 1, producer_epoch=65535, base_sequence=2**32 - 1)
    header = check(sealed(columns))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**64 - 1, 65535, 2**32 - 1)


def test_no_records_are_no_batch() -> None:
    with pytest.raises(InvalidArgument):
        encode(Columns.of([]))


def test_a_body_may_be_as_large_as_the_limit_and_no_larger() -> None:
    largest = MAX_BODY_BYTES - 8
    assert read_header(encode(Columns.of([bytes(largest)]))).body_bytes == MAX_BODY_BYTES
    with pytest.raises(TooLarge) as refused:
        encode(Columns.of([bytes(largest + 1)]), Compression.ZSTD)
    assert refused.value.limit == MAX_BODY_BYTES


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
def test_compression_is_left_out_where_it_saves_too_little(compression: Compression) -> None:
    noise = b"".join(struct.pack("<I", crc32c(bytes([i]))) for i in range(100))
    assert read_header(encode(Columns.of([noise]), compression)).compression == Compression.NONE
    packed = encode(Columns.of([b"again " * 100]), compression)
    assert read_header(packed).compression == compression
    assert len(packed) < 200


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
@pytest.mark.parametrize("claimed", [0, 8, 2**32 - 8, MAX_BODY_BYTES + 8, 616, 600, 607])
def test_a_claimed_length_that_is_not_that_of_the_body_is_refused(compression: Compression, claimed: int) -> None:
    batch = sealed(Columns.of([b"again " * 100]), compression)
    struct.pack_into("<I", batch, HEADER_BYTES, claimed)
    with pytest.raises(CorruptBatch):
        check(resealed(batch))


HEADER_FAULTS = {
    "magic": (0, b"PSTX"),
    "offset beyond int64": (8, struct.pack("<Q", 2**63)),
    "offset that would overflow": (8, struct.pack("<Q", 2**63 - 2**32 + 1)),
    "body not a multiple of 8": (16, struct.pack("<I", 17)),
    "body over the limit": (16, struct.pack("<I", MAX_BODY_BYTES + 8)),
    "no records": (20, struct.pack("<I", 0)),
    "too many records": (20, struct.pack("<I", 2**32 - 1)),
    "no columns": (28, struct.pack("<H", 0)),
    "unknown flag": (28, struct.pack("<H", 0x180)),
    "unknown compression": (30, b"\x03"),
    "unknown version": (31, b"\x02"),
    "negative timestamp": (32, struct.pack("<q", -1)),
    "timestamps crossed": (40, struct.pack("<q", 1)),
    "reserved": (58, b"\x01"),
}


@pytest.mark.parametrize("name", HEADER_FAULTS)
def test_an_impossible_header_is_refused_and_its_position_named(name: str) -> None:
    at, field = HEADER_FAULTS[name]
    data = bytearray(24) + sealed(Columns.of([b"a"]))
    data[24 + at : 24 + at + len(field)] = field
    with pytest.raises(CorruptBatch) as refused:
        read_header(data, 24)
    assert refused.value.position == 24


@pytest.mark.parametrize("position", [-1, 0, 1, 64])
def test_a_header_needs_64_bytes(position: int) -> None:
    with pytest.raises(CorruptBatch):
        read_header(bytes(sealed(Columns.of([b"a"])))[:63], position)


def test_a_header_is_read_without_its_body() -> None:
    batch = sealed(Columns.of([b"abcdefgh"] * 9))
    assert read_header(batch[:HEADER_BYTES]).total_bytes == len(batch)


def test_the_greatest_timestamp_must_be_that_of_the_last_record() -> None:
    batch = build(Columns.of([b"a", b"b"]), 0, array("i", [0, 7]))
    seal(batch, 0, 0, 5, 12)
    assert list(Batch.parse(batch).timestamps()) == [5, 12]
    seal(batch, 0, 0, 5, 11)
    with pytest.raises(CorruptBatch):
        check(batch)


def test_records_without_a_value_column_have_empty_values() -> None:
    batch = Batch.parse(raw(plain_var([b"k"]), 1, 16))
    assert (batch.key(0), batch.value(0), batch.topic(0), batch.expiry(0)) == (b"k", b"", None, 0)


@pytest.mark.parametrize("row", [-1, 2])
def test_a_row_that_is_not_there_cannot_be_read(row: int) -> None:
    batch = Batch.parse(sealed(Columns.of([b"a", b"b"], topics=[b"t", b"u"], expiry=[1, 2])))
    for read in (batch.value, batch.topic, batch.expiry):
        with pytest.raises(IndexError):
            read(row)


def test_a_range_without_records_is_a_batch() -> None:
    data = raw(plain_int32([6]) + plain_var([]), 0, VALUE | OFFSET_DELTA)
    assert list(Batch.parse(data)) == []
    assert next_offset(data) == 6


def test_skipping_the_checksum_does_not_skip_the_structure() -> None:
    data = raw(plain_int32([3, 1]) + plain_var([b"a", b"b"]), 2, VALUE | TIMESTAMP_DELTA)
    with pytest.raises(CorruptBatch):
        Batch.parse(data, verify=False)
    sound = sealed(Columns.of([b"a"]))
    sound[4] ^= 1
    assert Batch.parse(sound, verify=False).value(0) == b"a"
