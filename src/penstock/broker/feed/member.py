"""A member of a group as the group knows it: the partitions it was given, what it holds of them, and how it is told
that there is more."""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.feed.hold import Hold
from penstock.kernels.windows import Member


class GroupMember(Member):
    """Used from the loop."""

    number: int
    holds: dict[int, Hold]
    """by partition"""
    ready: dict[int, None]
    """partitions that may have something, the next one first"""
    is_closed: bool

    def __init__(self, number: int, prefetch: int) -> None:
        super().__init__(number)
        self.prefetch = prefetch
        self.name = ""
        """who it is, for log lines"""
        self.timeouts, self.timed_out_ms = 0, 0
        """how often in a row its time ran out, without a word from it, and when that was last"""
        self.told: Callable[[], None] = lambda: None
        """called when there may be something, and when closed"""

    @property
    def partitions(self) -> list[int]:
        return sorted(partition for partition, hold in self.holds.items() if not hold.is_revoked)

    def assign(self, partition: int) -> None:
        self.holds[partition] = Hold(partition)
        self.notify(partition)

    def notify(self, *partitions: int) -> None:
        """There may be something in these partitions, of which some may be others'."""
        holds, ready, is_mine = self.holds, self.ready, False
        for partition in partitions:
            hold = holds.get(partition)
            if hold is not None and not hold.is_revoked:
                ready[partition] = None
                is_mine = True
        if is_mine:
            self.told()

    def wake(self) -> None:
        """There may be room again."""
        if self.ready or self.is_closed:
            self.told()

    def drop(self, partition: int) -> None:
        self.holds.pop(partition, None)
        self.ready.pop(partition, None)

    def shut(self) -> None:
        self.is_closed = True
        self.told()
