from __future__ import annotations

import struct
from array import array
from dataclasses import replace
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.batches import Records, plain_int32, plain_var, records
from tests.support.kernels import both, builds

from penstock.core.errors import CorruptBatch, InvalidArgument, TooLarge
from penstock.core.types import Compression
from penstock.log.batch import EXPIRY, OFFSET_DELTA, TIMESTAMP_DELTA, TOPIC, VALUE, encode, flags_of, read_header, seal
from penstock.log.columns import Columns, Spans
from penstock.log.header import HEADER, MAGIC, VERSION


def build(kernel: ModuleType, columns: Columns, limit: int = 1 << 24) -> bytearray:
    spans = (columns.topics, columns.key, columns.properties, columns.native, columns.value)
    ends = [part for span in spans for part in ((None, None) if span is None else (span.starts, span.ends))]
    built = kernel.build(
        limit,
        columns.source,
        columns.count,
        None,
        None,
        columns.expiry,
        columns.topic_index,
        *ends,
        *(columns.producer_id, columns.producer_epoch, columns.base_sequence),
    )
    assert isinstance(built, bytearray)
    return built


def layout_of(kernel: ModuleType, body: bytes, count: int, flags: int) -> list[int] | tuple[str, int]:
    """What the kernel says of a body: where its columns are, or the fault and its place."""
    layout = array("q", bytes(128))
    try:
        kernel.lay_out(body, 0, len(body), count, flags, layout)
    except CorruptBatch as fault:
        return fault.reason, fault.position
    return list(layout)


@pytest.mark.parametrize("kernel", builds("batch"))
@given(some=records())
@settings(max_examples=100, deadline=None)
def test_a_body_is_what_the_format_says(kernel: ModuleType, some: Records) -> None:
    columns = replace(some.columns(), producer_id=(1 << 63) + 5, producer_epoch=7, base_sequence=9)
    built, head = build(kernel, columns), bytearray(64)
    assert built[64:] == some.plain_body()
    facts = len(built) - 64, len(some.values), 0, flags_of(columns), 0, VERSION, 0, 0, (1 << 63) + 5, 7, 0, 9
    HEADER.pack_into(head, 0, MAGIC, 0, 0, *facts)
    assert built[:64] == head


@pytest.mark.parametrize("kernel", builds("batch"))
@given(some=records())
@settings(max_examples=100, deadline=None)
def test_a_built_body_passes_the_check(kernel: ModuleType, some: Records) -> None:
    flags = read_header(encode(some.columns())).flags
    layout = layout_of(kernel, some.plain_body(), len(some.values), flags)
    assert isinstance(layout, list)
    assert layout[15] == len(some.plain_body())


@given(some=records(max_count=4), place=st.integers(0), byte=st.integers(0, 255), count=st.integers(-1, 1))
@settings(max_examples=200, deadline=None)
def test_both_builds_say_the_same_of_changed_bodies(some: Records, place: int, byte: int, count: int) -> None:
    pure, compiled = both("batch")
    body, flags = bytearray(some.plain_body()), read_header(encode(some.columns())).flags
    body[place % len(body)] = byte
    claimed = len(some.values) + count
    assert layout_of(pure, bytes(body), claimed, flags) == layout_of(compiled, bytes(body), claimed, flags)


