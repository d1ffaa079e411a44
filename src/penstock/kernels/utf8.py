"""Whether bytes are text: well-formed UTF-8, as MQTT and JSON want it."""

from __future__ import annotations

from penstock.core.ports import Buffer
from penstock.kernels import memory

_HIGH, _ONES = 0x8080808080808080, 0x0101010101010101


def is_text(data: Buffer, at: int, end: int, may_have_nul: bool) -> bool:
    """Of data[at:end], which lies in the data."""
    while at < end:
        while end - at >= 8:
            word = memory.load_i64(data, at)
            # Zero where all eight bytes are ASCII and none of them is NUL.
            if (word | word - _ONES) & _HIGH:
                break
            at += 8
        stop = min(at + 8, end)
        while at < stop:
            first = data[at]
            if first and first < 0x80:
                at += 1
                continue
            if first == 0 and may_have_nul:
                at += 1
                continue
            size = character_bytes(data, at, end)
            if size == 0:
                return False
            at += size
    return True


def character_bytes(data: Buffer, at: int, end: int) -> int:
    """Of the character at `at`; 0 for NUL, surrogates, longer forms than need be and all that is none."""
    first = data[at]
    if first < 0x80:
        return 1 if first else 0
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if first < 0xC2 or first > 0xF4 or end - at < size:
        return 0
    second = data[at + 1]
    least = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    most = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    if second < least or second > most:
        return 0
    for i in range(2, size):
        if data[at + i] & 0xC0 != 0x80:
            return 0
    return size
