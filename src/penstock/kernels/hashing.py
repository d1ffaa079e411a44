"""Which partition a key belongs to: murmur3 x86 32-bit, seed 0, unsigned, modulo the number of partitions. And 64-bit
hashes that stand for keys in memory; they are written nowhere.

Keys are shorter than 2**31 bytes, partitions number 1 to 2**31 - 1."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import memory

Ints: TypeAlias = "array[int] | memoryview[int]"

# Constants of murmur3. Named, because Cython takes a literal above 2**31 for a Python object.
_LOW_32 = 0xFFFFFFFF
_ROUND = 0xE6546B64
_FIRST, _SECOND = 0xCC9E2D51, 0x1B873593
_THIRD, _FOURTH = 0x85EBCA6B, 0xC2B2AE35
# The odd multipliers of murmur3's 64-bit finish, and the golden ratio.
_LOW_64 = 0xFFFFFFFFFFFFFFFF
_WIDE_FIRST, _WIDE_SECOND, _GOLDEN = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 0x9E3779B97F4A7C15


def murmur3(source: Buffer, start: int, stop: int) -> int:
    """Hash of source[start:stop], 0 to 2**32 - 1."""
    if start < 0 or stop < start or stop > len(source):
        raise InvalidArgument("a span leaves its source")
    state = 0
    at = start
    while stop - at >= 4:
        state = _stir(state, memory.load_u32(source, at))
        state = ((state << 13 | state >> 19) * 5 + _ROUND) & _LOW_32
        at += 4
    word = 0
    for i in range(stop - at):
        word |= source[at + i] << (8 * i)
    if word:
        state = _stir(state, word)
    return _finish(state ^ (stop - start))


def partitions(source: Buffer, starts: Ints, ends: Ints, count: int, out: Ints) -> int:
    """out[i] = partition of key i, of `count` partitions."""
    if count < 1:
        raise InvalidArgument("a queue has at least one partition")
    for i in range(len(out)):
        out[i] = murmur3(source, starts[i], ends[i]) % count
    return 0


def scatter(numbers: Ints, counts: array[int], order: array[int]) -> int:
    """Group rows by partition: `counts` (one word a partition, zeros on entry) gets the rows of each, `order` the row
    numbers, partition after partition, each in its old order."""
    for i in range(len(numbers)):
        if numbers[i] < 0:
            raise IndexError("a partition number is negative")
        counts[numbers[i]] += 1
    nexts = array("i", bytes(4 * len(counts)))
    fill = nexts
    total = 0
    for i in range(len(counts)):
        fill[i] = total
        total += counts[i]
    for i in range(len(numbers)):
        order[fill[numbers[i]]] = i
        fill[numbers[i]] += 1
    return 0


def hash_column(data: Buffer, offsets: Ints, count: int, out: array[int]) -> int:
    """out[i] = 64-bit hash of data[offsets[i]:offsets[i + 1]], 0 only where that is empty."""
    for i in range(count):
        out[i] = wide_hash(data, offsets[i], offsets[i + 1])
    return 0


def wide_hash(data: Buffer, start: int, stop: int) -> int:
    """64-bit hash of data[start:stop], 0 only where that is empty."""
    if start < 0 or stop < start or stop > len(data):
        raise InvalidArgument("a span leaves its source")
    if start == stop:
        return 0
    state = ((stop - start) * _GOLDEN) & _LOW_64
    at = start
    while stop - at >= 8:
        state = _wide_stir(state, memory.load_i64(data, at) & _LOW_64)
        at += 8
    word = 0
    for i in range(stop - at):
        byte = data[at + i]
        word |= byte << (8 * i)
    state = _wide_stir(state, word)
    state = ((state ^ state >> 33) * _WIDE_SECOND) & _LOW_64
    state ^= state >> 29
    return state if state != 0 else 1


def _wide_stir(state: int, word: int) -> int:
    state = ((state ^ word) * _WIDE_FIRST) & _LOW_64
    return state ^ state >> 32


def _stir(state: int, word: int) -> int:
    word = (word * _FIRST) & _LOW_32
    word = ((word << 15 | word >> 17) * _SECOND) & _LOW_32
    return state ^ word


def _finish(state: int) -> int:
    state ^= state >> 16
    state = (state * _THIRD) & _LOW_32
    state ^= state >> 13
    state = (state * _FOURTH) & _LOW_32
    return state ^ state >> 16
