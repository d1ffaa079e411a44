from __future__ import annotations

from array import array
from itertools import pairwise
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("rows", builds("rows"))
@given(data=st.data(), values=st.lists(INT32, min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_taken_rows_are_those_asked_for(rows: ModuleType, data: st.DataObject, values: list[int]) -> None:
    picked = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20))
    narrow, wide = array("i", bytes(4 * len(picked))), array("q", bytes(8 * len(picked)))
    rows.take_int32(array("i", values), array("i", picked), narrow)
    rows.take_int64(array("q", values), array("i", picked), wide)
    assert list(narrow) == list(wide) == [values[row] for row in picked]


@pytest.mark.parametrize("rows", builds("rows"))
@pytest.mark.parametrize("row", [-1, 3])
def test_a_row_outside_the_column_is_refused(rows: ModuleType, row: int) -> None:
    with pytest.raises(IndexError):
        rows.take_int32(array("i", [1, 2, 3]), array("i", [row]), array("i", [0]))
    with pytest.raises(IndexError):
        rows.take_int64(array("q", [1, 2, 3]), array("i", [row]), array("q", [0]))


@pytest.mark.parametrize("rows", builds("rows"))
@given(index=st.lists(st.integers(0, 9), max_size=30))
@settings(max_examples=50, deadline=None)
def test_renumbering_keeps_what_is_named_and_drops_the_rest(rows: ModuleType, index: list[int]) -> None:
    numbers, used = array("i", index), array("i", bytes(40))
    count = rows.renumber(numbers, array("i", [-1] * 10), used)
    assert [used[number] for number in numbers] == index
    assert list(used[:count]) == list(dict.fromkeys(index))


@pytest.mark.parametrize("rows", builds("rows"))
@pytest.mark.parametrize("number", [-1, 10])
def test_renumbering_refuses_what_has_no_word(rows: ModuleType, number: int) -> None:
    with pytest.raises(IndexError):
        rows.renumber(array("i", [number]), array("i", [-1] * 10), array("i", bytes(40)))


@pytest.mark.parametrize("rows", builds("rows"))
@given(values=st.lists(st.integers(-2, 12), max_size=6))
@settings(max_examples=100, deadline=None)
def test_rising_means_sorted_without_repeats_and_in_range(rows: ModuleType, values: list[int]) -> None:
    expected = values == sorted(set(values)) and all(0 <= value < 10 for value in values)
    assert rows.rise(array("i", values), 10) == expected


@pytest.mark.parametrize("rows", builds("rows"))
@given(deltas=st.lists(INT32, max_size=10), base=st.integers(-(2**62), 2**62))
@settings(max_examples=50, deadline=None)
def test_subtraction_gives_distances_from_the_base(rows: ModuleType, deltas: list[int], base: int) -> None:
    out = array("i", bytes(4 * len(deltas)))
    rows.subtract(array("q", [base + delta for delta in deltas]), base, out)
    assert list(out) == deltas


@pytest.mark.parametrize("rows", builds("rows"))
def test_a_distance_beyond_int32_is_refused(rows: ModuleType) -> None:
    with pytest.raises(OverflowError):
        rows.subtract(array("q", [2**31]), 0, array("i", [0]))


@pytest.mark.parametrize("rows", builds("rows"))
@given(values=st.lists(st.integers(0, 60), max_size=40))
@settings(max_examples=80, deadline=None)
def test_runs_are_the_ranges_of_rising_values(rows: ModuleType, values: list[int]) -> None:
    rising = sorted(set(values))
    out = array("q", bytes(16 * len(rising)))
    count = rows.runs(array("q", rising), out)
    assert [offset for i in range(count) for offset in range(out[2 * i], out[2 * i + 1])] == rising
    assert all(out[2 * i + 1] < out[2 * i + 2] for i in range(count - 1))
    assert rows.rises(array("q", values)) == all(a < b for a, b in pairwise(values))
    if any(a >= b for a, b in pairwise(values)):
        assert rows.runs(array("q", values), array("q", bytes(16 * len(values)))) == -1


@pytest.mark.parametrize("rows", builds("rows"))
def test_rows_are_marked_by_number_and_by_time(rows: ModuleType) -> None:
    out = bytearray(b"\x00\x01\x00\x00")
    assert rows.mark_by_number(memoryview(array("i", [0, 0, 1, 2])), bytearray(b"\x00\x01\x00"), out) == 2
    assert out == b"\x00\x01\x01\x00"
    with pytest.raises(IndexError):
        rows.mark_by_number(memoryview(array("i", [-1])), bytearray(1), bytearray(1))
    marks = bytearray(4)
    assert rows.mark_past(memoryview(array("q", [0, 5, 6, 7])), 6, marks) == 2
    assert marks == b"\x00\x01\x01\x00"


@pytest.mark.parametrize("rows", builds("rows"))
def test_spans_are_measured(rows: ModuleType) -> None:
    starts, ends, out = array("i", [0, 3, 3]), array("i", [3, 3, 9]), array("i", [7, 7, 7])
    assert rows.longest(starts, ends) == 6
    assert rows.longest(array("i"), array("i")) == 0
    assert rows.set_where_empty(starts, ends, 2, out) == 1
    assert list(out) == [7, 2, 7]
