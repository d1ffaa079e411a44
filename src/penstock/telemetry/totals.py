"""What queues counted, one of them or many together. Totals never go back while their queues are there."""

from __future__ import annotations

from collections import Counter

from penstock.broker.queues.queue import Queue
from penstock.core.descriptions import Tally
from penstock.core.metrics import Histogram
from penstock.queues.deadletter import Reason
from penstock.telemetry.breather import Breather

# About 0.2 ms of adding up.
_TALLIES_AT_ONCE = 200


class Totals:
    def __init__(self) -> None:
        self.published = self.refused = 0
        self.tally = Tally()
        self.dead_lettered: Counter[Reason] = Counter()
        self.latency = Histogram()

    async def add(self, queue: Queue, breather: Breather) -> None:
        # All at once: a group that is deleted while they are added up is in the past then, and counted once.
        tallies = [cursor.tally for unit in queue.units.values() for cursor in unit.cursors.values()]
        self.tally.add(queue.past)
        self.published += queue.published
        self.refused += queue.refused
        self.dead_lettered.update(queue.dead_lettered)
        self.latency.add(queue.delivery_latency)
        for first in range(0, len(tallies), _TALLIES_AT_ONCE):
            self.tally.add(*tallies[first : first + _TALLIES_AT_ONCE])
            await breather.turn()

    def add_totals(self, other: Totals) -> None:
        self.published += other.published
        self.refused += other.refused
        self.tally.add(other.tally)
        self.dead_lettered.update(other.dead_lettered)
        self.latency.add(other.latency)
