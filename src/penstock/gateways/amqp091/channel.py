"""One channel: what it agreed on, what it was handed and has not answered, what it waits for."""

from __future__ import annotations

import asyncio
from typing import Protocol

from penstock.broker.feed.held import Held
from penstock.broker.feed.settling import Settling
from penstock.gateways.amqp091.confirms import Confirms
from penstock.gateways.amqp091.tags import Part, Tags
from penstock.gateways.amqp091.transactions import Gathered


class Consuming(Protocol):
    """A consumer, as its channel knows it."""

    @property
    def tag(self) -> str: ...

    @property
    def sent(self) -> int: ...

    @property
    def holds(self) -> int:
        """Messages that it was handed and are not answered."""
        ...

    def pump(self) -> None:
        """The channel may be handed more."""
        ...

    def leave(self) -> None:
        """What it holds is anybody's again."""
        ...


class Replying(Protocol):
    """Who waits for direct replies on a channel."""

    @property
    def tag(self) -> str: ...

    @property
    def address(self) -> str:
        """Where they are published to."""
        ...


class Channel:
    """Used from the loop. What waits is looked at in the order in which it came: see `waiting` and `backlog`."""

    __slots__ = (
        "_committed",
        "_settling",
        "backlog",
        "confirms",
        "consumers",
        "is_open",
        "limit",
        "number",
        "prefetch",
        "previous_queue",
        "reply",
        "retired",
        "session",
        "tags",
        "transaction",
        "under_way",
        "waiting",
    )

    def __init__(self, number: int, session: int, settling: Settling) -> None:
        """`session` holds what is got one by one."""
        self.number, self.session, self._settling = number, session, settling
        self.is_open = True
        self.confirms: Confirms | None = None
        self.transaction: Gathered | None = None
        self.tags = Tags()
        self.consumers: dict[str, Consuming] = {}
        self.retired: dict[Consuming, None] = {}
        """cancelled, and not all they were handed is answered"""
        self.reply: Replying | None = None
        self.prefetch = 0
        """of consumers to come"""
        self.limit = 0
        """for all of its consumers together; 0 is none"""
        self.previous_queue = ""
        """what an empty name of a queue stands for"""
        self.waiting: asyncio.Task[None] | None = None
        """what has to be done before anything else of it is looked at"""
        self.backlog = bytearray()
        """frames that came meanwhile"""
        self.under_way = 0
        """publications with messages of it that are not committed"""
        self._committed: asyncio.Future[None] | None = None

    @property
    def room(self) -> int:
        """Messages that its consumers together may be handed."""
        return max(self.limit - self.tags.of_consumers, 0) if self.limit else 1 << 30

    def committed(self) -> None:
        """One of them is."""
        self.under_way -= 1
        if not self.under_way and self._committed is not None:
            if not self._committed.done():
                self._committed.set_result(None)
            self._committed = None

    async def is_committed(self) -> None:
        """What it published before is where it belongs."""
        while self.under_way and self.is_open:
            if self._committed is None:
                self._committed = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._committed)

    def pump(self) -> None:
        for consumer in list(self.consumers.values()):
            consumer.pump()

    def settled(self) -> None:
        """Something was answered: there may be room again."""
        if self.limit:
            self.pump()
        for consumer in [each for each in self.retired if not each.holds]:
            del self.retired[consumer]
            consumer.leave()

    def release(self, parts: list[Part]) -> None:
        """They are anybody's again, at their place."""
        for held in held_of(parts):
            self._settling.release(held)

    def requeue(self) -> None:
        """All that is not answered."""
        self.release(self.tags.take_rest())
        self.settled()

    def close(self) -> None:
        """Nothing more of it is taken, and what it holds is anybody's again: of consumers as a whole."""
        self.is_open = False
        if self.waiting is not None:
            self.waiting.cancel()
        self.backlog.clear()
        for consumer in [*self.consumers.values(), *self.retired]:
            self.tags.drop(consumer)
            consumer.leave()
        self.consumers, self.retired, self.transaction = {}, {}, None
        self.release(self.tags.take_rest())


def held_of(parts: list[Part]) -> list[Held]:
    """As settlements name them."""
    return [Held(run.delivery, None if stop - start == run.count else range(start, stop)) for run, start, stop in parts]