@given(count=st.integers(1, 300), place=st.integers(0), value=st.sampled_from([-(2**31), -1, 0, 1, 7, 2**31 - 1]))
@settings(max_examples=150, deadline=None)
def test_both_builds_find_the_same_fault_in_long_columns(count: int, place: int, value: int) -> None:
    """Long enough for the blocks in which compiled kernels look at columns."""
    pure, compiled = both("batch")
    some = Records([b"v"] * count, topics=[b"t%d" % (i % 3) for i in range(count)], expiry=[5] * count)
    body = bytearray(plain_int32(range(count)) + plain_int32(range(count + 1)) + some.plain_body())
    struct.pack_into("<i", body, place % (len(body) // 4) * 4, value)
    flags = TIMESTAMP_DELTA | OFFSET_DELTA | EXPIRY | TOPIC | VALUE
    assert layout_of(pure, bytes(body), count, flags) == layout_of(compiled, bytes(body), count, flags)


BAD_BODIES = {
    "no bytes": (b"", 1, VALUE),
    "offsets cut": (plain_int32([0, 1]), 2, VALUE),
    "offsets not from 0": (plain_int32([1, 1]) + bytes(8), 1, VALUE),
    "offsets going back": (plain_int32([0, 5, 4, 8]) + bytes(8), 3, VALUE),
    "offsets negative": (plain_int32([0, -4]) + bytes(8), 1, VALUE),
    "bytes cut": (plain_int32([0, 9]) + bytes(8), 1, VALUE),
    "bytes left over": (plain_var([b"a"]) + bytes(8), 1, VALUE),
    "four billion records": (plain_var([b"a"]), 2**32 - 1, VALUE),
    "timestamps going back": (plain_int32([2, 1]) + plain_var([b"a", b"b"]), 2, VALUE | TIMESTAMP_DELTA),
    "negative timestamp": (plain_int32([-1]) + plain_var([b"a"]), 1, VALUE | TIMESTAMP_DELTA),
    "offsets repeated": (plain_int32([1, 1, 2]) + plain_var([b"a", b"b"]), 2, VALUE | OFFSET_DELTA),
    "range not behind the last": (plain_int32([0, 3, 3]) + plain_var([b"a", b"b"]), 2, VALUE | OFFSET_DELTA),
    "empty range": (plain_int32([0]) + plain_var([]), 0, VALUE | OFFSET_DELTA),
    "expiry negative": (struct.pack("<q", -1) + plain_var([b"a"]), 1, VALUE | 4),
    "topic outside": (
        plain_int32([1]) + struct.pack("<ii", 1, 0) + plain_var([b"t"]) + plain_var([b"a"]),
        1,
        VALUE | 8,
    ),
    "topic negative": (
        plain_int32([-1]) + struct.pack("<ii", 1, 0) + plain_var([b"t"]) + plain_var([b""]),
        1,
        VALUE | 8,
    ),
    "dictionary of 2**31 - 1": (plain_int32([0]) + struct.pack("<ii", 2**31 - 1, 0), 1, 8),
    "dictionary negative": (plain_int32([0]) + struct.pack("<ii", -1, 0), 1, 8),
    "dictionary missing": (plain_int32([0]), 1, 8),
}


@pytest.mark.parametrize("kernel", builds("batch"))
@pytest.mark.parametrize("name", BAD_BODIES)
def test_an_ill_formed_body_is_refused(kernel: ModuleType, name: str) -> None:
    body, count, flags = BAD_BODIES[name]
    with pytest.raises(CorruptBatch):
        kernel.lay_out(body, 0, len(body), count, flags, array("q", bytes(128)))


@pytest.mark.parametrize("kernel", builds("batch"))
@pytest.mark.parametrize(("start", "end"), [(-1, 2), (0, 5), (3, 2), (2**31 - 1, 2**31 - 1)])
def test_a_span_outside_the_source_is_refused(kernel: ModuleType, start: int, end: int) -> None:
    columns = Columns(1, b"abcd", Spans(array("i", [start]), array("i", [end])))
    with pytest.raises(InvalidArgument):
        build(kernel, columns)


@pytest.mark.parametrize("kernel", builds("batch"))
def test_columns_shorter_than_the_batch_are_refused(kernel: ModuleType) -> None:
    whole = Columns.of([b"a", b"b"], topics=[b"t", b"t"], expiry=[0, 0])
    one = array("i", [0])
    for short in (
        replace(whole, value=Spans(one, one)),
        replace(whole, key=Spans(one, one)),
        replace(whole, expiry=array("q", [0])),
        replace(whole, topic_index=one),
        replace(whole, topics=None),
        replace(whole, topic_index=array("i", [0, -1])),
    ):
        with pytest.raises(InvalidArgument):
            build(kernel, short)


@pytest.mark.parametrize("kernel", builds("batch"))
def test_a_body_over_the_limit_is_refused_at_its_exact_size(kernel: ModuleType) -> None:
    columns = Columns.of([bytes(100)])
    assert len(build(kernel, columns, limit=112)) == 64 + 112
    with pytest.raises(TooLarge) as refused:
        build(kernel, columns, limit=111)
    assert refused.value.size == 112


def sealed(values: list[bytes], offset: int, compression: Compression = Compression.NONE) -> bytes:
    batch = encode(Columns.of(values), compression)
    seal(batch, offset, 1, 1000 + offset)
    return bytes(batch)


@pytest.mark.parametrize("kernel", builds("batch"))
def test_a_scan_lists_batches_and_ends_at_what_is_none(kernel: ModuleType) -> None:
    first, second = sealed([b"a", b"b"], 7), sealed([bytes(500)], 9, Compression.ZSTD)
    data, rows = first + second + b"PSTBgarbage" * 20, array("q", bytes(400))
    assert kernel.scan(data, 0, len(data), rows) == 2
    assert list(rows[:5]) == [0, 7, 2, 1007, len(first)]
    assert list(rows[5:10]) == [len(first), 9, 1, 1009, len(second)]


@pytest.mark.parametrize("kernel", builds("batch"))
def test_a_scan_ends_when_its_rows_are_full_or_the_last_batch_is_cut(kernel: ModuleType) -> None:
    data = sealed([b"a"], 0) * 3
    assert kernel.scan(data, 0, len(data), array("q", bytes(80))) == 2
    assert kernel.scan(data, 0, len(data) - 1, array("q", bytes(400))) == 2
    assert kernel.scan(data, -8, len(data), array("q", bytes(400))) == 0
    assert kernel.scan(data, 0, len(data) + 999, array("q", bytes(400))) == 3


@given(place=st.integers(0, 63), byte=st.integers(0, 255), start=st.integers(-3, 300))
@settings(max_examples=200, deadline=None)
def test_both_builds_scan_changed_headers_alike(place: int, byte: int, start: int) -> None:
    pure, compiled = both("batch")
    one = bytearray(sealed([b"abc", b"d"], 2**62))
    one[place] = byte
    data = bytes(one) + sealed([b"e"], 5)
    found = [array("q", bytes(120)) for _ in range(2)]
    counts = [kernel.scan(data, start, len(data), out) for kernel, out in zip((pure, compiled), found, strict=True)]
    assert counts[0] == counts[1]
    assert found[0] == found[1]


@pytest.mark.parametrize("kernel", builds("batch"))
@pytest.mark.parametrize(
    "stamp", [(-1, 0, 0, 0), (0, -1, 0, 0), (0, 2**32, 0, 0), (0, 0, -1, 0), (0, 0, 5, 4)], ids=str
)
def test_a_stamp_out_of_range_is_refused(kernel: ModuleType, stamp: tuple[int, int, int, int]) -> None:
    with pytest.raises(InvalidArgument):
        kernel.seal(bytearray(64), *stamp)


@pytest.mark.parametrize("kernel", builds("batch"))
def test_deltas_are_added_to_their_base(kernel: ModuleType) -> None:
    out = array("q", bytes(24))
    kernel.add_deltas(bytes(8) + plain_int32([0, 4, 2**31 - 1]), 8, 2**62, 1, out)
    assert list(out) == [2**62, 2**62 + 4, 2**62 + 2**31 - 1]
    kernel.add_deltas(b"", -1, 10, 1, out)
    assert list(out) == [10, 11, 12]
    with pytest.raises(IndexError):
        kernel.add_deltas(bytes(8), 0, 10, 1, out)
