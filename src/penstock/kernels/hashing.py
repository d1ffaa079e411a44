"""Which partition a key belongs to: murmur3 x86 32-bit, seed 0, unsigned, modulo the number of partitions.

Keys are shorter than 2**31 bytes, partitions number 1 to 2**31 - 1."""

from __future__ import annotations

from array import array

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import memory

# Constants of murmur3. Named, because Cython takes a literal above 2**31 for a Python object.
_LOW_32 = 0xFFFFFFFF
_ROUND = 0xE6546B64
_FIRST, _SECOND = 0xCC9E2D51, 0x1B873593
_THIRD, _FOURTH = 0x85EBCA6B, 0xC2B2AE35


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


def partitions(source: Buffer, starts: array[int], ends: array[int], count: int, out: array[int]) -> int:
    """out[i] = partition of key i, of `count` partitions."""
    if count < 1:
        raise InvalidArgument("a queue has at least one partition")
    for i in range(len(out)):
        out[i] = murmur3(source, starts[i], ends[i]) % count
    return 0


def scatter(numbers: array[int], counts: array[int], order: array[int]) -> int:
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
