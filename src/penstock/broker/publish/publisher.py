"""Who publishes: a connection. Messages without a key go to one partition of a queue, so that they keep order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.broker.queues.queue import Queue


class Publisher:
    __slots__ = ("_number", "_steps")

    def __init__(self, number: int) -> None:
        self._number = number
        self._steps: dict[int, int] = {}
        """by incarnation, in queues that spread such messages"""

    def partition(self, queue: Queue) -> int:
        """Where messages without a key go; where the last ones went, in a queue that spreads them."""
        number = self._number
        if self._steps:
            number += self._steps.get(queue.incarnation, 0)
        return number % queue.settings.partitions

    @property
    def place(self) -> int:
        """What stands for it in a column of places: see kernels.routing."""
        return -1 - self._number

    def step(self, queue: Queue) -> int:
        """Another partition at each call, for messages that need no order."""
        self.steps(queue)
        return self.partition(queue)

    def steps(self, queue: Queue) -> int:
        """The same: how far it has come from its own one."""
        taken = self._steps[queue.incarnation] = self._steps.get(queue.incarnation, 0) + 1
        return taken

    def step_back(self, queue: Queue) -> None:
        """What the last step was for came to nothing."""
        self._steps[queue.incarnation] -= 1
