"""What is asked of scanned packets, for all rows at once: which belong together, when they expire, what they carry.

Columns are int32 as mqtt_scan fills them, positions below 2**31; properties have been scanned and found good."""

from __future__ import annotations

from array import array

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import memory
from penstock.kernels import mqtt_columns as names

_HAS_ALIAS, _HAS_EXPIRY = names.HAS_ALIAS, names.HAS_EXPIRY
_ALIAS_BYTES, _EXPIRY_BYTES = 3, 5
_FORMAT, _EXPIRY, _TOPIC_ALIAS, _USER_PROPERTY = 0x01, 0x02, 0x23, 0x26
_LOW_64 = 0xFFFFFFFFFFFFFFFF
_FIRST, _SECOND = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53


def pick_rows(heads: array[int], mask: int, value: int, out: array[int]) -> int:
    """Numbers of the rows whose first byte is `value` under `mask` go to `out`, which has room for all; how many."""
    count = 0
    for i in range(len(heads)):
        if heads[i] & mask == value:
            out[count] = i
            count += 1
    return count


def group_topics(
    data: Buffer,
    starts: array[int],
    ends: array[int],
    aliases: array[int] | None,
    alias_numbers: array[int] | None,
    seed: int,
    table: array[int],
    numbers: array[int],
    firsts: array[int],
) -> int:
    """Number the topics data[starts[i]:ends[i]] in order of first use: numbers[i] is that of row i, firsts[n] the row
    that used number n first. How many there are.

    With `aliases` (0: none), a topic left empty is the one that last came with its alias in these rows; or, if none
    did, a number of its own, which the connection knows from before. alias_numbers has a word for every alias and -1
    in it; afterwards it has the number that each alias stands for from now on.
    `table` is scratch of at least 6 words a row, with anything in it; `seed` (64 bits) keys the hashes."""
    distinct = 0
    rows, room = len(starts), 4
    while room < 2 * rows:
        room *= 2
    if rows == 0:
        return 0
    if len(ends) < rows or len(numbers) < rows or len(firsts) < rows or len(table) < room + rows:
        raise InvalidArgument("there is less room than rows to group")
    for i in range(rows):
        start, end = starts[i], ends[i]
        if start < 0 or end < start or end > len(data):
            raise InvalidArgument("a topic leaves its buffer")
        alias = 0 if aliases is None else aliases[i]
        if alias and start == end and alias_numbers is not None and alias_numbers[alias] >= 0:
            numbers[i] = alias_numbers[alias]
            continue
        number = distinct
        if i and end > start and _is_same(data, start, end, starts[i - 1], ends[i - 1]):
            number = numbers[i - 1]
        elif alias == 0 or end > start:
            slot = _hash(data, start, end, seed) & (room - 1)
            number = table[slot]
            # A slot is taken only if its number's word behind the slots says so: the table need not be cleared.
            while 0 <= number < distinct and table[room + number] == slot:
                if _is_same(data, start, end, starts[firsts[number]], ends[firsts[number]]):
                    break
                slot = (slot + 1) & (room - 1)
                number = table[slot]
            else:
                number = distinct
                table[slot] = number
                table[room + number] = slot
        else:
            table[room + number] = -1
        if number == distinct:
            firsts[number] = i
            distinct += 1
        numbers[i] = number
        if alias and alias_numbers is not None:
            alias_numbers[alias] = number
    return distinct


def _is_same(data: Buffer, start: int, end: int, other: int, other_end: int) -> bool:
    """Whether two parts have the same bytes; eight at a time, the last eight overlapping those before."""
    size = end - start
    if size != other_end - other:
        return False
    at = 0
    while size - at >= 8:
        if memory.load_i64(data, start + at) != memory.load_i64(data, other + at):
            return False
        at += 8
    if size > at > 0:
        return memory.load_i64(data, end - 8) == memory.load_i64(data, other_end - 8)
    while at < size and data[start + at] == data[other + at]:
        at += 1
    return at == size


def _hash(data: Buffer, start: int, end: int, seed: int) -> int:
    state = (seed ^ (end - start)) & _LOW_64
    at = start
    while end - at >= 8:
        state = ((state ^ memory.load_i64(data, at) & _LOW_64) * _FIRST) & _LOW_64
        state ^= state >> 32
        at += 8
    word = 0
    if at > start:
        word = memory.load_i64(data, end - 8) & _LOW_64
    else:
        for i in range(end - at):
            byte = data[at + i]
            word |= byte << (8 * i)
    state = ((state ^ word) * _FIRST) & _LOW_64
    state = ((state ^ state >> 32) * _SECOND) & _LOW_64
    return state ^ state >> 29


