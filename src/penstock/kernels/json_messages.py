"""Messages of a body of JSON as columns over that body, and where they were stored as JSON: no object per message."""

from __future__ import annotations

from array import array

from penstock.core.ports import Buffer
from penstock.kernels import memory

_TAB, _NEWLINE, _RETURN, _SPACE, _QUOTE, _COMMA, _ZERO, _COLON, _BACKSLASH = b'\t\n\r ",0:\\'
_OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE = b"[]{}"
# What stands behind a backslash, and what it stands for.
_B, _F, _N, _R, _T, _U, _SLASH = b"bfnrtu/"
_BACKSPACE, _FEED = b"\b\f"
_TEXT, _KEY, _LIST = b"text", b"key", b"messages"
_OTHER, FULL = -1, -2
"""what is not read here, good or bad; more than there is room for"""


def scan(data: Buffer, out: bytearray, is_lines: bool, spans: array[int]) -> int:
    """The spans of `text` and `key` (0, 0 where there is none) of messages that have nothing else: those of
    `{"messages": […]}`, or of lines that are one each. How many there are; FULL for more than `spans` holds, -1 for
    everything else. The quarters of `spans` are the starts and ends of texts, and those of keys. Strings with escapes
    are written to `out` where they begin: give the data itself, as a bytearray, if it has any. That the data is UTF-8
    was looked at before."""
    count, at, room = 0, 0, len(spans) // 4
    if not is_lines:
        at = _opened(data)
    while at >= 0:
        at = _skip(data, at)
        if is_lines and at == len(data):
            return count
        if count == room:
            return FULL
        at = _message(data, out, at, spans, count, room)
        if at < 0:
            return _OTHER
        count += 1
        if is_lines:
            at = _line_end(data, at)
        else:
            at = _skip(data, at)
            if at < len(data) and data[at] == _COMMA:
                at += 1
            else:
                return count if _is_closed(data, at) else _OTHER
    return _OTHER


def _opened(data: Buffer) -> int:
    """Behind the bracket of the list."""
    at = _skip(data, 0)
    if at >= len(data) or data[at] != _OPEN:
        return _OTHER
    at = _named(data, _skip(data, at + 1), _LIST)
    if at < 0 or at >= len(data) or data[at] != _OPEN_LIST:
        return _OTHER
    return at + 1


def _is_closed(data: Buffer, at: int) -> bool:
    if at >= len(data) or data[at] != _CLOSE_LIST:
        return False
    at = _skip(data, at + 1)
    return at < len(data) and data[at] == _CLOSE and _skip(data, at + 1) == len(data)


def _line_end(data: Buffer, at: int) -> int:
    """Behind a line, which ends where the data does, too."""
    while at < len(data) and (data[at] == _SPACE or data[at] == _TAB or data[at] == _RETURN):
        at += 1
    if at == len(data):
        return at
    return at + 1 if data[at] == _NEWLINE else _OTHER


def _message(data: Buffer, out: bytearray, at: int, spans: array[int], row: int, room: int) -> int:
    """Behind the message."""
    is_text, is_key = False, False
    if at >= len(data) or data[at] != _OPEN:
        return _OTHER
    spans[row + 2 * room] = spans[row + 3 * room] = 0
    at = _skip(data, at + 1)
    while True:
        found = -1 if is_text else _named(data, at, _TEXT)
        if found >= 0:
            at = _string(data, out, found, spans, row, room)
            is_text = True
        else:
            found = -1 if is_key else _named(data, at, _KEY)
            if found < 0:
                return _OTHER
            at = _string(data, out, found, spans, row + 2 * room, room)
            is_key = True
        if at < 0:
            return _OTHER
        at = _skip(data, at)
        if at >= len(data):
            return _OTHER
        if data[at] == _CLOSE:
            return at + 1 if is_text else _OTHER
        if data[at] != _COMMA:
            return _OTHER
        at = _skip(data, at + 1)


def _skip(data: Buffer, at: int) -> int:
    while at < len(data) and data[at] <= _SPACE:
        if data[at] != _SPACE and data[at] != _NEWLINE and data[at] != _RETURN and data[at] != _TAB:
            return at
        at += 1
    return at


def _named(data: Buffer, at: int, name: bytes) -> int:
    """Where the value of that name begins, if it is the next one."""
    size = len(name)
    if at + size + 2 > len(data) or data[at] != _QUOTE or data[at + size + 1] != _QUOTE:
        return _OTHER
    for i in range(size):
        if data[at + 1 + i] != name[i]:
            return _OTHER
    at = _skip(data, at + size + 2)
    if at >= len(data) or data[at] != _COLON:
        return _OTHER
    return _skip(data, at + 1)


