"""Between columns and lists of bytes objects, one for each row."""

from __future__ import annotations

from array import array

from penstock.core.ports import Buffer
from penstock.kernels import memory

_INT32_MAX = 2**31 - 1


def are_bytes(entries: list[bytes]) -> bool:
    """Whether all of them are bytes, and no other kind of object."""
    others = 0
    for entry in entries:
        others += type(entry) is not bytes
    return others == 0


def ends(entries: list[bytes], first: int, out: array[int]) -> int:
    """Where each of them ends if they lie one behind the other from `first` on, to out[1:] (int32); `first` to out[0].
    Where the last one ends; OverflowError if that does not fit, TypeError for one that is not bytes."""
    end = first
    out[0] = first
    for i in range(len(entries)):
        entry = entries[i]
        if type(entry) is not bytes:
            raise TypeError("an entry of a column is not bytes")
        end += len(entry)
        if end > _INT32_MAX:
            raise OverflowError("a column is longer than 2 GiB")
        out[i + 1] = end
    return end


def cut(data: Buffer, offsets: memoryview, rows: array[int]) -> list[bytes]:
    """data[offsets[row] : offsets[row + 1]] of each of the rows; offsets are int32. IndexError outside of data."""
    found: list[bytes] = []
    for i in range(len(rows)):
        row = rows[i]
        if row < 0:
            raise IndexError("a row number is negative")
        found.append(memory.piece(data, offsets[row], offsets[row + 1]))
    return found


def pieces(data: Buffer, starts: array[int], ends: array[int]) -> list[bytes]:
    """data[starts[i] : ends[i]] of each (int32). IndexError outside of data."""
    return [memory.piece(data, starts[i], ends[i]) for i in range(len(starts))]
