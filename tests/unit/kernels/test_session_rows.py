from __future__ import annotations

from array import array
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

from penstock.core.errors import CorruptBatch
from penstock.log.batch import Batch, encode, seal
from penstock.log.columns import Columns, Spans

Pair = tuple[int, int, int]
"""session, row, flags"""
PAIRS = st.dictionaries(st.tuples(st.integers(1, 2**31 - 1), st.integers(0, 5)), st.integers(0, 63), max_size=12)
ROWS = 6


def lists(kernel: ModuleType, pairs: list[Pair], ids: array[int] | None = None) -> tuple[list[int], list[bytes]]:
    """The rows that occur, and their keys."""
    sessions, rows = array("i", [pair[0] for pair in pairs]), array("i", [pair[1] for pair in pairs])
    flags = bytes(pair[2] for pair in pairs)
    firsts, order = array("i", bytes(4 * ROWS + 4)), array("i", bytes(4 * len(pairs)))
    count = kernel.count_rows(rows, firsts)
    kernel.order_by_row(rows, firsts, order)
    out = bytearray(5 * len(pairs) + 9 * count)
    picked, starts, ends = (array("i", bytes(4 * count)) for _ in range(3))
    kernel.write_lists(sessions, flags, firsts, order, ids, out, picked, starts, ends, 100)
    return list(picked), [bytes(out[max(a - 100, 0) : max(b - 100, 0)]) for a, b in zip(starts, ends, strict=True)]


def stored(keys: list[bytes], values: list[bytes]) -> Batch:
    data = encode(Columns.of(values, keys=keys, topics=[b"t/%d" % (len(value) % 2) for value in values]))
    seal(data, 1000, 0, 1)
    return Batch.parse(data)


def read(kernel: ModuleType, batch: Batch) -> list[tuple[int, int, int, int]]:
    """Session, id, offset and size << 8 | flags of every pair, by session."""
    count = kernel.count_targets(batch.body, batch.layout, len(batch))
    sessions, entries = array("i", bytes(4 * count)), array("q", bytes(24 * count))
    assert kernel.read_targets(batch.body, batch.layout, len(batch), batch.offsets(), sessions, entries) == count
    order, spare = array("i", bytes(4 * count)), array("i", bytes(4 * count))
    kernel.sort_by_session(sessions, order, spare)
    out, groups = array("q", bytes(24 * count)), array("q", bytes(24 * count))
    found = kernel.gather(sessions, entries, order, out, groups)
    firsts = [groups[3 * i + 1] for i in range(found)] + [count]
    result = []
    for i in range(found):
        mine = range(firsts[i], firsts[i + 1])
        assert groups[3 * i + 2] == sum(out[3 * at + 2] >> 8 for at in mine)
        result += [(groups[3 * i], out[3 * at], out[3 * at + 1], out[3 * at + 2]) for at in mine]
    return result


@pytest.mark.parametrize("kernel", builds("session_rows"))
@given(pairs=PAIRS, copied=st.booleans())
@settings(max_examples=100, deadline=None)
def test_who_gets_which_message_survives_a_batch(
    kernel: ModuleType, pairs: dict[tuple[int, int], int], copied: bool
) -> None:
    wanted = [(session, row, flags) for (session, row), flags in pairs.items()]
    ids = array("q", [7 * row for row in range(ROWS)]) if copied else None
    picked, keys = lists(kernel, wanted, ids)
    assert picked == sorted({row for _, row, _ in wanted})
    if not picked:
        return
    values = [b"v" * row for row in picked]
    found = read(kernel, stored(keys, values))
    offset_of = {row: 1000 + number for number, row in enumerate(picked)}
    assert found == sorted(
        (session, ids[row] if ids else offset_of[row], offset_of[row], (row + 3) << 8 | flags)
        for session, row, flags in wanted
    )


@pytest.mark.parametrize("kernel", builds("session_rows"))
def test_a_list_like_the_one_before_is_not_written_again(kernel: ModuleType) -> None:
    pairs = [(5, 0, 1), (6, 0, 2), (5, 1, 1), (6, 1, 2), (5, 3, 1), (6, 3, 1)]
    picked, keys = lists(kernel, pairs)
    assert picked == [0, 1, 3]
    assert [len(key) for key in keys] == [11, 0, 11]
    assert len(read(kernel, stored(keys, [b"1", b"2", b"3"]))) == 6


@pytest.mark.parametrize("kernel", builds("session_rows"))
@pytest.mark.parametrize("row", [-1, ROWS])
def test_a_row_outside_the_columns_is_refused(kernel: ModuleType, row: int) -> None:
    with pytest.raises(IndexError):
        kernel.count_rows(array("i", [row]), array("i", bytes(4 * ROWS + 4)))


@pytest.mark.parametrize("kernel", builds("session_rows"))
@pytest.mark.parametrize("key", [b"\x02", b"\x00abc", b"\x01abc", b"\x01" + bytes(12)])
def test_a_key_that_is_no_list_is_corrupt(kernel: ModuleType, key: bytes) -> None:
    batch = stored([key], [b"v"])
    with pytest.raises(CorruptBatch):
        kernel.count_targets(batch.body, batch.layout, 1)


@pytest.mark.parametrize("kernel", builds("session_rows"))
def test_a_batch_without_keys_is_for_nobody(kernel: ModuleType) -> None:
    data = encode(Columns.of([b"v"]))
    seal(data, 0, 0, 1)
    assert read(kernel, Batch.parse(data)) == []


@pytest.mark.parametrize("kernel", builds("session_rows"))
def test_rows_are_measured_and_as_many_taken_as_fit(kernel: ModuleType) -> None:
    columns = Columns.of([b"1", b"22", b"333"], topics=[b"t", b"tt", b"t"], properties=[b"", b"p", b"pp"])
    assert columns.topics is not None and columns.properties is not None
    sizes = array("i", bytes(12))

    def bounds(spans: Spans) -> tuple[array[int], array[int]]:
        return spans.starts, spans.ends

    spans = (*bounds(columns.topics), *bounds(columns.properties), *bounds(columns.value))
    kernel.row_bytes(columns.topic_index, *spans, sizes)
    assert list(sizes) == [2, 5, 6]
    kernel.row_bytes(None, None, None, None, None, *bounds(columns.value), sizes)
    assert list(sizes) == [1, 2, 3]
    rows = array("i", [0, 2, 1])
    assert kernel.sum_rows(sizes, rows) == 6
    assert [kernel.room_for(sizes, rows, 3, size) for size in (0, 1, 3, 4, 6)] == [0, 1, 1, 2, 3]
    assert kernel.room_for(sizes, rows, 2, 100) == 2
