"""Who publishes: a connection. Messages without a key go to a partition that it picks once, so that they keep order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.broker.queue import Queue


class Publisher:
    def __init__(self, number: int) -> None:
        self._number = number
        self._picked: dict[tuple[int, int], int] = {}

    def partition(self, queue: Queue) -> int:
        """Picked anew when the number of partitions changes."""
        key = queue.incarnation, queue.settings.partitions
        found = self._picked.get(key)
        if found is None:
            found = self._picked[key] = self._number % queue.settings.partitions
        return found

    def next_partition(self, queue: Queue) -> int:
        """Another one at each call, for messages that need no order."""
        found = (self.partition(queue) + 1) % queue.settings.partitions
        self._picked[queue.incarnation, queue.settings.partitions] = found
        return found
