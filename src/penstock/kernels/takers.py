"""What a publish moves in each of the queues that it feeds, in one call for all of them: what one message for each of a
thousand queues costs is mostly calls.

Counts are int32, the other numbers int64. What they mean, broker/queues/queue.py and broker/queues/gate.py say."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, TypeVar

NO_LIMIT = -1
_ZERO = array("i", [0])


class Passage:
    """Counts who has passed a gate and not left it."""

    def __init__(self) -> None:
        self.under_way = 0
        self.is_closed = False
        self.is_awaited = False
        """somebody waits until nobody is under way"""

    def leave(self) -> None:
        self.under_way -= 1
        if self.is_awaited and not self.under_way:
            self.emptied()

    def emptied(self) -> None:
        """Nobody is under way any more."""
        raise NotImplementedError


class Taker:
    """The numbers of a queue that every publish moves or looks at."""

    def __init__(self, gate: Passage, changed: set[Any] | None) -> None:
        self.gate, self.changed = gate, changed
        self.filled: set[Any] | None = None
        """where it is noted when something has come"""
        self.units: dict[int, Any] = {}
        self.groups: dict[Any, Any] = {}
        self.is_deleted = False
        self.expected = self.published = self.used_ms = self.allowance = 0
        self.depth_limit, self.largest_value, self.partitions = NO_LIMIT, 0, 1
        self.spreads = False

    def note_change(self) -> None:
        if self.changed is not None and not self.is_deleted:
            self.changed.add(self)
        if self.filled is not None:
            self.filled.add(self)


T = TypeVar("T", bound=Taker)


def spreading(queues: Sequence[Taker]) -> list[int]:
    """The places of those that spread messages without a key."""
    found = []
    for i in range(len(queues)):
        queue = queues[i]
        if queue.spreads:
            found.append(i)
    return found


def targets(fed: Sequence[Sequence[T]]) -> tuple[list[T], array[int], array[int]]:
    """The queues that topics feed, each once: topic t feeds those numbers[begins[t]:begins[t + 1]] of them."""
    queues, known = list[T](), dict[T, int]()
    total = 0
    for i in range(len(fed)):
        total += len(fed[i])
    begins, numbers = _ZERO * (len(fed) + 1), _ZERO * total
    firsts, places = begins, numbers
    total = 0
    for i in range(len(fed)):
        some = fed[i]
        for j in range(len(some)):
            queue = some[j]
            number = known.get(queue)
            if number is None:
                known[queue] = number = len(queues)
                queues.append(queue)
            places[total] = number
            total += 1
        firsts[i + 1] = total
    return queues, begins, numbers


def take(queues: Sequence[T], counts: array[int], first: int, now: int, is_kept: bool, taken: dict[T, int]) -> int:
    """Pass the gates of queues from the first one on, and take room for counts[i] rows where that is more than 0, as
    far as nothing has to be asked: the place of the first whose gate is closed, whose depth has to be worked out, or
    which is among those taken. What was taken is added to `taken`; room is kept for it if it is asked for."""
    for i in range(first, len(queues)):
        count, queue = counts[i], queues[i]
        if count < 1:
            continue
        if queue.gate.is_closed or queue in taken:
            return i
        if queue.depth_limit >= 0 and len(queue.groups):
            if queue.allowance < count:
                return i
            queue.allowance -= count
        queue.gate.under_way += 1
        queue.used_ms = now
        if is_kept:
            queue.expected += count
        taken[queue] = count
    return len(queues)


def release(taken: dict[T, int]) -> None:
    """Room that was kept counts itself from now on, or is given back."""
    for queue, count in taken.items():
        queue.expected -= count


def leave(taken: dict[T, int], is_committed: bool, is_published: bool) -> int:
    """What was taken is committed, or not: the gates are left. How many rows were published."""
    rows = 0
    for queue, count in taken.items():
        queue.gate.leave()
        if is_committed:
            queue.note_change()
        if is_published:
            queue.published += count
            rows += count
    return rows


def data_logs(queues: Sequence[Taker], first_lanes: array[int], counts: array[int], logs: list[Any]) -> int:
    """Add the data logs of the lanes that get rows, in order; the place of the first queue that lacks one of them, -1
    if all are there."""
    for i in range(len(queues)):
        queue = queues[i]
        for lane in range(first_lanes[i], first_lanes[i + 1]):
            if counts[lane]:
                unit = queue.units.get(lane - first_lanes[i])
                if unit is None:
                    return i
                logs.append(unit.data)
    return -1
