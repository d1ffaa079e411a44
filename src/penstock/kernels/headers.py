"""The headers in a column of properties, as Arrow wants lists of pairs: places of the lists, names, values; and back.

Properties have the MQTT 5 encoding. From a place on that cannot be read, a row has no headers."""

from __future__ import annotations

from array import array

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import memory

USER_PROPERTY = 0x26

# Properties with a field of their own in MQTT; here they are headers like others, under these names.
_NAMES = b"content-typereply-tocorrelation-id"


def step(data: Buffer, at: int, end: int, found: array[int]) -> int:
    """Reads the property at `at`: where the next one is, -1 if it cannot be read. To `found`: name and value, first and
    end of each; a name below 0 is -1 - a place in _NAMES; an empty name and an end of -1 is no header."""
    kind = data[at]
    found[3] = -1
    if kind == USER_PROPERTY:
        found[1] = string_end(data, at + 1, end)
        found[0] = at + 3
        if found[1] < 0:
            return -1
        found[2] = found[1] + 2
        found[3] = string_end(data, found[1], end)
        return found[3]
    if kind == 0x03 or kind == 0x08 or kind == 0x09:
        found[0] = -1 if kind == 0x03 else -13 if kind == 0x08 else -21
        found[1] = 12 if kind == 0x03 else 20 if kind == 0x08 else 34
        found[2] = at + 3
        found[3] = string_end(data, at + 1, end)
        return found[3]
    return after_number(data, at, end)


def string_end(data: Buffer, at: int, end: int) -> int:
    """Where a string that begins with its length ends; -1 beyond `end`."""
    if at + 2 > end:
        return -1
    stop = at + 2 + data[at] * 256 + data[at + 1]
    return stop if stop <= end else -1


def after_number(data: Buffer, at: int, end: int) -> int:
    """Behind one of the other properties of a PUBLISH, all of which are numbers; -1 if it is none, or cut short."""
    kind, stop = data[at], -1
    if kind == 0x01:
        stop = at + 2
    elif kind == 0x23:
        stop = at + 3
    elif kind == 0x02:
        stop = at + 5
    elif kind == 0x0B:
        stop = at + 1
        while stop < end and data[stop] >= 0x80:
            stop += 1
        stop += 1
    return stop if stop <= end else -1


def measure(data: Buffer, places: memoryview, sizes: array[int]) -> int:
    """How many headers the rows have; bytes of all names and of all values to `sizes`."""
    found = array("q", [0, 0, 0, 0])
    count = name_bytes = value_bytes = 0
    for row in range(len(places) - 1):
        at, end = places[row], places[row + 1]
        while 0 <= at < end:
            at = step(data, at, end, found)
            if at >= 0 and found[3] >= 0:
                count += 1
                name_bytes += name_size(found[0], found[1])
                value_bytes += found[3] - found[2]
    sizes[0] = name_bytes
    sizes[1] = value_bytes
    return count


def name_size(first: int, end: int) -> int:
    return end - first if first >= 0 else end + 1 + first


def fill(
    data: Buffer,
    places: memoryview,
    lists: array[int],
    name_ends: array[int],
    names: bytearray,
    value_ends: array[int],
    values: bytearray,
) -> int:
    """The columns, each as large as measure() said; places begin with 0, and come in zeroed."""
    found = array("q", [0, 0, 0, 0])
    count = name_at = value_at = 0
    for row in range(len(places) - 1):
        at, end = places[row], places[row + 1]
        while 0 <= at < end:
            at = step(data, at, end, found)
            if at >= 0 and found[3] >= 0:
                size = name_size(found[0], found[1])
                if found[0] >= 0:
                    memory.copy_bytes(names, name_at, data, found[0], size)
                else:
                    memory.copy_bytes(names, name_at, _NAMES, -1 - found[0], size)
                name_at += size
                memory.copy_bytes(values, value_at, data, found[2], found[3] - found[2])
                value_at += found[3] - found[2]
                count += 1
                name_ends[count] = name_at
                value_ends[count] = value_at
        lists[row + 1] = count
    return count


def pack(
    lists: memoryview,
    name_places: memoryview,
    names: Buffer,
    value_places: memoryview,
    values: Buffer,
    ends: array[int],
    out: bytearray,
) -> int:
    """The other way: row i has the pairs lists[i] to lists[i + 1] - 1 as user properties, which end at ends[i + 1].
    Places are absolute and in order. `out` is as large as the pairs need: 5 bytes beside each name and value.
    InvalidArgument for a string of over 65,535 bytes, or with a NUL in it."""
    at = 0
    ends[0] = 0
    for row in range(len(lists) - 1):
        for pair in range(lists[row], lists[row + 1]):
            out[at] = USER_PROPERTY
            at = put_string(names, name_places[pair], name_places[pair + 1], out, at + 1)
            at = put_string(values, value_places[pair], value_places[pair + 1], out, at)
        ends[row + 1] = at
    return at


def put_string(source: Buffer, start: int, end: int, out: bytearray, at: int) -> int:
    """Behind it."""
    size = end - start
    if size < 0 or size > 65535:
        raise InvalidArgument("a header's name or value is over 65535 bytes")
    for i in range(start, end):
        if source[i] == 0:
            raise InvalidArgument("a header has a NUL character in it")
    out[at] = size >> 8
    out[at + 1] = size & 255
    memory.copy_bytes(out, at + 2, source, start, size)
    return at + 2 + size
