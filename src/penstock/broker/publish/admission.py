"""Who is let in: a queue's gate, the size of messages, and room for them, which is kept until they are staged."""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from penstock.broker.publish.drops import Drops
from penstock.broker.publish.request import Limits
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.core.errors import NoSuchQueue
from penstock.kernels import takers

# A member that is looked up costs as much as a call.
_ASKED, _NONE = Limits.ASKED, Limits.NONE

Dropped = Callable[[Group, Unit], None]
"""told that messages of a group were dropped"""
Planned = dict[Queue, Drops]
"""what may be dropped for the rows of one request"""


class Obstacle:
    """Why something cannot be done in this turn of the loop. Nothing has changed; after wait() it is worth a try."""

    __slots__ = ("wait",)

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        self.wait = wait


async def _plan(queue: Queue, count: int, planned: Planned) -> None:
    """Find out which of the oldest messages have to go."""
    await planned.setdefault(queue, Drops(queue)).plan(count)


class Reservation:
    """The gates of queues are passed, and their room is kept from the moment rows are let in until they are staged,
    when they count themselves, or refused: nobody else gets it, and several puts into one queue see each other. What
    is to be dropped for them is dropped when they are staged(). Used from the loop."""

    __slots__ = ("_drops", "counts", "is_kept", "is_over", "limits")

    def __init__(self, limits: Limits, is_kept: bool) -> None:
        """Room need not be kept for one put that is staged in the same turn."""
        self.limits, self.is_kept = limits, is_kept
        self.counts: dict[Queue, int] = {}
        """how many rows each queue gets"""
        self.is_over = False
        """the gates were left"""
        self._drops: Sequence[Drops] = ()

    def take(self, queue: Queue, count: int, planned: Planned, now: int) -> Obstacle | None:
        """QueueFull if the queue refuses so many more; nothing has changed then."""
        counts, limits = self.counts, self.limits
        before = counts.get(queue, 0)
        if limits is _ASKED:
            has_room = queue.admit(count, before, partial(self.value_bytes, queue))
        elif queue.is_deleted:
            raise NoSuchQueue(queue.name)
        else:
            has_room = limits is _NONE or not queue.drops_oldest
        if not has_room:
            drops = planned.get(queue)
            if drops is None or not drops.are_enough(count if limits is _ASKED else before + count):
                return Obstacle(partial(_plan, queue, before + count, planned))
            self._drops = [*self._drops, drops]
        if not before and not queue.gate.enter_now():
            return Obstacle(queue.gate.opened)
        queue.used_ms = now
        counts[queue] = before + count
        if self.is_kept and limits is _ASKED:
            queue.expected += count
        return None

    def value_bytes(self, queue: Queue) -> int:
        """Of the rows that the queue is to take now."""
        return 0

    def take_all(self, queues: list[Queue], counts: array[int], planned: Planned, now: int) -> Obstacle | None:
        """take() for each queue that gets rows, in order."""
        assert self.limits is _ASKED
        at = 0
        while (at := takers.take(queues, counts, at, now, self.is_kept, self.counts)) < len(queues):
            if (obstacle := self.take(queues[at], counts[at], planned, now)) is not None:
                return obstacle
            at += 1
        return None

    def staged(self, dropped: Dropped) -> None:
        """They count themselves from now on."""
        for drops in self._drops:
            drops.apply(dropped)
        self._release()

    def _release(self) -> None:
        if self.is_kept and self.limits is _ASKED:
            takers.release(self.counts)
        self.is_kept = False

    def give_back(self) -> None:
        """They are refused, or nobody waits for them any more. Once, and not after their commit."""
        if not self.is_over:
            self.is_over = True
            self._release()
            takers.leave(self.counts, False, False)
