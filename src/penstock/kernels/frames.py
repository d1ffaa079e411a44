"""The entry table of a journal frame, read from bytes that cannot be trusted. log/FORMAT.md describes frames."""

from __future__ import annotations

from array import array

from penstock.core.errors import CorruptFrame
from penstock.core.ports import Buffer
from penstock.kernels import memory


def entries(data: Buffer, start: int, stop: int, out: array[int]) -> int:
    """Fill `out` with log number, kind, start and end of each entry in data[start:stop]; how many there are. Positions
    are relative to `data`. CorruptFrame when an entry does not fit or is of no known kind, when the last does not end
    at `stop`, or when there are more than `out` has room for."""
    if start < 0 or stop < start or stop > len(data):
        raise CorruptFrame("its body is cut off", start)
    room = len(out) // 4
    found = 0
    at = start
    while at < stop:
        if found == room:
            raise CorruptFrame("it has more entries than it says", at)
        if stop - at < 16:
            raise CorruptFrame("an entry is cut off", at)
        log_number = memory.load_i64(data, at)
        size = memory.load_u32(data, at + 8)
        kind = memory.load_u32(data, at + 12)
        if log_number < 0 or kind < 1 or kind > 2:
            raise CorruptFrame("an entry has an impossible log number or kind", at)
        if ((size + 7) & -8) > stop - at - 16:
            raise CorruptFrame("an entry is longer than the frame", at)
        out[4 * found] = log_number
        out[4 * found + 1] = kind
        out[4 * found + 2] = at + 16
        out[4 * found + 3] = at + 16 + size
        found += 1
        at += 16 + ((size + 7) & -8)
    return found
