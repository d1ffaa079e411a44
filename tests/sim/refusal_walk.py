"""Random transactions, publishes and settlements, of sizes around what a frame holds, against a naive model: a call
that is refused changes nothing, now or after a crash. Some go to queues that are not there, to topics that are retained
or that a session with little room subscribes to."""

from __future__ import annotations

import asyncio
import random
from array import array
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.broker import SMALL, Stage, stage
from tests.support.loop import run

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.publish.request import ProducerCall
from penstock.broker.queues.queue import Queue
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.options import Policy, SessionOptions
from penstock.broker.sessions.session import Session
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.sessions.targets import RETAIN
from penstock.broker.topics.publication import Publication
from penstock.broker.topics.subscriptions import Audience, Subscription
from penstock.broker.topics.topics import Topics
from penstock.core.errors import InvalidArgument, PenstockError, QueueFull, StaleSettlement, TooLarge
from penstock.log.columns import Columns
from penstock.queues import records

MOST_MADE = 20
LIMITS: dict[str, int | None] = {"a": 60, "b": None, "ring": 25}
FRAME_BYTES = SMALL.journal.max_frame_bytes
LEASE_MS = 3_600_000
SESSIONS = SessionOptions(message_logs=1, max_queued_messages=30, policy=Policy.DISCONNECT)
DEEP = b"/".join([b"a"] * 300)
"""more levels than what is retained may have"""


@dataclass
class Model:
    """What is not settled in each queue, oldest first, and what the producer has sent."""

    unsettled: dict[str, list[bytes]] = field(default_factory=lambda: {name: [] for name in LIMITS})
    sequence: int = 0
    made: dict[str, int] = field(default_factory=dict)
    """how many messages are in queues that made themselves"""
    queued: int = 0
    dropped: int = 0
    """of the session"""

    def refuses(self, counts: dict[str, int]) -> bool:
        for name, count in counts.items():
            limit, kept = LIMITS.get(name), 0 if name == "ring" else len(self.unsettled.get(name, ()))
            if limit is not None and kept + count > limit:
                return True
        return False

    def drop(self, count: int) -> None:
        """So many messages come to the ring."""
        waiting, limit = self.unsettled["ring"], LIMITS["ring"] or 0
        del waiting[: max(len(waiting) + count - limit, 0)]


@dataclass(eq=False)
class Away:
    """`topics.Subscriber`, of a client that is not connected."""

    stored: Session
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    overflows: int = 0
    is_connected: bool = False
    is_behind: bool = False
    is_storing: bool = False

    @property
    def audience(self) -> Audience:
        raise AssertionError("it is not connected")

    def overflown(self) -> None:
        self.overflows += 1


