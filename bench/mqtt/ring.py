"""Messages of one size, encoded once and sent over and over: each time with a number and a time of their own.

The first 16 bytes of a payload are its number (how often its place was sent before, then the place) and the time at
which it was due; the rest is text."""

from __future__ import annotations

import struct
from collections.abc import Sequence

PAYLOAD_BYTES = 256
_HEAD = struct.Struct(">IIQ")
_LAP_AT, _STAMP_AT = 0, 8
_FILLER = (b"the quick brown fox jumps over the lazy dog " * 8)[: PAYLOAD_BYTES - _HEAD.size]


def payload(place: int) -> bytes:
    """As it is encoded, before it has a number and a time. Places of all rings of a load differ."""
    return _HEAD.pack(0, place, 0) + _FILLER


class Ring:
    """The messages of one publisher in the order in which they are sent, behind the last the first again."""

    def __init__(self, frames: Sequence[bytes], first_place: int, trailer_bytes: int = 0) -> None:
        """Frames of one size, each with the payload of its place, which ends `trailer_bytes` before the frame's end."""
        self.frame_bytes = len(frames[0])
        if any(len(frame) != self.frame_bytes for frame in frames):
            raise ValueError("the messages of a ring have one size")
        self.slots = len(frames)
        self._bytes = bytearray(b"".join(frames))
        self._view = memoryview(self._bytes)
        self._payload_at = self.frame_bytes - trailer_bytes - PAYLOAD_BYTES
        self._first_place, self._next, self._lap = first_place, 0, 0
        self.sum_of_numbers = 0

    def take(self, count: int, stamp_ns: int) -> memoryview:
        """Up to so many messages, numbered and stamped. The bytes stay as they are until their turn comes again: who
        waits for answers has fewer outstanding than there are slots."""
        first = self._next
        stop = min(first + count, self.slots)
        self._put(_LAP_AT, self._lap.to_bytes(4, "big"), first, stop)
        self._put(_STAMP_AT, stamp_ns.to_bytes(8, "big"), first, stop)
        taken, places = stop - first, self._first_place + first
        self.sum_of_numbers += taken * (self._lap << 32) + taken * places + taken * (taken - 1) // 2
        self._next = stop
        if stop == self.slots:
            self._next, self._lap = 0, self._lap + 1
        return self._view[first * self.frame_bytes : stop * self.frame_bytes]

    def _put(self, at: int, value: bytes, first: int, stop: int) -> None:
        """The same bytes into a run of messages: a strided copy for each byte costs 1 ns a message."""
        start = first * self.frame_bytes + self._payload_at + at
        if stop - first == 1:
            self._bytes[start : start + len(value)] = value
            return
        end, count = stop * self.frame_bytes, stop - first
        for position, byte in enumerate(value, start):
            self._bytes[position : end : self.frame_bytes] = bytes((byte,)) * count
