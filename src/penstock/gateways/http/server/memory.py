"""Memory that all connections of HTTP together may take: bodies that are coming or worked on, and what clients have not
taken of answers and event streams."""

from __future__ import annotations

import logging
from typing import Protocol

from penstock.gateways.http.counters import HttpCounters
from penstock.gateways.http.options import HttpOptions
from penstock.gateways.wire.budget import Budget, usual_budget_bytes
from penstock.log.upkeep.faults import Telling

logger = logging.getLogger("penstock.http")

# Of the largest bodies, as many can come at a time, however small the budget is.
_LARGEST_BODIES = 3


class Deaf(Protocol):
    """A connection whose client does not take what was written to it."""

    def sacrifice(self) -> None: ...


class HttpMemory:
    """Used from the loop. Half is for bodies, half for answers: who sends is not refused for those who do not read."""

    def __init__(self, options: HttpOptions, counters: HttpCounters) -> None:
        self._counters = counters
        self._telling = Telling(logger)
        self._deaf: dict[Deaf, int] = {}
        """how much waits for each of those that take nothing at the moment"""
        self.incoming = Budget(0, _nothing)
        self.outgoing = Budget(0, self._make_room)
        self.apply(options)

    def apply(self, options: HttpOptions) -> None:
        half = (options.memory_bytes or usual_budget_bytes() // 2) // 2
        self.incoming.limit_bytes = max(half, _LARGEST_BODIES * options.max_body_bytes)
        self.outgoing.limit_bytes = half

    def note_refusal(self) -> None:
        """A body, or requests sent ahead, for which nothing is left."""
        self._counters.throttled["memory"] += 1
        text = "memory for requests is spent, they are refused used=%d budget=%d"
        self._telling.warn("incoming", text, self.incoming.used_bytes, self.incoming.limit_bytes)

    def leave(self, connection: Deaf, waiting_bytes: int) -> None:
        """So much waits for a client that has stopped to take it."""
        self.take(connection)
        self._deaf[connection] = waiting_bytes
        self.outgoing.take(waiting_bytes)

    def take(self, connection: Deaf) -> None:
        """It takes again, or is gone."""
        self.outgoing.take(-self._deaf.pop(connection, 0))

    def _make_room(self) -> None:
        """More waits than may: whoever leaves the most is cut off."""
        worst = max(self._deaf, key=self._deaf.__getitem__)
        self._counters.throttled["memory"] += 1
        text = "memory for answers is spent, clients that take nothing are cut off waiting=%d budget=%d"
        self._telling.warn("outgoing", text, self._deaf[worst], self.outgoing.limit_bytes)
        self.take(worst)
        worst.sacrifice()


def _nothing() -> None:
    """Who has no room is refused by whoever asks for it."""
