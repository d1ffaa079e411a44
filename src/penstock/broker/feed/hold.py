"""What one consumer has of one partition, and the clock that runs while it holds messages."""

from __future__ import annotations

from penstock.kernels.windows import Share
from penstock.queues.cursor import Cursor

# Settlements restart the clock of a connection's other messages, but none is held longer than so many timeouts.
MAX_CLOCK_RESTARTS = 10


class Hold(Share):
    partition: int
    held: int
    clock_ms: int
    is_revoked: bool
    alarm_ms: int
    """when somebody looks at the clock; 0 where nobody was asked to"""

    def given(self, count: int, now: int) -> None:
        if not self.held:
            self.clock_ms = now
        self.held += count

    def settled(self, cursor: Cursor, consumer: int, now: int) -> None:
        self.clock_ms = now
        self.held = cursor.held_by(consumer) if cursor.leaving else cursor.window.held_by(consumer)

    def deadline(self, cursor: Cursor, consumer: int, timeout_ms: int) -> int:
        """When the oldest of them has failed."""
        oldest = cursor.window.oldest_time(consumer)
        return min(self.clock_ms + timeout_ms, oldest + MAX_CLOCK_RESTARTS * timeout_ms)
