"""The way to Arrow by the C stream interface, held against the one in Python; and that it holds buffers just as long as
somebody looks at them."""

from __future__ import annotations

import gc
import mmap
import sys
import threading
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.batches import Records, records

import penstock.kernels
from penstock.core.errors import CorruptBatch
from penstock.core.types import Compression
from penstock.log import arrow
from penstock.log.batch import build, read_body, seal
from penstock.log.columns import Columns

if not penstock.kernels.compiled():
    pytest.skip("the kernels are not compiled", allow_module_level=True)

from penstock.kernels._arrow import Exported

EVERY = arrow.picked(None)


def sealed(
    columns: Columns,
    compression: Compression = Compression.NONE,
    times: Sequence[int] | None = None,
    offsets: Sequence[int] | None = None,
) -> bytearray:
    delta = None if times is None else array("i", times)
    batch = build(columns, compression, delta, None if offsets is None else array("i", offsets))
    seal(batch, 50, 1, 1000, 1000 + (times[-1] if times else 0))
    return batch


def natively(data: bytearray, columns: arrow.Picked = EVERY, verify: bool = True) -> pa.RecordBatch:
    return arrow.wrap_natively([data], columns, verify).read_next_batch()


@st.composite
def batches(draw: st.DrawFn) -> bytearray:
    some = draw(records())
    count = len(some.values)
    times = draw(st.none() | st.lists(st.integers(0, 2**31 - 1), min_size=count, max_size=count).map(sorted))
    offsets = draw(st.none() | st.sets(st.integers(0, 99), min_size=count + 1, max_size=count + 1).map(sorted))
    return sealed(some.columns(), draw(st.sampled_from(list(Compression))), times, offsets)


@given(data=batches(), numbers=st.lists(st.integers(0, 7), min_size=1, max_size=9))
@settings(max_examples=150, deadline=None)
def test_both_ways_give_the_same(data: bytearray, numbers: list[int]) -> None:
    picked = arrow.picked([arrow.SCHEMA.names[number] for number in numbers])
    native, plain = natively(data, picked), arrow.wrap_plainly([data], picked, True).read_next_batch()
    native.validate(full=True)
    assert native.schema == plain.schema
    assert native.num_rows == plain.num_rows
    for ours, theirs in zip(native.columns, plain.columns, strict=True):
        assert ours.equals(theirs)


def outcome(data: bytes, natively: bool) -> object:
    wrap = arrow.wrap_natively if natively else arrow.wrap_plainly
    try:
        return [column.to_pylist() for column in wrap([data], EVERY, False).read_next_batch().cast(_INTEGERS).columns]
    except CorruptBatch as fault:
        return fault.reason, fault.position


_INTEGERS = pa.schema(
    [field if field.name != "timestamp" else pa.field("timestamp", pa.int64(), False) for field in arrow.SCHEMA]
)
"""Not every int64 of milliseconds is a datetime."""


