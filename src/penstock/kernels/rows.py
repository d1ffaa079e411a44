"""Pick rows out of columns, and drop what the picked rows do not use. Row numbers are below 2**31."""

from __future__ import annotations

from array import array

_INT32_MAX = 2**31 - 1


def take_int32(values: array[int], rows: array[int], out: array[int]) -> int:
    for i in range(len(rows)):
        if rows[i] < 0:
            raise IndexError("a row number is negative")
        out[i] = values[rows[i]]
    return 0


def take_int64(values: array[int], rows: array[int], out: array[int]) -> int:
    for i in range(len(rows)):
        if rows[i] < 0:
            raise IndexError("a row number is negative")
        out[i] = values[rows[i]]
    return 0


def rise(values: array[int], stop: int) -> bool:
    """Whether each value is greater than the one before, all of them from 0 to stop - 1."""
    previous = -1
    for i in range(len(values)):
        if values[i] <= previous or values[i] >= stop:
            return False
        previous = values[i]
    return True


def renumber(index: array[int], new_number: array[int], used: array[int]) -> int:
    """Replace each number in `index` by its rank in order of first use; `used` gets the old numbers in that order.
    `new_number` has a word for every old number and comes in filled with -1. How many are used."""
    count = 0
    for i in range(len(index)):
        old = index[i]
        if old < 0:
            raise IndexError("a number is negative")
        if new_number[old] < 0:
            new_number[old] = count
            used[count] = old
            count += 1
        index[i] = new_number[old]
    return count


def subtract(values: array[int], base: int, out: array[int]) -> int:
    """out[i] = values[i] - base; OverflowError if that does not fit int32. It must fit int64."""
    for i in range(len(values)):
        delta = values[i] - base
        if delta > _INT32_MAX or delta < -_INT32_MAX - 1:
            raise OverflowError("a distance does not fit int32")
        out[i] = delta
    return 0
