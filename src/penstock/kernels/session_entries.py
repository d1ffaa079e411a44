"""What a session has not settled: entries of three words ('q') by rising id: id, offset, and size << 8 | flags.

Of the flags, SETTLED and IN_FLIGHT are the session's; those below are the message's. Sizes are below 2**32. And how
many sessions still want a record: counts ('i') in chunks of CHUNK records."""

from __future__ import annotations

from array import array

from penstock.core.errors import InvalidArgument

WORDS = 3
SETTLED, IN_FLIGHT = 0x80, 0x40
CHUNK = 4096
# Again by names that C knows: an attribute of a compiled module is either C's or Python's.
_SETTLED, _IN_FLIGHT, _HIDDEN = 0x80, 0x40, 0xC0
_CHUNK, _CHUNK_SHIFT = 4096, 12


def total_bytes(entries: array[int]) -> int:
    """Of the entries that are not settled."""
    size = 0
    for i in range(len(entries) // 3):
        if not entries[3 * i + 2] & _SETTLED:
            size += entries[3 * i + 2] >> 8
    return size


def living_offsets(entries: array[int], out: array[int]) -> int:
    """Where the messages lie that are not settled; how many they are."""
    count = 0
    for i in range(len(entries) // 3):
        if not entries[3 * i + 2] & _SETTLED:
            out[count] = entries[3 * i + 1]
            count += 1
    return count


def find(entries: array[int], message_id: int) -> int:
    """The place of an id, or of the first one behind it."""
    low, high = 0, len(entries) // 3
    while low < high:
        middle = (low + high) // 2
        if entries[3 * middle] < message_id:
            low = middle + 1
        else:
            high = middle
    return low


def settle(entries: array[int], message_ids: array[int], freed: array[int]) -> int:
    """Mark the messages of these ids; where they lay goes to `freed`, and behind that the bytes of all of them. Those
    that are not there, or were settled before, are passed over. How many were not."""
    count, place, size = 0, 0, 0
    entry_count = len(entries) // 3
    for i in range(len(message_ids)):
        if place >= entry_count or entries[3 * place] != message_ids[i]:
            place = find(entries, message_ids[i])
        if place < entry_count and entries[3 * place] == message_ids[i]:
            if not entries[3 * place + 2] & _SETTLED:
                entries[3 * place + 2] |= _SETTLED
                size += entries[3 * place + 2] >> 8
                freed[count] = entries[3 * place + 1]
                count += 1
            place += 1
    freed[count] = size
    return count


def settle_below(entries: array[int], message_id: int, freed: array[int]) -> int:
    """The same for all ids below one."""
    count, size = 0, 0
    for i in range(len(entries) // 3):
        if entries[3 * i] >= message_id:
            break
        if not entries[3 * i + 2] & _SETTLED:
            entries[3 * i + 2] |= _SETTLED
            size += entries[3 * i + 2] >> 8
            freed[count] = entries[3 * i + 1]
            count += 1
    freed[count] = size
    return count


def settled_prefix(entries: array[int], head: int) -> int:
    """The first entry from `head` on that is not settled."""
    count = len(entries) // 3
    while head < count and entries[3 * head + 2] & _SETTLED:
        head += 1
    return head


def move(entries: array[int], copies: array[int], freed: array[int], moved: array[int]) -> int:
    """Messages lie elsewhere from now on: `copies` are entries with their ids and new offsets. Where they lay goes to
    `freed`, where they lie to `moved`; those that are settled or gone are passed over. How many were not."""
    count = 0
    for i in range(len(copies) // 3):
        place = find(entries, copies[3 * i])
        if place == len(entries) // 3 or entries[3 * place] != copies[3 * i]:
            continue
        if not entries[3 * place + 2] & _SETTLED and entries[3 * place + 1] < copies[3 * i + 1]:
            freed[count] = entries[3 * place + 1]
            moved[count] = entries[3 * place + 1] = copies[3 * i + 1]
            count += 1
    return count


def mark_in_flight(entries: array[int], message_ids: array[int]) -> int:
    """IN_FLIGHT on these and on no others."""
    for i in range(len(entries) // 3):
        entries[3 * i + 2] &= ~_IN_FLIGHT
    for i in range(len(message_ids)):
        place = find(entries, message_ids[i])
        if place < len(entries) // 3 and entries[3 * place] == message_ids[i]:
            entries[3 * place + 2] |= _IN_FLIGHT
    return 0


def next_open(entries: array[int], place: int) -> int:
    """The first entry from `place` on that is neither settled nor in flight."""
    count = len(entries) // 3
    while place < count and entries[3 * place + 2] & _HIDDEN:
        place += 1
    return place


def take(
    entries: array[int],
    place: int,
    first: int,
    end: int,
    limit: int,
    limit_bytes: int,
    offsets: array[int],
    message_ids: array[int],
    flags: bytearray,
    stopped: array[int],
) -> int:
    """Messages from `place` on, as long as they lie in one batch (first <= offset < end), up to `limit` of them, and
    `limit_bytes` unless the first alone is larger. `stopped` gets the place to go on from and the bytes taken."""
    count, size = 0, 0
    entry_count = len(entries) // 3
    while place < entry_count and count < limit:
        word = entries[3 * place + 2]
        if not word & _HIDDEN:
            offset = entries[3 * place + 1]
            if offset < first or offset >= end or (count > 0 and size + (word >> 8) > limit_bytes):
                break
            offsets[count] = offset
            message_ids[count] = entries[3 * place]
            flags[count] = word & 0x3F
            size += word >> 8
            count += 1
        place += 1
    stopped[0], stopped[1] = place, size
    return count


def rows_of(wanted: array[int], offsets: array[int], rows: array[int]) -> int:
    """The row of each wanted offset in a batch with these rising offsets; -1 where it has none. How many were found."""
    found = 0
    for i in range(len(wanted)):
        rows[i] = -1
        if len(offsets) == 0 or wanted[i] < offsets[0]:
            continue
        row = wanted[i] - offsets[0]
        if row >= len(offsets) or offsets[row] != wanted[i]:
            row = _row(offsets, wanted[i])
        if row >= 0:
            rows[i] = row
            found += 1
    return found


def _row(offsets: array[int], wanted: int) -> int:
    low, high = 0, len(offsets)
    while low < high:
        middle = (low + high) // 2
        if offsets[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < len(offsets) and offsets[low] == wanted else -1


def oldest(entries: array[int], place: int, excess: int, excess_bytes: int, out: array[int]) -> int:
    """Ids of the first messages from `place` on that are not hidden, until so many, and so many bytes, are named."""
    count = 0
    for i in range(place, len(entries) // 3):
        if count >= excess and excess_bytes <= 0:
            break
        if not entries[3 * i + 2] & _HIDDEN:
            out[count] = entries[3 * i]
            excess_bytes -= entries[3 * i + 2] >> 8
            count += 1
    return count


def add_living(counts: array[int], chunk: int, offsets: array[int], at: int, change: int) -> int:
    """Add `change` for each of the offsets from `at` on, as long as they are of this chunk; where that ends."""
    if len(counts) < _CHUNK:
        raise InvalidArgument("a chunk is too small")
    while at < len(offsets) and offsets[at] >> _CHUNK_SHIFT == chunk:
        counts[offsets[at] & (_CHUNK - 1)] += change
        at += 1
    return at


def count_living(counts: array[int], start: int, stop: int) -> int:
    """How many of counts[start:stop] are above 0."""
    found = 0
    for i in range(start, stop):
        found += counts[i] > 0
    return found


def first_living(counts: array[int], start: int) -> int:
    """The first from `start` on that is above 0; where the counts end if none is."""
    while start < len(counts) and counts[start] <= 0:
        start += 1
    return start
