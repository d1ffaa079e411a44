"""Rows of amqp_scan looked at as a whole: which of them go together, and what any of them says."""

from __future__ import annotations

from array import array

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import amqp_columns as names
from penstock.kernels import memory

PUBLISHES, SETTLEMENTS, HEARTBEATS = 0, 1, 2
"""What the rows of a run are."""
_PUBLISHES, _SETTLEMENTS, _HEARTBEATS = PUBLISHES, SETTLEMENTS, HEARTBEATS
_LONG = 0x6C
"""the letter of a whole number of 64 bits"""
_PUBLISH, _HEARTBEAT, _MULTIPLE = names.PUBLISH, names.HEARTBEAT, names.MULTIPLE


def runs(kinds: array[int], channels: array[int], regions: array[int], firsts: array[int]) -> int:
    """Rows that follow each other on one channel of one region and are of one sort: the first row of each such run to
    `firsts`, which has room for as many as there are rows; how many."""
    if len(channels) < len(kinds) or len(regions) < len(kinds) or len(firsts) < len(kinds):
        raise InvalidArgument("a row has a kind, a channel and a region, and room for where a run begins")
    count = 0
    for row in range(len(kinds)):
        if (
            row == 0
            or regions[row] != regions[row - 1]
            or channels[row] != channels[row - 1]
            or _sort(kinds[row]) != _sort(kinds[row - 1])
        ):
            firsts[count] = row
            count += 1
    return count


def sort_of(kind: int) -> int:
    """PUBLISHES, SETTLEMENTS or HEARTBEATS."""
    return _sort(kind)


def _sort(kind: int) -> int:
    if kind == _PUBLISH:
        return _PUBLISHES
    return _HEARTBEATS if kind == _HEARTBEAT else _SETTLEMENTS


def union(values: array[int]) -> int:
    """The bits that any of them has."""
    found = 0
    for i in range(len(values)):
        found |= values[i]
    return found


def tag_runs(kinds: array[int], flags: array[int], tags: array[int], firsts: array[int]) -> int:
    """Settlements that say the same of tags ('q') that rise by one: the first row of each such run to `firsts`; how
    many. One of several tags is a run by itself."""
    if len(flags) < len(kinds) or len(tags) < len(kinds) or len(firsts) < len(kinds):
        raise InvalidArgument("a settlement has a kind, flags and a tag, and room for where a run begins")
    count = 0
    for row in range(len(kinds)):
        if (
            row == 0
            or flags[row] & _MULTIPLE
            or flags[row] != flags[row - 1]
            or kinds[row] != kinds[row - 1]
            or tags[row] != tags[row - 1] + 1
        ):
            firsts[count] = row
            count += 1
    return count


def standing(ends: array[int]) -> int:
    """How many of these, which rise or stay, are not above the one before, or above 0."""
    count, before = 0, 0
    for i in range(len(ends)):
        count += ends[i] <= before
        before = ends[i]
    return count


def longest_time(times: array[int]) -> int:
    """The largest of them ('q'); 0 if none is above that."""
    longest = 0
    for i in range(len(times)):
        if times[i] > longest:
            longest = times[i]
    return longest


def expiries(left_ms: array[int], now_ms: int, out: array[int]) -> int:
    """out[i] ('q') = when a message is over that is of use for left_ms[i] ('q') from now on; 0 for those below 0, which
    are for ever."""
    for i in range(len(left_ms)):
        out[i] = now_ms + left_ms[i] if left_ms[i] >= 0 else 0
    return 0


def find_text(data: Buffer, places: array[int], text: bytes, found: array[int]) -> int:
    """Rows whose short string is this text, to `found`, which has room for all; how many. A short string begins at
    places[i]; below 0 there is none."""
    if len(found) < len(places):
        raise InvalidArgument("there is less room than rows")
    count = 0
    for i in range(len(places)):
        at = places[i]
        if at < 0:
            continue
        if at >= len(data) or at + 1 + data[at] > len(data):
            raise InvalidArgument("a short string leaves its buffer")
        if data[at] == len(text) and _is(data, at + 1, text):
            found[count] = i
            count += 1
    return count


def _is(data: Buffer, at: int, text: bytes) -> bool:
    same = 0
    for i in range(len(text)):
        same += data[at + i] == text[i]
    return same == len(text)


def with_number(
    data: Buffer, starts: array[int], ends: array[int], name: bytes, values: array[int], out_ends: array[int]
) -> bytearray:
    """Properties with one more header, a whole number: of each span of the data one behind the other, and where they
    end."""
    size, count = 0, len(starts)
    if len(ends) < count or len(values) < count or len(out_ends) < count or len(name) > 255:
        raise InvalidArgument("properties have a start, an end, a value and room for where they end; a name 255 bytes")
    for i in range(count):
        if starts[i] < 0 or ends[i] - starts[i] < 2 or ends[i] > len(data):
            raise InvalidArgument("properties leave their buffer")
        size += ends[i] - starts[i]
    field = len(name) + 10
    out = bytearray(size + count * (field + 4))
    whole, at = out, 0
    for i in range(count):
        flags = memory.load_big16(data, starts[i])
        table = _table_at(data, starts[i] + 2, ends[i], flags)
        memory.copy_bytes(whole, at, data, starts[i], table - starts[i])
        whole[at] = (flags | 0x2000) >> 8
        at += table - starts[i]
        held = 0
        if flags & 0x2000:
            held = memory.load_big32(data, table)
            table += 4
            if held > ends[i] - table:
                raise InvalidArgument("headers leave their properties")
        memory.store_big32(whole, at, held + field)
        memory.copy_bytes(whole, at + 4, data, table, held)
        at += 4 + held
        whole[at] = len(name)
        memory.copy_bytes(whole, at + 1, name, 0, len(name))
        at += field
        whole[at - 9] = _LONG
        memory.store_big64(whole, at - 8, values[i])
        memory.copy_bytes(whole, at, data, table + held, ends[i] - table - held)
        at += ends[i] - table - held
        out_ends[i] = at
    return out[:at]


def _table_at(data: Buffer, at: int, end: int, flags: int) -> int:
    """Where the headers are, or would be."""
    if flags & 0x8000 and at < end:
        at += 1 + data[at]
    if flags & 0x4000 and at < end:
        at += 1 + data[at]
    if at > end or (flags & 0x2000 and end - at < 4):
        raise InvalidArgument("properties leave their span")
    return at