@given(data=batches(), place=st.integers(0), byte=st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_both_ways_say_the_same_of_changed_batches(data: bytearray, place: int, byte: int) -> None:
    data[place % len(data)] = byte
    assert outcome(bytes(data), True) == outcome(bytes(data), False)


@given(some=records(), place=st.integers(0))
@settings(max_examples=50, deadline=None)
def test_a_changed_byte_is_found_by_the_checksum(some: Records, place: int) -> None:
    data = sealed(some.columns())
    data[place % len(data)] ^= 1
    with pytest.raises(CorruptBatch):
        natively(data)


@pytest.mark.parametrize("count", [8191, 8192, 8193, 20_000])
def test_absent_columns_of_large_batches_are_empty(count: int) -> None:
    found = natively(sealed(Columns.of([b""] * count)))
    found.validate(full=True)
    assert found["key"].to_pylist() == found["topic"].to_pylist() == [b""] * count
    assert found["expiry"].to_pylist() == [0] * count


def test_a_batch_without_records_is_empty() -> None:
    found = natively(sealed(Columns.of([]), offsets=[3]))
    found.validate(full=True)
    assert found.num_rows == 0


def full() -> bytearray:
    return sealed(Columns.of([b"value" * 9] * 40, keys=[b"k"] * 40, topics=[b"t"] * 40, expiry=[5] * 40))


def held(data: bytearray) -> bool:
    """Whether somebody still has a view of it."""
    try:
        data.append(0)
    except BufferError:
        return True
    data.pop()
    return False


def test_the_buffer_is_held_while_any_array_of_it_lives() -> None:
    data = full()
    found: Any = natively(data)
    topic = found["topic"]
    del found
    dictionary = topic.dictionary
    del topic
    assert held(data)
    assert dictionary.to_pylist() == [b"t"]
    del dictionary
    assert not held(data)


@pytest.mark.parametrize("compression", list(Compression))
def test_nothing_is_held_by_what_was_never_imported(compression: Compression) -> None:
    data = sealed(Columns.of([bytes(1000)] * 9), compression)
    exported = Exported([data, data], EVERY.numbers, EVERY.schema, True, read_body)
    assert held(data) == (compression is Compression.NONE)
    capsule = exported.__arrow_c_stream__()
    del exported
    assert held(data) == (compression is Compression.NONE)
    del capsule
    assert not held(data)


def test_what_was_not_read_of_a_stream_is_let_go() -> None:
    first, second = full(), full()
    reader = arrow.wrap_natively([first, second], EVERY, True)
    assert reader.read_next_batch().num_rows == 40
    assert not held(first)
    assert held(second)
    del reader
    assert not held(second)


def test_a_stream_ends_and_gives_each_batch_once() -> None:
    exported = Exported([full(), full()], EVERY.numbers, EVERY.schema, True, read_body)
    assert pa.RecordBatchReader.from_stream(exported).read_all().num_rows == 80
    assert pa.RecordBatchReader.from_stream(exported).read_all().num_rows == 0


def test_a_failed_import_lets_go_once() -> None:
    data = full()
    for schema in (pa.schema([]), pa.schema([pa.field("offset", pa.list_(pa.int8()))] * 8)):
        exported = Exported([data, data], EVERY.numbers, schema, True, read_body)
        with pytest.raises(pa.ArrowInvalid):
            pa.RecordBatchReader.from_stream(exported).read_all()
        del exported
        assert not held(data)


def test_what_is_no_schema_is_refused() -> None:
    exported = Exported([], EVERY.numbers, None, True, read_body)
    with pytest.raises(OSError, match="schema"):
        pa.RecordBatchReader.from_stream(exported)


def test_a_damaged_batch_among_others_lets_go_of_all() -> None:
    good, bad = full(), full()
    bad[71] ^= 0x80
    with pytest.raises(CorruptBatch):
        arrow.wrap_natively([good, bad], EVERY, True)
    gc.collect()
    assert not held(good)


def test_nothing_is_held_after_a_refusal() -> None:
    data = full()
    data[71] ^= 0x80  # makes the first expiry negative
    references = sys.getrefcount(data)
    for verify in (True, False):
        with pytest.raises(CorruptBatch):
            natively(data, verify=verify)
        gc.collect()
        assert not held(data)
    assert sys.getrefcount(data) == references


def test_the_last_array_may_be_let_go_in_any_thread() -> None:
    data = full()
    kept = [natively(data, verify=False) for _ in range(200)]

    def let_go() -> None:
        while kept:
            try:
                found = kept.pop()
            except IndexError:
                return
            assert found.num_rows == 40

    threads = [threading.Thread(target=let_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not held(data)


def test_memory_does_not_grow_with_the_batches_read() -> None:
    data, refused = full(), full()
    refused[71] ^= 0x80

    def read(times: int) -> None:
        for _ in range(times):
            natively(data, verify=False)
            with pytest.raises(CorruptBatch):
                natively(refused, verify=False)

    read(500)
    before = resident_bytes()
    read(5000)
    # An export of this batch has 2 KiB at the least: had each been lost, this were 20 MiB.
    assert resident_bytes() - before < 4 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
