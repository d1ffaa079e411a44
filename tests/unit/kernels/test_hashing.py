from __future__ import annotations

from array import array
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import both, builds

from penstock.core.errors import InvalidArgument

VECTORS = {
    b"": 0x00000000,
    b"\0": 0x514E28B7,
    b"\0\0\0\0": 0x2362F9DE,
    b"!Ce\x87": 0xF55B516B,
    b"test": 0xBA6BD213,
    b"Hello, world!": 0xC0363E43,
    b"The quick brown fox jumps over the lazy dog": 0x2E4FF723,
}


def naive_murmur3(key: bytes) -> int:
    """murmur3 x86 32-bit as its author describes it."""

    def rotl(x: int, r: int) -> int:
        return ((x << r) | (x >> (32 - r))) % 2**32

    h = 0
    whole = len(key) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * 0xCC9E2D51 % 2**32
        h = (rotl(h ^ rotl(k, 15) * 0x1B873593 % 2**32, 13) * 5 + 0xE6546B64) % 2**32
    if len(key) > whole:
        k = int.from_bytes(key[whole:], "little") * 0xCC9E2D51 % 2**32
        h ^= rotl(k, 15) * 0x1B873593 % 2**32
    h ^= len(key)
    h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
    h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
    return h ^ h >> 16


@pytest.mark.parametrize("hashing", builds("hashing"))
@pytest.mark.parametrize(("key", "expected"), VECTORS.items())
def test_published_vectors_come_out(hashing: ModuleType, key: bytes, expected: int) -> None:
    assert hashing.murmur3(key, 0, len(key)) == expected
    assert naive_murmur3(key) == expected


@pytest.mark.parametrize("hashing", builds("hashing"))
@given(keys=st.lists(st.binary(max_size=40), max_size=20), count=st.integers(1, 2**31 - 1))
@settings(max_examples=100, deadline=None)
def test_partitions_are_hashes_modulo_their_number(hashing: ModuleType, keys: list[bytes], count: int) -> None:
    source = b"".join(keys)
    ends = array("i", [sum(map(len, keys[: i + 1])) for i in range(len(keys))])
    starts = array("i", [end - len(key) for key, end in zip(keys, ends, strict=True)])
    out = array("i", bytes(4 * len(keys)))
    hashing.partitions(source, starts, ends, count, out)
    assert list(out) == [naive_murmur3(key) % count for key in keys]


@pytest.mark.parametrize("hashing", builds("hashing"))
@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 5), (3, 2)])
def test_a_key_outside_the_source_is_refused(hashing: ModuleType, start: int, stop: int) -> None:
    with pytest.raises(InvalidArgument):
        hashing.murmur3(b"abcd", start, stop)


@pytest.mark.parametrize("hashing", builds("hashing"))
@pytest.mark.parametrize("count", [0, -3])
def test_no_partitions_are_refused(hashing: ModuleType, count: int) -> None:
    with pytest.raises(InvalidArgument):
        hashing.partitions(b"a", array("i", [0]), array("i", [1]), count, array("i", [0]))


@pytest.mark.parametrize("hashing", builds("hashing"))
@given(numbers=st.lists(st.integers(0, 6), max_size=60))
@settings(max_examples=100, deadline=None)
def test_scatter_groups_rows_and_keeps_their_order(hashing: ModuleType, numbers: list[int]) -> None:
    counts, order = array("i", bytes(4 * 7)), array("i", bytes(4 * len(numbers)))
    hashing.scatter(array("i", numbers), counts, order)
    assert list(counts) == [numbers.count(partition) for partition in range(7)]
    assert list(order) == sorted(range(len(numbers)), key=lambda row: numbers[row])


@pytest.mark.parametrize("hashing", builds("hashing"))
@pytest.mark.parametrize("number", [-1, 7])
def test_scatter_refuses_a_partition_that_is_not_there(hashing: ModuleType, number: int) -> None:
    with pytest.raises(IndexError):
        hashing.scatter(array("i", [number]), array("i", bytes(28)), array("i", [0]))


def hashes(hashing: ModuleType, keys: list[bytes]) -> list[int]:
    offsets = array("i", [sum(map(len, keys[:i])) for i in range(len(keys) + 1)])
    out = array("Q", bytes(8 * len(keys)))
    hashing.hash_column(b"".join(keys), offsets, len(keys), out)
    return list(out)


@given(keys=st.lists(st.binary(max_size=40), max_size=20))
@settings(max_examples=100, deadline=None)
def test_hashes_of_keys_are_the_same_in_both_builds(keys: list[bytes]) -> None:
    pure, compiled = both("hashing")
    assert hashes(pure, keys) == hashes(compiled, keys)


@pytest.mark.parametrize("hashing", builds("hashing"))
def test_the_hash_of_a_key_depends_on_all_of_it_and_on_nothing_else(hashing: ModuleType) -> None:
    keys = [bytes(length) for length in range(1, 40)] + [bytes([1 << bit]) + bytes(12) for bit in range(8)]
    keys += [b"%d" % number for number in range(2000)] + [bytes(8) + b"%d" % number for number in range(2000)]
    found = hashes(hashing, keys)
    assert len(set(found)) == len(keys)
    assert len({number & 0xFFFF for number in found}) > len(keys) * 0.9
    assert hashes(hashing, [b"", *keys[::-1], b""]) == [0, *found[::-1], 0]
    assert 0 not in found


@pytest.mark.parametrize("hashing", builds("hashing"))
@pytest.mark.parametrize("offsets", [[0, 5], [-1, 2], [3, 2]])
def test_a_key_column_outside_its_bytes_is_refused(hashing: ModuleType, offsets: list[int]) -> None:
    with pytest.raises(InvalidArgument):
        hashing.hash_column(b"abcd", array("i", offsets), 1, array("Q", [0]))
