from __future__ import annotations

from array import array
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

import penstock.kernels
from penstock.core.ports import Buffer
from penstock.kernels.crc import crc32c, crc32c_table, first_bad, first_bad_table

# 12672 bytes are one round of three long streams, 768 one of three short ones; from 1024 on, 256 are folded at a time.
LENGTHS = [0, 1, 7, 8, 9, 767, 768, 769, 1023, 1024, 1025, 1279, 1280, 1281, 1543, 12671, 12672, 12673, 13060, 37000]


@pytest.mark.parametrize("crc", builds("crc"))
def test_the_check_value_of_crc32c_comes_out(crc: ModuleType) -> None:
    assert crc.crc32c(b"123456789") == 0xE3069283
    assert crc.crc32c(b"") == 0
    assert crc.crc32c(bytes(32)) == 0x8A9136AA


@pytest.mark.parametrize("length", LENGTHS)
def test_every_length_gives_the_sum_of_the_table(length: int) -> None:
    data = bytes((i * 131 + i // 251) & 255 for i in range(length))
    assert crc32c(data) == crc32c_table(data)
    assert crc32c(data, 0x12345678) == crc32c_table(data, 0x12345678)


@pytest.mark.skipif(not penstock.kernels.compiled(), reason="the kernels are not compiled")
@pytest.mark.parametrize("length", LENGTHS)
def test_every_kind_of_processor_gives_the_same_sum(length: int) -> None:
    from penstock.kernels._native import crc32c_ways

    data = bytes((i * 37 + 5) & 255 for i in range(length))
    assert {way(data, 7) for way in crc32c_ways()} == {crc32c_table(data, 7)}


@pytest.mark.parametrize("crc", builds("crc"))
@given(data=st.binary(max_size=3000), cut=st.integers(0, 3000))
@settings(max_examples=60, deadline=None)
def test_a_sum_can_be_continued_and_taken_of_a_part(crc: ModuleType, data: bytes, cut: int) -> None:
    cut = min(cut, len(data))
    whole = crc.crc32c(data)
    assert crc.crc32c(data[cut:], crc.crc32c(data[:cut])) == whole
    assert crc.crc32c(data, crc.crc32c(data, 0, 0, cut), cut) == whole


@pytest.mark.parametrize("crc", builds("crc"))
@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_buffer_is_taken(crc: ModuleType, wrap: type[Buffer]) -> None:
    assert crc.crc32c(wrap(b"123456789")) == 0xE3069283


@pytest.mark.parametrize("crc", builds("crc"))
@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (0, 10), (4, 3), (10, -1)])
def test_a_part_outside_the_buffer_is_refused(crc: ModuleType, start: int, stop: int) -> None:
    with pytest.raises(IndexError):
        crc.crc32c(b"123456789", 0, start, stop)


@pytest.mark.skipif(not penstock.kernels.compiled(), reason="takes long uncompiled")
def test_large_inputs_that_release_the_lock_give_the_same_sum() -> None:
    data = bytes(range(256)) * 2048
    assert crc32c(data) == crc32c(data[300_000:], crc32c(data[:300_000]))


@pytest.mark.parametrize("find", [first_bad, first_bad_table])
def test_the_first_batch_with_a_wrong_checksum_is_found(find: Callable[[bytearray, array[int], int], int]) -> None:
    data, rows = bytearray(), array("q")
    for size in (8, 100, 64):
        body = bytes(range(size))
        rows.extend((len(data), 0, 0, 0, 8 + size))
        data += b"PSTB" + crc32c(body).to_bytes(4, "little") + body
    assert find(data, rows, 3) == 3
    for number in (2, 1, 0):
        data[rows[5 * number] + 8] ^= 1
        assert find(data, rows, 3) == number
    assert find(data, rows, 0) == 0


@pytest.mark.parametrize("find", [first_bad, first_bad_table])
@pytest.mark.parametrize(
    "row", [(-1, 0, 0, 0, 16), (0, 0, 0, 0, 7), (8, 0, 0, 0, 16), (0, 0, 0, 0, -8), (1 << 62, 0, 0, 0, 8)]
)
def test_a_row_that_leaves_the_buffer_is_refused(
    find: Callable[[bytearray, array[int], int], int], row: tuple[int, ...]
) -> None:
    with pytest.raises(IndexError):
        find(bytearray(16), array("q", row), 1)
    with pytest.raises(IndexError):
        find(bytearray(16), array("q"), 1)