def _string(data: Buffer, out: bytearray, at: int, spans: array[int], span: int, room: int) -> int:
    """Behind its quote. Its start goes to `span`, its end `room` behind that."""
    if at >= len(data) or data[at] != _QUOTE:
        return _OTHER
    end = memory.plain_end(data, at + 1)
    if end >= len(data):
        return _OTHER
    spans[span], spans[span + room] = at + 1, end
    if data[end] == _QUOTE:
        return end + 1
    return _escaped(data, out, end, spans, span + room) if data[end] == _BACKSLASH else _OTHER


def _escaped(data: Buffer, out: bytearray, at: int, spans: array[int], stop: int) -> int:
    """The rest of a string, from its first escape on: what is written is never longer than what was read."""
    to = at
    while at < len(data):
        byte = data[at]
        if byte == _QUOTE:
            spans[stop] = to
            return at + 1
        if byte == _BACKSLASH:
            if at + 1 >= len(data):
                return _OTHER
            if data[at + 1] == _U:
                point = _point(data, at + 2)
                if point < 0:
                    return _OTHER
                at += 12 if point > 0xFFFF else 6
                to = _put_point(out, to, point)
                continue
            plain = _meant(data[at + 1])
            if plain < 0:
                return _OTHER
            out[to] = plain
            to += 1
            at += 2
            continue
        end = memory.plain_end(data, at)
        if end == at:
            return _OTHER
        memory.copy_bytes(out, to, data, at, end - at)
        to += end - at
        at = end
    return _OTHER


def _meant(byte: int) -> int:
    if byte in (_QUOTE, _BACKSLASH, _SLASH):
        return byte
    if byte == _N:
        return _NEWLINE
    if byte == _R:
        return _RETURN
    if byte == _T:
        return _TAB
    if byte == _B:
        return _BACKSPACE
    return _FEED if byte == _F else _OTHER


def _point(data: Buffer, at: int) -> int:
    """Of four hexadecimal digits, or of two such with an escape between them; -1 for half of a pair."""
    first = _unit(data, at)
    if first < 0xD800 or first > 0xDFFF:
        return first
    if first > 0xDBFF or at + 6 > len(data) or data[at + 4] != _BACKSLASH or data[at + 5] != _U:
        return _OTHER
    second = _unit(data, at + 6)
    if second < 0xDC00 or second > 0xDFFF:
        return _OTHER
    return 0x10000 + ((first - 0xD800) << 10) + second - 0xDC00


def _unit(data: Buffer, at: int) -> int:
    if at + 4 > len(data):
        return _OTHER
    value = 0
    for i in range(4):
        byte = data[at + i]
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= byte <= 102:
            digit = byte - 87
        elif 65 <= byte <= 70:
            digit = byte - 55
        else:
            return _OTHER
        value = value << 4 | digit
    return value


def _put_point(out: bytearray, to: int, point: int) -> int:
    """As UTF-8; behind it."""
    if point < 0x80:
        out[to] = point
        return to + 1
    if point < 0x800:
        out[to] = 0xC0 | point >> 6
    else:
        if point < 0x10000:
            out[to] = 0xE0 | point >> 12
        else:
            out[to] = 0xF0 | point >> 18
            out[to + 1] = 0x80 | (point >> 12) & 0x3F
            to += 1
        out[to + 1] = 0x80 | (point >> 6) & 0x3F
        to += 1
    out[to + 1] = 0x80 | point & 0x3F
    return to + 2


def encode_placed(
    numbers: array[int], following: array[int], heads: list[bytes], middles: list[bytes], tail: bytes, out: bytearray
) -> int:
    """What was stored: for each row the head of its number (int32), the offset that follows in `following` (int64;
    which moves on, but for -1), the middle, the offset again, the tail and a comma. Where it ends in `out`; ValueError
    if that has not room for 40 digits and the longest of them for each row, or if a number has none."""
    at, longest = 0, 0
    for i in range(len(heads)):
        longest = max(longest, len(heads[i]) + len(middles[i]))
    if len(out) < len(numbers) * (longest + len(tail) + 42) or len(middles) != len(heads):
        raise ValueError("no room for the results")
    for row in range(len(numbers)):
        number = numbers[row]
        if number < 0 or number >= len(heads) or number >= len(following):
            raise ValueError("a row was stored nowhere")
        offset = following[number]
        if offset >= 0:
            following[number] = offset + 1
        start = memory.put(out, at, heads[number])
        stop = _put_number(out, start, offset)
        at = memory.put(out, stop, middles[number])
        memory.copy_bytes(out, at, out, start, stop - start)
        at = memory.put(out, at + stop - start, tail)
        out[at] = _COMMA
        at += 1
    return at


def _put_number(out: bytearray, at: int, value: int) -> int:
    """From -1 on."""
    if value < 0:
        out[at] = 45
        value = 1
        at += 1
    size, rest = 1, value
    while rest > 9:
        rest //= 10
        size += 1
    for i in range(size):
        out[at + size - 1 - i] = _ZERO + value % 10
        value //= 10
    return at + size
