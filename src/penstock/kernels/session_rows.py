"""Who gets a message: lists of sessions in the keys of records, written and read in bulk.

A list is empty if it is the one of the row before; else a byte, 0, and for each session its number and flags (5 bytes).
A record that was copied has the byte 1 and then, before the sessions, the id (8 bytes) by which they know it: its first
offset. Integers are little-endian; session numbers are 1 to 2**31 - 1. A pair is a session and a row."""

from __future__ import annotations

from array import array

from penstock.core.errors import CorruptBatch
from penstock.core.ports import Buffer
from penstock.kernels import memory

_PAIR_BYTES = 5
_PLAIN, _COPIED = 0, 1
_PLAIN_BYTES, _COPIED_BYTES = 1, 9


def count_rows(rows: array[int], firsts: array[int]) -> int:
    """How many pairs come before those of each row: `firsts` has a word for each row and one more, zeros on entry. How
    many rows occur."""
    last = len(firsts) - 1
    for i in range(len(rows)):
        if rows[i] < 0 or rows[i] >= last:
            raise IndexError("a row number is outside the columns")
        firsts[rows[i] + 1] += 1
    used = 0
    for i in range(last):
        used += firsts[i + 1] != 0
        firsts[i + 1] += firsts[i]
    return used


def order_by_row(rows: array[int], firsts: array[int], order: array[int]) -> int:
    """The places of the pairs, row by row, each in its old order."""
    fills = array("i", bytes(4 * len(firsts)))
    fill = fills
    for i in range(len(firsts)):
        fill[i] = firsts[i]
    for i in range(len(rows)):
        order[fill[rows[i]]] = i
        fill[rows[i]] += 1
    return 0


def write_lists(
    sessions: array[int],
    flags: Buffer,
    firsts: array[int],
    order: array[int],
    ids: array[int] | None,
    out: bytearray,
    picked: array[int],
    starts: array[int],
    ends: array[int],
    first_byte: int,
) -> int:
    """The lists of all rows that occur, which go to `picked`, and where they lie if `out` begins at `first_byte`.
    `ids` are for copies, by row. `out` has room for 5 bytes a pair and 9 a row. How many bytes were written."""
    at, row_count = 0, 0
    before = -1
    for row in range(len(firsts) - 1):
        if firsts[row] == firsts[row + 1]:
            continue
        picked[row_count] = row
        starts[row_count] = ends[row_count] = 0
        if ids is not None or before < 0 or not _same(sessions, flags, order, firsts, before, row):
            starts[row_count] = first_byte + at
            out[at] = _PLAIN if ids is None else _COPIED
            at += 1
            if ids is not None:
                memory.store_i64(out, at, ids[row])
                at += 8
            for place in range(firsts[row], firsts[row + 1]):
                memory.store_i32(out, at, sessions[order[place]])
                out[at + 4] = flags[order[place]]
                at += _PAIR_BYTES
            ends[row_count] = first_byte + at
        before = row
        row_count += 1
    return at


def _same(sessions: array[int], flags: Buffer, order: array[int], firsts: array[int], first: int, second: int) -> bool:
    """Whether two rows go to the same sessions, with the same flags."""
    count = firsts[first + 1] - firsts[first]
    if count != firsts[second + 1] - firsts[second]:
        return False
    for i in range(count):
        one, other = order[firsts[first] + i], order[firsts[second] + i]
        if sessions[one] != sessions[other] or flags[one] != flags[other]:
            return False
    return True


def count_targets(body: Buffer, layout: array[int], count: int) -> int:
    """How many pairs the lists of a checked batch have; CorruptBatch if one is no list."""
    total, length = 0, 0
    for row in range(count):
        start, stop = _key(body, layout, row)
        if stop > start:
            list_bytes = stop - start - _head_bytes(body, start)
            length = list_bytes // _PAIR_BYTES
            if list_bytes < 0 or length * _PAIR_BYTES != list_bytes:
                raise CorruptBatch("a list of sessions has half a session", start)
        total += length
    return total


def read_targets(
    body: Buffer, layout: array[int], count: int, offsets: array[int], sessions: array[int], entries: array[int]
) -> int:
    """The pairs of a batch, row by row: the session of each, and its entry. Both have room for all of them."""
    at, list_start, list_stop = 0, 0, 0
    for row in range(count):
        start, stop = _key(body, layout, row)
        if stop > start:
            list_start, list_stop = start, stop
        if list_stop == 0:
            continue
        message_id = offsets[row]
        place = list_start + _head_bytes(body, list_start)
        if body[list_start] == _COPIED:
            message_id = memory.load_i64(body, list_start + 1)
        size = _size(body, layout, row) << 8
        while place < list_stop:
            sessions[at] = memory.load_i32(body, place)
            entries[3 * at] = message_id
            entries[3 * at + 1] = offsets[row]
            entries[3 * at + 2] = size | body[place + 4]
            at += 1
            place += _PAIR_BYTES
    return at


