"""crc32c (Castagnoli) of a buffer: by the processor where the native kernel is built, by a table otherwise."""

from __future__ import annotations

from array import array

from penstock.core.ports import Buffer


def crc32c_table(data: Buffer, value: int = 0, start: int = 0, stop: int = -1) -> int:
    """crc32c of data[start:stop], up to its end if stop < 0, continuing from the checksum `value` of what came before.
    This is the slow way, for installations without a compiler."""
    stop = len(data) if stop < 0 else stop
    if start < 0 or start > stop or stop > len(data):
        raise IndexError("checksum outside a buffer")
    crc = value ^ 0xFFFFFFFF
    for byte in memoryview(data)[start:stop]:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def first_bad_table(data: Buffer, rows: array[int], count: int) -> int:
    """The number of the first of `count` batches whose checksum does not hold, `count` if all do. `rows` are as
    kernels.batch.scan fills them. The native one lets go of the GIL meanwhile."""
    for i in range(count):
        start, stop = rows[5 * i], rows[5 * i] + rows[5 * i + 4]
        if start < 0 or stop < start + 8 or stop > len(data):
            raise IndexError("a batch outside a buffer")
        if crc32c_table(data, 0, start + 8, stop) != int.from_bytes(data[start + 4 : start + 8], "little"):
            return i
    return count


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = tuple(_table_entry(byte) for byte in range(256))

try:
    from penstock.kernels._native import crc32c, first_bad
except ImportError:
    crc32c, first_bad = crc32c_table, first_bad_table

__all__ = ["crc32c", "crc32c_table", "first_bad", "first_bad_table"]
