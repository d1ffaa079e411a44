"""Publisher confirms of a channel: what was published is answered in its order, when it is committed."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable

from penstock.kernels.amqp_deliver import encode_settlements

_ACK, _NACK = 80, 120
_MULTIPLE, _REQUEUE = 1, 2


class Mark:
    """Publishes that came together."""

    __slots__ = ("count", "first", "left", "refused")

    def __init__(self, first: int, count: int) -> None:
        self.first, self.count, self.left = first, count, count
        self.refused: set[int] = set()
        """places among them"""

    def done(self, count: int) -> None:
        """So many of them are stored, or nobody wanted them."""
        self.left -= count

    def refuse(self, places: Iterable[int]) -> None:
        before = len(self.refused)
        self.refused.update(places)
        self.left -= len(self.refused) - before

    @property
    def last(self) -> int:
        return self.first + self.count - 1


class Confirms:
    """Numbers begin at 1. What is answered comes out of settled(), and never before what was published earlier."""

    __slots__ = ("_channel", "_marks", "_next")

    def __init__(self, channel: int) -> None:
        self._channel, self._next = channel, 1
        self._marks: deque[Mark] = deque()

    @property
    def unconfirmed(self) -> int:
        return self._next - self._marks[0].first if self._marks else 0

    def take(self, count: int) -> Mark:
        mark = Mark(self._next, count)
        self._next += count
        self._marks.append(mark)
        return mark

    def settled(self) -> bytes:
        """Frames that answer all that can be answered now."""
        marks, first, last = self._marks, 0, 0
        methods, tags, bits = bytearray(), array("q"), bytearray()

        def answer(method: int, first: int, last: int) -> None:
            methods.append(method)
            tags.append(last)
            bits.append((_MULTIPLE if last > first else 0) | (_REQUEUE if method == _NACK else 0))

        while marks and not marks[0].left:
            mark = marks.popleft()
            if not mark.refused:
                first, last = first or mark.first, mark.last
                continue
            for place in range(mark.count):
                number = mark.first + place
                if place not in mark.refused:
                    first, last = first or number, number
                    continue
                if first:
                    answer(_ACK, first, last)
                    first = 0
                answer(_NACK, number, number)
        if first:
            answer(_ACK, first, last)
        if not methods:
            return b""
        return bytes(encode_settlements(methods, array("i", [self._channel]) * len(methods), tags, bits))
