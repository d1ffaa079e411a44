"""Field tables of AMQP 0.9.1 in bulk: check them, and find a header by its name, in the dialect of RabbitMQ.

Positions are below 2**31. A table is at most 64 KiB and 32 deep, whatever it says of itself."""

from __future__ import annotations

from array import array

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import amqp_columns as names
from penstock.kernels import memory

_MAX_BYTES, _MAX_DEPTH = names.MAX_TABLE_BYTES, names.MAX_TABLE_DEPTH
_LAST_LONG_DIGITS = 18


def table_fault(data: Buffer, start: int, stop: int) -> int:
    """Whether data[start:stop] is no table (without its length): 1, or 0 if it is one."""
    if start < 0 or stop < start or stop > len(data):
        raise InvalidArgument("a table leaves its buffer")
    return 0 if is_table(data, start, stop) else 1


def is_table(data: Buffer, start: int, stop: int) -> bool:
    """data[start:stop] lies in the buffer."""
    return stop - start <= _MAX_BYTES and _are_fields(data, start, stop, 1, True)


def _are_fields(data: Buffer, at: int, stop: int, depth: int, has_names: bool) -> bool:
    """Fields of a table up to `stop`, or those of an array, which have no names."""
    if depth > _MAX_DEPTH:
        return False
    while at < stop:
        if has_names:
            at += 1 + data[at]
            if at >= stop:
                return False
        at = field_end(data, at, stop, depth)
        if at < 0:
            return False
    return True


def field_end(data: Buffer, at: int, stop: int, depth: int) -> int:
    """Where the field whose type is at `at` ends; -1 if it leaves its table, or is of no type. Its table is `depth`
    deep, 1 for an outer one."""
    kind = data[at]
    at += 1
    bytes_of = width(kind)
    if bytes_of < 0:
        if bytes_of == -3 or stop - at < 4:
            return -1
        size = memory.load_big32(data, at)
        at += 4
        if size > stop - at:
            return -1
        if bytes_of == -2 and not _are_fields(data, at, at + size, depth + 1, kind == 0x46):
            return -1
        return at + size
    return at + bytes_of if stop - at >= bytes_of else -1


def width(kind: int) -> int:
    """Bytes of a value; -1 for those with a length in front, -2 for those with fields inside, -3 for no type."""
    if kind == 0x53 or kind == 0x78:  # S x
        return -1
    if kind == 0x46 or kind == 0x41:  # F A
        return -2
    if kind == 0x49 or kind == 0x69 or kind == 0x66:  # I i f
        return 4
    if kind == 0x6C or kind == 0x4C or kind == 0x64 or kind == 0x54:  # l L d T
        return 8
    if kind == 0x74 or kind == 0x62 or kind == 0x42:  # t b B
        return 1
    if kind == 0x73 or kind == 0x75:  # s u
        return 2
    if kind == 0x44:  # D
        return 5
    return 0 if kind == 0x56 else -3  # V


def find(
    data: Buffer,
    starts: array[int],
    stops: array[int],
    name: bytes,
    kinds: array[int],
    value_starts: array[int],
    value_stops: array[int],
) -> int:
    """Of each checked table the first field of this name: its type to `kinds`, 0 if there is none, and where its value
    is, without a length in front. How many have it."""
    if len(stops) < len(starts) or min(len(kinds), len(value_starts), len(value_stops)) < len(starts):
        raise InvalidArgument("every table has a start, an end and room for what is found")
    found = 0
    for i in range(len(starts)):
        if starts[i] < 0 or stops[i] < starts[i] or stops[i] > len(data):
            raise InvalidArgument("a table leaves its buffer")
        at = _find(data, starts[i], stops[i], name)
        kinds[i] = value_starts[i] = value_stops[i] = 0
        if at >= 0:
            kinds[i] = data[at]
            value_starts[i] = at + 5 if width(data[at]) < 0 else at + 1
            value_stops[i] = field_end(data, at, stops[i], 1)
            found += 1
    return found


def _find(data: Buffer, at: int, stop: int, name: bytes) -> int:
    """Where the type of the first field of that name is; -1 if there is none, or the table is no table."""
    size = len(name)
    while at < stop:
        length = data[at]
        kind_at = at + 1 + length
        if kind_at >= stop:
            return -1
        # Most fields are long strings: a call costs more than to look at one.
        if data[kind_at] == 0x53 and stop - kind_at >= 5:
            end = kind_at + 5 + memory.load_big32(data, kind_at + 1)
        else:
            end = field_end(data, kind_at, stop, 1)
        if end < 0 or end > stop:
            return -1
        if length == size:
            i = 0
            while i < size and data[at + 1 + i] == name[i]:
                i += 1
            if i == size:
                return kind_at
        at = end
    return -1


def integers(data: Buffer, kinds: array[int], value_starts: array[int], out: array[int]) -> int:
    """The values that `find` found, where they are whole numbers (or bits, or times), to `out` ('q'), which keeps what
    it has elsewhere; times of 2**63 and more as negative ones. How many."""
    count = 0
    for i in range(len(kinds)):
        kind = kinds[i]
        size = width(kind)
        is_number = size > 0 and kind != 0x66 and kind != 0x64 and kind != 0x44
        if not is_number:
            continue
        value, at = data[value_starts[i]], value_starts[i]
        is_negative = value >= 128 and (kind == 0x62 or kind == 0x73 or kind == 0x49 or size == 8)
        value = value - 256 if is_negative else value
        for j in range(1, size):
            value = value * 256 + data[at + j]
        out[i] = value
        count += 1
    return count


def decimal_texts(data: Buffer, places: array[int], out: array[int]) -> int:
    """Numbers that short strings say in decimal digits, as `expiration` does, to `out` ('q'): -1 where there is none
    (its place is below 0), -2 where it says none, or one of more than 18 digits. How many are -2."""
    bad = 0
    for i in range(len(places)):
        out[i] = -1
        if places[i] >= 0:
            out[i] = _decimal(data, places[i])
            bad += out[i] == -2
    return bad


def _decimal(data: Buffer, at: int) -> int:
    size = data[at]
    if size == 0 or size > _LAST_LONG_DIGITS:
        return -2
    value = 0
    for i in range(1, size + 1):
        digit = data[at + i]
        if digit < 0x30 or digit > 0x39:
            return -2
        value = value * 10 + (digit - 0x30)
    return value
