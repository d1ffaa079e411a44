from __future__ import annotations

from array import array
from itertools import accumulate
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

ENTRIES = st.lists(st.binary(max_size=9), max_size=20)


@pytest.mark.parametrize("cells", builds("cells"))
@given(entries=ENTRIES, first=st.integers(0, 100), data=st.data())
@settings(max_examples=50, deadline=None)
def test_what_was_joined_is_cut_apart_again(
    cells: ModuleType, entries: list[bytes], first: int, data: st.DataObject
) -> None:
    out = array("i", bytes(4 * len(entries) + 4))
    end = cells.ends(entries, first, out)
    assert list(out) == list(accumulate(map(len, entries), initial=first))
    assert end == out[-1]
    rows = data.draw(st.lists(st.integers(0, len(entries) - 1), max_size=9)) if entries else []
    joined = memoryview(b"x" * first + b"".join(entries))
    assert cells.cut(joined, memoryview(out), array("i", rows)) == [entries[row] for row in rows]


@pytest.mark.parametrize("cells", builds("cells"))
def test_pieces_are_those_of_their_spans(cells: ModuleType) -> None:
    starts, ends = array("i", [2, 0, 3]), array("i", [4, 0, 5])
    assert cells.pieces(b"abcde", starts, ends) == [b"cd", b"", b"de"]
    with pytest.raises(IndexError):
        cells.pieces(b"abcd", starts, ends)
    with pytest.raises(IndexError):
        cells.pieces(b"abcde", starts, ends[:2])


@pytest.mark.parametrize("cells", builds("cells"))
@pytest.mark.parametrize(
    ("offsets", "row"), [([0, 2], -1), ([0, 2], 1), ([0, 3], 0), ([-1, 2], 0), ([2, 1], 0), ([0, 2], 2**31 - 1)]
)
def test_nothing_is_cut_outside_the_buffer(cells: ModuleType, offsets: list[int], row: int) -> None:
    with pytest.raises(IndexError):
        cells.cut(memoryview(b"ab"), memoryview(array("i", offsets)), array("i", [row]))


@pytest.mark.parametrize("cells", builds("cells"))
@pytest.mark.parametrize("other", ["a", bytearray(b"a"), None, 1])
def test_only_bytes_are_bytes(cells: ModuleType, other: object) -> None:
    assert cells.are_bytes([b"", b"a"])
    assert not cells.are_bytes([b"", other])
    with pytest.raises(TypeError):
        cells.ends([b"", other], 0, array("i", bytes(12)))


@pytest.mark.parametrize("cells", builds("cells"))
def test_a_column_that_int32_cannot_say_is_refused(cells: ModuleType) -> None:
    with pytest.raises(OverflowError):
        cells.ends([b"ab"], 2**31 - 2, array("i", bytes(8)))
    with pytest.raises(IndexError):
        cells.ends([b"ab", b"c"], 0, array("i", bytes(8)))
