"""Those who are fed messages of a group, each with an outlet that has as much room as a test gives it."""

from __future__ import annotations

import asyncio

from tests.support.broker import Stage

from penstock.broker.broker import Broker
from penstock.broker.feed.competing import Competitor
from penstock.broker.feed.consumer import Consumer
from penstock.broker.feed.delivery import Delivery
from penstock.broker.queues.group import Group

MUCH = 1 << 30


class Fed:
    """A source with its feed, and an outlet of a door."""

    def __init__(self, broker: Broker, source: Competitor | Consumer, left: int = MUCH) -> None:
        self.left = left
        """messages that the outlet takes yet"""
        self.deliveries: list[Delivery] = []
        self.errors: list[BaseException] = []
        self.is_dismissed = False
        self._seen = 0
        self.number = source.number
        self.feed = broker.feed(source, self)

    def room(self) -> int:
        return self.left

    def send(self, deliveries: list[Delivery]) -> int:
        self.left -= sum(map(len, deliveries))
        assert self.left >= 0
        self.deliveries += deliveries
        return len(deliveries)

    def dismissed(self) -> None:
        self.is_dismissed = True

    def broke(self, error: BaseException) -> None:
        self.errors.append(error)

    def news(self) -> list[Delivery]:
        """What was sent since the last time."""
        first, self._seen = self._seen, len(self.deliveries)
        return self.deliveries[first:]


class Rival(Fed):
    """One who competes."""

    def __init__(
        self,
        broker: Broker,
        group: Group,
        prefetch: int = 0,
        priority: int = 0,
        left: int = MUCH,
        *,
        alone: bool = False,
    ) -> None:
        self.priority = priority
        self.competitor = broker.compete(group, prefetch, priority=priority, is_exclusive=alone)
        super().__init__(broker, self.competitor, left)

    @property
    def free(self) -> int:
        """How many messages would be sent."""
        return min(self.left, self.competitor.room)


async def quiet(stage: Stage, *fed: Fed) -> None:
    """All who are told have come, and so have those whom they left something."""
    for _ in range(3):
        for _ in range(4):
            await asyncio.sleep(0)
        while reading := [task for each in fed if (task := each.feed.reading) is not None]:
            await asyncio.wait(reading)
            await asyncio.sleep(0)
        await stage.quiet()