@dataclass
class Walk:
    s: Stage
    draw: random.Random
    path: Path
    model: Model = field(default_factory=Model)
    held: list[tuple[str, Delivery, int, bytes]] = field(default_factory=list)
    made: int = 0
    refused: int = 0
    crashes: int = 0
    topics: Topics = field(init=False)
    away: Away = field(init=False)

    async def run(self, steps: int) -> None:
        for name, limit in LIMITS.items():
            overflow = "drop-oldest" if name == "ring" else "reject"
            queue = await self.s.queue(
                name,
                overflow=overflow,
                limits={"max_queue_depth": limit},
                performance={"delivery_timeout": "10h"},
                topics=[f"to/{name}/#"],
            )
            await self.s.broker.group(queue, "g")
            await queue.unit(0)
        await self.open()
        try:
            await self.walk(steps)
        finally:
            await self.topics.close()

    async def walk(self, steps: int) -> None:
        often = {self.transact: 8, self.publish: 8, self.send: 3, self.take: 6, self.settle: 2, self.read: 2}
        acts = often | {self.flush: 2, self.crash: 1, self.crowd: 1}
        for _ in range(steps):
            await self.draw.choices(list(acts), list(acts.values()))[0]()
            self.compare()
        await self.crash()
        self.compare()
        assert self.refused > steps // 20

    async def open(self) -> None:
        """What the broker's topics are for: retained messages, and one session that gets everything."""
        broker = self.s.broker
        sessions = await Sessions.open(broker.shard, broker.now, SESSIONS)
        retained = await Retained.open(broker.shard)
        await retained.space()
        self.topics = Topics(broker, sessions, retained)
        stored = sessions.find("c") or await sessions.begin("c", owner="o", expiry_s=LEASE_MS)
        self.away = Away(stored)
        for filter in ("#", "$queue/#"):
            self.topics.router("default").add(Subscription(self.away, filter, filter, None, 1))

    def queue(self, name: str) -> Queue:
        return self.s.broker.queue(name)

    def messages(self) -> list[bytes]:
        count = self.draw.choice([1, 2, 5, 20, 40])
        size = self.draw.choice(
            [10, 100, 1000, FRAME_BYTES // count // 2, FRAME_BYTES // count - self.draw.randrange(99)]
        )
        self.made += count
        return [b"%08d" % (self.made - number) + bytes(max(size - 8, 0)) for number in range(count)]

    def name(self) -> str:
        """Of a queue: now and then one that is not there."""
        new = f"new/{len(self.model.made)}" if len(self.model.made) < MOST_MADE else "new/0"
        return self.draw.choice([*LIMITS, *LIMITS, new])

    async def transact(self) -> None:
        transaction = self.s.broker.transaction(self.s.publisher)
        puts = [(self.name(), self.messages()) for _ in range(self.draw.choice([0, 1, 2, 3]))]
        for name, values in puts:
            transaction.put(self.s.broker.declaring.wanted(name, {"partitions": 1}), Columns.of(values))
        acks = self.draw.sample(self.held, min(len(self.held), self.draw.choice([0, 1, 3, 10])))
        for _, delivery, offset, _ in acks:
            transaction.ack(Held.named(delivery.group, delivery.unit, array("q", [offset]), None, delivery.consumer))
        counts: dict[str, int] = {}
        for name, values in puts:
            counts[name] = counts.get(name, 0) + len(values)
        is_stale = any(value not in self.model.unsettled[name] for name, _, _, value in acks)
        if await self.happens(transaction.commit(), is_full=self.model.refuses(counts), may_be_stale=is_stale):
            assert not is_stale
            # What is dropped is decided before the transaction's own acknowledgements.
            self.model.drop(counts.get("ring", 0))
            self.settled(acks)
            for name, values in puts:
                self.stored(name, values)

    async def publish(self) -> None:
        """By topic: for a queue, for the session, and perhaps to be retained."""
        values, name, is_retained = self.messages(), self.name(), self.draw.random() < 0.4
        topic = f"to/{name}/x".encode() if name in LIMITS else f"$queue/{name}".encode()
        is_deep = is_retained and self.draw.random() < 0.3
        topic = topic + b"/" + DEEP if is_deep and name in LIMITS else DEEP if is_deep else topic
        flags = bytes([1 | (RETAIN if is_retained else 0)]) * len(values)
        columns = Columns.of(values, topics=[topic] * len(values))
        publication = Publication(columns, [topic], flags, self.s.publisher)
        names = [] if is_deep and name not in LIMITS else [name]
        is_full = self.model.refuses({each: len(values) for each in names})
        if await self.happens(self.topics.publish(publication), is_full=is_full, is_invalid=is_deep):
            assert not is_deep
            self.model.drop(len(values) if name == "ring" else 0)
            self.stored(name, values)
            room = 30 - self.model.queued
            self.model.queued += min(len(values), room)
            self.model.dropped += max(len(values) - room, 0)

    async def crowd(self) -> None:
        """Publishes at once, to queues that are not there: no more of them are made than there may be."""
        first = len(self.model.made)
        names = [f"new/{number}" for number in range(first, first + 4)]
        calls = [self.s.publish(f"$queue/{name}".encode(), b"v") for name in names]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        taken = [name for name, outcome in zip(names, outcomes, strict=True) if isinstance(outcome, list)]
        assert len(taken) == min(len(names), MOST_MADE - first), outcomes
        for name in taken:
            self.stored(name, [b"v"])

    def stored(self, name: str, values: list[bytes]) -> None:
        if name in LIMITS:
            self.model.unsettled[name] += values
        else:
            self.model.made[name] = self.model.made.get(name, 0) + len(values)

    async def read(self) -> None:
        """All that waits for the session."""
        self.away.stored.rewind()
        while taken := await self.away.stored.take(1000, 1 << 20):
            self.away.stored.settle([number for one in taken for number in one.message_ids])
        self.model.queued = 0

    async def send(self) -> None:
        """As a producer, whose sequence goes on only with what was taken."""
        values, name = self.messages(), "b"
        call = ProducerCall(b"producer", 0, self.model.sequence)
        if await self.happens(self.s.put(self.queue(name), *values, producer=call)):
            self.model.sequence += len(values)
            self.model.unsettled[name] += values

    async def take(self) -> None:
        name = self.draw.choice(list(LIMITS))
        group = self.s.group_of(name)
        for delivery in await self.s.broker.pull(
            group, self.s.broker.session(), self.draw.choice([1, 5, 30]), 0, LEASE_MS
        ):
            for row, offset in zip(delivery.rows, delivery.offsets, strict=True):
                self.held.append((name, delivery, offset, delivery.stored.batch.value(row)))

    async def settle(self) -> None:
        some = self.draw.sample(self.held, min(len(self.held), 3))
        for _, delivery, offset, _ in some:
            await self.s.broker.settling.ack(Held.named(delivery.group, delivery.unit, array("q", [offset]), None, -1))
        self.settled(some)

    async def flush(self) -> None:
        await self.s.quiet()

    async def crash(self) -> None:
        self.crashes += 1
        await self.s.quiet()
        await self.topics.sessions.flush()
        await self.topics.close()
        await self.s.crash(self.path.with_name(f"{self.path.name}-{self.crashes}"))
        self.held.clear()
        self.model.dropped = 0
        await self.open()

    def settled(self, some: list[tuple[str, Delivery, int, bytes]]) -> None:
        for each in some:
            self.held.remove(each)
            if each[3] in self.model.unsettled[each[0]]:
                self.model.unsettled[each[0]].remove(each[3])

    async def happens(
        self,
        call: Awaitable[object],
        *,
        is_full: bool = False,
        may_be_stale: bool = False,
        is_invalid: bool = False,
    ) -> bool:
        before = self.state()
        try:
            await call
        except PenstockError as error:
            expected: tuple[type[PenstockError], ...] = (TooLarge,)
            expected += (QueueFull,) if is_full else ()
            expected += (StaleSettlement,) if may_be_stale else ()
            expected += (InvalidArgument,) if is_invalid else ()
            assert isinstance(error, expected), error
            assert self.state() == before
            self.refused += 1
            return False
        assert not is_full
        return True

    def state(self) -> object:
        """Queues and partitions without messages count, and room that is kept for somebody."""
        stored, topics = self.away.stored, self.topics
        queues = sorted(self.s.broker.queues, key=lambda queue: queue.name)
        return (
            [(queue.name, queue.expected, queue._reserved, queue.depth(), queue.published) for queue in queues],
            [
                (
                    unit.data.name,
                    unit.data.end,
                    [records.encode(record) for group in queue.groups.values() for record in group.cursor(unit).dump()],
                    unit.producers.dump(),
                )
                for queue in queues
                for unit in queue.units.values()
            ],
            (stored.queued, stored.queued_bytes, stored.reserved, stored.reserved_bytes, stored.dropped),
            (self.away.overflows, topics.retained.count, topics.retaining, topics.received),
        )

    def compare(self) -> None:
        stored = self.away.stored
        assert (stored.queued, stored.dropped) == (self.model.queued, self.model.dropped)
        assert (stored.reserved, stored.reserved_bytes) == (0, 0)
        for name, count in self.model.made.items():
            assert sum(unit.data.end for unit in self.queue(name).units.values()) == count
        assert {queue.name for queue in self.s.broker.queues} == {*LIMITS, *self.model.made}
        for name, waiting in self.model.unsettled.items():
            assert self.s.group_of(name).depth() == len(waiting), name


def refusal_walk(directory: Path, seed: int, steps: int) -> None:
    """Raises what does not hold."""

    async def main() -> None:
        async with stage(directory, max_auto_queues=MOST_MADE) as s:
            await Walk(s, random.Random(seed), directory).run(steps)

    run(main())
