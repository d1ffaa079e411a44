"""Loads, stores and copies in byte buffers, checked against their ends. Integers are little-endian.

Compiled kernels take the inline C of memory.pxd instead, so this module itself is never compiled."""

from __future__ import annotations

import re

from penstock.core.ports import Buffer

_UNPLAIN = re.compile(rb'["\\\x00-\x1f]')


def copy_bytes(out: bytearray | memoryview, at: int, source: Buffer, start: int, size: int) -> int:
    if size < 0 or at < 0 or start < 0 or at + size > len(out) or start + size > len(source):
        raise IndexError("copy outside a buffer")
    out[at : at + size] = source[start : start + size]
    return 0


def put(out: bytearray, at: int, part: bytes) -> int:
    """Where it ends."""
    copy_bytes(out, at, part, 0, len(part))
    return at + len(part)


def piece(data: Buffer, start: int, stop: int) -> bytes:
    if start < 0 or stop < start or stop > len(data):
        raise IndexError("piece outside a buffer")
    return bytes(data[start:stop])


def load_i32(data: Buffer, at: int) -> int:
    return int.from_bytes(_part(data, at, 4), "little", signed=True)


def load_u32(data: Buffer, at: int) -> int:
    return int.from_bytes(_part(data, at, 4), "little")


def load_i64(data: Buffer, at: int) -> int:
    return int.from_bytes(_part(data, at, 8), "little", signed=True)


def load_big16(data: Buffer, at: int) -> int:
    """Big-endian, as networks have it; the others below too."""
    return int.from_bytes(_part(data, at, 2), "big")


def load_big32(data: Buffer, at: int) -> int:
    return int.from_bytes(_part(data, at, 4), "big")


def load_big64(data: Buffer, at: int) -> int:
    return int.from_bytes(_part(data, at, 8), "big")


def store_i32(out: bytearray, at: int, value: int) -> int:
    return copy_bytes(out, at, value.to_bytes(4, "little", signed=True), 0, 4)


def store_u32(out: bytearray, at: int, value: int) -> int:
    return copy_bytes(out, at, value.to_bytes(4, "little"), 0, 4)


def store_i64(out: bytearray, at: int, value: int) -> int:
    return copy_bytes(out, at, value.to_bytes(8, "little", signed=True), 0, 8)


def store_big32(out: bytearray, at: int, value: int) -> int:
    return copy_bytes(out, at, value.to_bytes(4, "big"), 0, 4)


def store_big64(out: bytearray, at: int, value: int) -> int:
    return copy_bytes(out, at, value.to_bytes(8, "big"), 0, 8)


def first_fall(data: Buffer, at: int, count: int) -> int:
    """Of `count` int32 the first that is below the one before it; `count` if there is none."""
    for i in range(1, count):
        if load_i32(data, at + 4 * i) < load_i32(data, at + 4 * i - 4):
            return i
    return max(count, 0)


def first_stall(data: Buffer, at: int, count: int) -> int:
    """Of `count` int32 the first that is not above the one before it; `count` if there is none."""
    for i in range(1, count):
        if load_i32(data, at + 4 * i) <= load_i32(data, at + 4 * i - 4):
            return i
    return max(count, 0)


def first_outside(data: Buffer, at: int, count: int, stop: int) -> int:
    """Of `count` int32 the first that is not one of 0 to stop - 1; `count` if there is none."""
    for i in range(count):
        if not 0 <= load_i32(data, at + 4 * i) < stop:
            return i
    return max(count, 0)


def first_negative(data: Buffer, at: int, count: int) -> int:
    """Of `count` int64 the first below 0; `count` if there is none."""
    for i in range(count):
        if load_i64(data, at + 8 * i) < 0:
            return i
    return max(count, 0)


def plain_end(data: Buffer, at: int) -> int:
    """Where a string of JSON that goes on at `at` has its end, an escape or a control character; the end of the data
    if it has none."""
    found = _UNPLAIN.search(data, at)
    return len(data) if found is None else found.start()


def _part(data: Buffer, at: int, size: int) -> Buffer:
    if at < 0 or at + size > len(data):
        raise IndexError("load outside a buffer")
    return data[at : at + size]
