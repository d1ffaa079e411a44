from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.batches import Records, records

from penstock.core.errors import CorruptBatch, InvalidArgument
from penstock.core.ports import Buffer
from penstock.core.types import Compression
from penstock.log.batch import (
    OFFSET_DELTA,
    TIMESTAMP_DELTA,
    Batch,
    below_offset,
    build,
    check,
    from_offset,
    next_offset,
    read_header,
    seal,
    select_rows,
)
from penstock.log.columns import Columns

BASE, TIMESTAMP = 1000, 1_700_000_000_000


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Sealed batches of every shape: compressed or not, thinned or not, with one timestamp or several."""
    some: Records = draw(records(max_count=8))
    count = len(some.values)
    deltas = draw(st.none() | st.lists(st.integers(0, 50), min_size=count, max_size=count).map(sorted))
    gaps = draw(st.none() | st.sets(st.integers(0, 30), min_size=count + 1, max_size=count + 1).map(sorted))
    batch = build(
        some.columns(),
        draw(st.sampled_from(list(Compression))),
        None if deltas is None else array("i", deltas),
        None if gaps is None else array("i", gaps),
    )
    seal(batch, BASE, 5, TIMESTAMP, TIMESTAMP + (deltas[-1] if deltas else 0))
    return bytes(batch)


@given(data=batches(), draw=st.data())
@settings(max_examples=150, deadline=None)
def test_a_batch_is_cut_at_any_offset_of_its_range(data: bytes, draw: st.DataObject) -> None:
    rows, end = list(Batch.parse(data)), next_offset(data)
    offset = draw.draw(st.integers(BASE, end))
    if offset > BASE:
        below = below_offset(data, offset)
        check(below)
        assert list(Batch.parse(below)) == [row for row in rows if row.offset < offset]
        assert (read_header(below).base_offset, next_offset(below)) == (BASE, offset)
    if offset < end:
        above = from_offset(data, offset)
        check(above)
        assert list(Batch.parse(above)) == [row for row in rows if row.offset >= offset]
        assert (read_header(above).base_offset, next_offset(above)) == (offset, end)


@given(data=batches(), draw=st.data())
@settings(max_examples=100, deadline=None)
def test_selected_rows_keep_offsets_range_epoch_and_times(data: bytes, draw: st.DataObject) -> None:
    rows = list(Batch.parse(data))
    picked = sorted(draw.draw(st.sets(st.integers(0, len(rows) - 1))))
    thinned = select_rows(data, array("i", picked))
    header = check(thinned)
    assert list(Batch.parse(thinned)) == [rows[row] for row in picked]
    assert (header.base_offset, header.epoch, next_offset(thinned)) == (BASE, 5, next_offset(data))
    assert header.base_timestamp == TIMESTAMP


def sealed(columns: Columns) -> bytearray:
    batch = build(columns)
    seal(batch, BASE, 5, TIMESTAMP)
    return batch


def test_all_of_a_batch_is_the_batch_itself() -> None:
    data = sealed(Columns.of([b"a", b"b"]))
    assert from_offset(data, BASE) is data
    assert from_offset(data, 0) is data
    assert below_offset(data, BASE + 2) is data
    assert select_rows(data, array("i", [0, 1])) == data


def test_columns_that_are_not_needed_are_not_written() -> None:
    data = sealed(Columns.of([b"a", b"b", b"c"]))
    assert not read_header(from_offset(data, BASE + 1)).flags & (OFFSET_DELTA | TIMESTAMP_DELTA)
    assert read_header(select_rows(data, array("i", [0, 2]))).flags & OFFSET_DELTA


def test_topics_that_no_row_uses_are_dropped() -> None:
    batch = Batch.parse(below_offset(sealed(Columns.of([b"a", b"b"], topics=[b"t/1", b"t/2" * 50])), BASE + 1))
    assert batch.topic(0) == b"t/1"
    assert len(batch.body) < 150


def test_sequences_follow_offsets() -> None:
    columns = replace(Columns.of([b"a", b"b", b"c"]), producer_id=9, base_sequence=2**32 - 1)
    data = sealed(columns)
    assert read_header(from_offset(data, BASE + 2)).base_sequence == 1
    assert read_header(select_rows(data, array("i", [2]))).base_sequence == 2**32 - 1


@pytest.mark.parametrize("picked", [[0, 0], [1, 0], [-1], [3]])
def test_rows_that_do_not_rise_or_are_not_there_are_refused(picked: list[int]) -> None:
    with pytest.raises(InvalidArgument):
        select_rows(sealed(Columns.of([b"a", b"b", b"c"])), array("i", picked))


def test_a_cut_that_leaves_nothing_is_refused() -> None:
    data = sealed(Columns.of([b"a"]))
    with pytest.raises(InvalidArgument):
        from_offset(data, BASE + 1)
    with pytest.raises(InvalidArgument):
        below_offset(data, BASE)


@pytest.mark.parametrize(
    "rewrite",
    [
        pytest.param(lambda data: from_offset(data, BASE + 1), id="above"),
        pytest.param(lambda data: below_offset(data, BASE + 1), id="below"),
        pytest.param(lambda data: select_rows(data, array("i", [0])), id="select"),
    ],
)
def test_damage_does_not_get_a_fresh_checksum(rewrite: Callable[[Buffer], Buffer]) -> None:
    data = sealed(Columns.of([b"a", b"b"]))
    data[-8] ^= 1
    with pytest.raises(CorruptBatch):
        rewrite(data)
