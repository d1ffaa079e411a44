"""One field of a plain batch, found without laying out its columns: neither compressed nor thinned, one time for all
records, no expiries. Batches are described in log/FORMAT.md; this one was checked."""

from __future__ import annotations

from penstock.core.ports import Buffer
from penstock.kernels import memory

_TOPIC, _KEY, _PROPERTIES, _NATIVE, _VALUE = 8, 16, 32, 64, 128


def value_of(data: Buffer, row: int) -> bytes:
    """The value of a record; IndexError if there is no such row."""
    flags, count = memory.load_u32(data, 28), memory.load_u32(data, 20)
    if row < 0 or row >= count:
        raise IndexError("no such row in the batch")
    if not flags & _VALUE:
        return b""
    at = 64
    if flags & _TOPIC:
        at += _pad8(4 * count) + 8
        at = _behind(data, at, memory.load_i32(data, at - 8))
    if flags & _KEY:
        at = _behind(data, at, count)
    if flags & _PROPERTIES:
        at = _behind(data, at, count)
    if flags & _NATIVE:
        at = _behind(data, at, count)
    first_byte = at + _pad8(4 * count + 4)
    start, stop = memory.load_i32(data, at + 4 * row), memory.load_i32(data, at + 4 * row + 4)
    return memory.piece(data, first_byte + start, first_byte + stop)


def _behind(data: Buffer, at: int, entries: int) -> int:
    """Where the next column begins: offsets of entries, then their bytes."""
    return at + _pad8(4 * entries + 4) + _pad8(memory.load_i32(data, at + 4 * entries))


def _pad8(size: int) -> int:
    return (size + 7) & -8