def _key(body: Buffer, layout: array[int], row: int) -> tuple[int, int]:
    """Where the key of a row lies; nowhere if there are none."""
    if layout[7] < 0:
        return 0, 0
    start = memory.load_i32(body, layout[7] + 4 * row)
    return layout[8] + start, layout[8] + memory.load_i32(body, layout[7] + 4 * row + 4)


def _head_bytes(body: Buffer, start: int) -> int:
    if body[start] == _PLAIN:
        return _PLAIN_BYTES
    if body[start] != _COPIED:
        raise CorruptBatch("a list of sessions is of an unknown kind", start)
    return _COPIED_BYTES


def _size(body: Buffer, layout: array[int], row: int) -> int:
    """Bytes of topic, properties and value."""
    size = _entry_bytes(body, layout[9], row) + _entry_bytes(body, layout[13], row)
    if layout[3] >= 0:
        size += _entry_bytes(body, layout[5], memory.load_i32(body, layout[3] + 4 * row))
    return size


def _entry_bytes(body: Buffer, offsets_at: int, entry: int) -> int:
    if offsets_at < 0:
        return 0
    return memory.load_i32(body, offsets_at + 4 * entry + 4) - memory.load_i32(body, offsets_at + 4 * entry)


def sort_by_session(sessions: array[int], order: array[int], spare: array[int]) -> int:
    """`order` gets the places of the pairs by session, those of one in their old order; `spare` is as large."""
    count = len(sessions)
    for i in range(count):
        order[i] = i
    width = 1
    while width < count:
        start = 0
        while start < count:
            _merge(sessions, order, spare, start, min(start + width, count), min(start + 2 * width, count))
            start += 2 * width
        width *= 2
    return 0


def _merge(sessions: array[int], order: array[int], spare: array[int], start: int, middle: int, stop: int) -> int:
    """Two sorted runs become one. Nothing moves where they are in order already."""
    if middle >= stop or sessions[order[middle - 1]] <= sessions[order[middle]]:
        return 0
    for i in range(start, stop):
        spare[i] = order[i]
    left, right = start, middle
    for i in range(start, stop):
        if left < middle and (right >= stop or sessions[spare[left]] <= sessions[spare[right]]):
            order[i] = spare[left]
            left += 1
        else:
            order[i] = spare[right]
            right += 1
    return 0


def gather(sessions: array[int], entries: array[int], order: array[int], out: array[int], groups: array[int]) -> int:
    """Entries in that order. `groups` gets the session, the first place and the bytes of each group, and has room for
    three words a pair; how many groups."""
    count = 0
    for i in range(len(order)):
        at = 3 * order[i]
        out[3 * i], out[3 * i + 1], out[3 * i + 2] = entries[at], entries[at + 1], entries[at + 2]
        if i == 0 or sessions[order[i]] != sessions[order[i - 1]]:
            groups[3 * count], groups[3 * count + 1], groups[3 * count + 2] = sessions[order[i]], i, 0
            count += 1
        groups[3 * count - 1] += entries[at + 2] >> 8
    return count


def row_bytes(
    topic_index: array[int] | None,
    topic_starts: array[int] | None,
    topic_ends: array[int] | None,
    property_starts: array[int] | None,
    property_ends: array[int] | None,
    value_starts: array[int],
    value_ends: array[int],
    out: array[int],
) -> int:
    """Bytes of topic, properties and value of each row of log.columns.Columns."""
    for i in range(len(out)):
        size = value_ends[i] - value_starts[i]
        if topic_index is not None and topic_starts is not None and topic_ends is not None:
            size += topic_ends[topic_index[i]] - topic_starts[topic_index[i]]
        if property_starts is not None and property_ends is not None:
            size += property_ends[i] - property_starts[i]
        out[i] = size
    return 0


def sum_rows(values: array[int], rows: array[int]) -> int:
    total = 0
    for i in range(len(rows)):
        total += values[rows[i]]
    return total


def room_for(values: array[int], rows: array[int], limit: int, limit_bytes: int) -> int:
    """How many of the first rows fit."""
    count, size = 0, 0
    while count < len(rows) and count < limit:
        size += values[rows[count]]
        if size > limit_bytes:
            break
        count += 1
    return count
