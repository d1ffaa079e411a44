"""Memory that all connections together may take for what their peers have not taken, or not sent whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

# Of the memory that the process may have; the rest is for sessions, queues and the files in memory.
_SHARE = 8
_LEAST_BYTES, _MOST_BYTES = 64 << 20, 512 << 20
_LIMIT_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class Budget:
    """Used from the loop. Whoever leaves something lying may leave as much again as is free: so those who came first
    cannot take all of it, and it is never overdrawn by more than single writes. `spent` is called when it is, and makes
    room."""

    __slots__ = ("_spent", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int, spent: Callable[[], None]) -> None:
        self.limit_bytes, self._spent = limit_bytes, spent
        self.used_bytes = 0

    @property
    def room_bytes(self) -> int:
        return max(self.limit_bytes - self.used_bytes, 0)

    def take(self, size: int) -> None:
        """Less than 0 gives back."""
        self.used_bytes += size
        if size > 0 and self.used_bytes > self.limit_bytes:
            self._spent()


def usual_budget_bytes() -> int:
    """An eighth of the memory of the machine, or of what its container may have, within bounds."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _LIMIT_FILES:
        try:
            total = min(total, int(file.read_text()))
        except (OSError, ValueError):
            continue  # there is no such limit
    return min(max(total // _SHARE, _LEAST_BYTES), _MOST_BYTES)