def expiry_times(data: Buffer, present: array[int], expiry_at: array[int], now_ms: int, out: array[int]) -> int:
    """out[i] ('q') = when message i expires in ms, 0 for never. How many do. now_ms is below 2**62."""
    count = 0
    for i in range(len(present)):
        out[i] = 0
        if present[i] & _HAS_EXPIRY:
            seconds = _big_endian(data, expiry_at[i])
            out[i] = now_ms + 1000 * seconds
            count += 1
    return count


def _big_endian(data: Buffer, at: int) -> int:
    word = memory.load_u32(data, at)
    return word >> 24 | word >> 8 & 0xFF00 | word << 8 & 0xFF0000 | word << 24 & 0xFF000000


def drop_hop_by_hop(
    data: bytearray | memoryview,
    present: array[int],
    expiry_at: array[int],
    alias_at: array[int],
    property_starts: array[int],
) -> int:
    """Move topic alias and message expiry to the front of each row's properties and its start behind them: what is left
    is what a log stores. Changes `data` and `property_starts`; positions of other properties say nothing afterwards.
    How many rows had one of the two."""
    count = 0
    for i in range(len(present)):
        if not present[i] & (_HAS_ALIAS | _HAS_EXPIRY):
            continue
        count += 1
        expiry = expiry_at[i] - 1
        if present[i] & _HAS_ALIAS:
            alias = alias_at[i] - 1
            _move_to_front(data, property_starts[i], alias, _ALIAS_BYTES)
            if present[i] & _HAS_EXPIRY and expiry < alias:
                expiry += _ALIAS_BYTES
            property_starts[i] += _ALIAS_BYTES
        if present[i] & _HAS_EXPIRY:
            _move_to_front(data, property_starts[i], expiry, _EXPIRY_BYTES)
            property_starts[i] += _EXPIRY_BYTES
    return count


def _move_to_front(data: bytearray | memoryview, start: int, at: int, size: int) -> int:
    """data[at:at + size] before data[start:at]; size is below 8."""
    if start < 0 or at < start or at + size > len(data):
        raise InvalidArgument("a property leaves its buffer")
    held = 0
    for i in range(size):
        byte = data[at + i]
        held |= byte << (8 * i)
    for i in range(at - start):
        data[at + size - 1 - i] = data[at - 1 - i]
    for i in range(size):
        data[start + i] = held >> (8 * i) & 0xFF
    return 0


def find_user_property(
    data: Buffer,
    property_starts: array[int],
    property_ends: array[int],
    name: bytes,
    out_starts: array[int],
    out_ends: array[int],
) -> int:
    """Where in `data` the value of each row's first user property of that name is; 0 and 0 where a row has none.
    How many have one."""
    count = 0
    for i in range(len(property_starts)):
        at = _value_of(data, property_starts[i], property_ends[i], name)
        out_starts[i] = out_ends[i] = 0
        if at:
            out_starts[i] = at + 2
            out_ends[i] = at + 2 + _short(data, at)
            count += 1
    return count


def _value_of(data: Buffer, at: int, end: int, name: bytes) -> int:
    """Position of the value with its length; 0 if there is none."""
    while at < end:
        kind = data[at]
        if kind == _USER_PROPERTY:
            size = _short(data, at + 1)
            value = at + 3 + size
            if size == len(name) and _is_name(data, at + 3, name):
                return value
            at = value + 2 + _short(data, value)
        elif kind == _FORMAT:
            at += 2
        elif kind == _EXPIRY:
            at += _EXPIRY_BYTES
        elif kind == _TOPIC_ALIAS:
            at += _ALIAS_BYTES
        else:
            at += 3 + _short(data, at + 1)
    return 0


def _is_name(data: Buffer, at: int, name: bytes) -> bool:
    same = 0
    while same < len(name) and data[at + same] == name[same]:
        same += 1
    return same == len(name)


def _short(data: Buffer, at: int) -> int:
    high = data[at]
    return high << 8 | data[at + 1]
