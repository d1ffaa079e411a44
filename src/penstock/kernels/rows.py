"""Pick rows out of columns, and drop what the picked rows do not use. Row numbers are below 2**31."""

from __future__ import annotations

from array import array
from typing import TypeAlias

Ints: TypeAlias = "array[int] | memoryview[int]"

_INT32_MAX = 2**31 - 1


def take_int32(values: array[int], rows: array[int], out: array[int]) -> int:
    for i in range(len(rows)):
        if rows[i] < 0:
            raise IndexError("a row number is negative")
        out[i] = values[rows[i]]
    return 0


def take_int64(values: array[int], rows: array[int], out: Ints) -> int:
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


def rises(values: array[int]) -> bool:
    """Whether each of the int64 values is greater than the one before."""
    falls = 0
    for i in range(1, len(values)):
        falls += values[i] <= values[i - 1]
    return falls == 0


def runs(values: array[int], out: array[int]) -> int:
    """Rising int64 values as ranges: first and stop of each to `out`, which has room for two words a value. How many
    ranges; -1 if the values do not rise."""
    count = 0
    for i in range(len(values)):
        if count and values[i] == out[2 * count - 1]:
            out[2 * count - 1] += 1
            continue
        if count and values[i] < out[2 * count - 1]:
            return -1
        out[2 * count] = values[i]
        out[2 * count + 1] = values[i] + 1
        count += 1
    return count


def longest(starts: Ints, ends: Ints) -> int:
    """Bytes of the longest of the spans; 0 without any."""
    most = 0
    for i in range(len(starts)):
        if ends[i] - starts[i] > most:
            most = ends[i] - starts[i]
    return most


def mark_by_number(numbers: memoryview, marks: bytearray, out: bytearray) -> int:
    """out[i] |= marks[numbers[i]]; numbers are int32. How many rows are marked then."""
    count = 0
    for i in range(len(numbers)):
        if numbers[i] < 0:
            raise IndexError("a number is negative")
        out[i] |= marks[numbers[i]]
        count += out[i] != 0
    return count


def mark_past(times: memoryview, now: int, out: bytearray) -> int:
    """out[i] = 1 where 0 < times[i] <= now (int64). How many these are."""
    count = 0
    for i in range(len(times)):
        if 0 < times[i] <= now:
            out[i] = 1
            count += 1
    return count


def set_where_empty(starts: Ints, ends: Ints, number: int, out: array[int]) -> int:
    """out[i] = number where span i is empty. How many these are."""
    count = 0
    for i in range(len(starts)):
        if starts[i] == ends[i]:
            out[i] = number
            count += 1
    return count
