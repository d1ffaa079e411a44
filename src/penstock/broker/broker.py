"""The one API that gateways call: declare, publish, consume, settle. All of it runs on one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from penstock.broker.alarms import Alarms
from penstock.broker.catalogue import recovery as opening
from penstock.broker.catalogue.configuration import Configuration
from penstock.broker.catalogue.declarations import Declaring
from penstock.broker.catalogue.exchanging import Exchanging
from penstock.broker.catalogue.importing import Importing
from penstock.broker.catalogue.policies import Policies
from penstock.broker.catalogue.volatile import VolatileOptions
from penstock.broker.feed.begun import begun
from penstock.broker.feed.claims import Claiming
from penstock.broker.feed.competing import Competitor, take_one
from penstock.broker.feed.consumer import Consumer
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.feed import Feed, Outlet, Source
from penstock.broker.feed.feeder import Feeder
from penstock.broker.feed.inbox import Inbox
from penstock.broker.feed.pulls import pull
from penstock.broker.feed.settling import Settling
from penstock.broker.letters.dead_letters import DeadLetters
from penstock.broker.letters.heads import Heads
from penstock.broker.publish.commit import Intake
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.publishing import Publishing
from penstock.broker.publish.request import PublishRequest
from penstock.broker.publish.routes import Routes
from penstock.broker.queues import snapshots
from penstock.broker.queues.group import Group
from penstock.broker.queues.ledger import Ledger
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import EARLIEST, Start
from penstock.broker.queues.superseded import settle_superseded
from penstock.broker.queues.transaction import Acks, Transaction
from penstock.broker.queues.unit import Unit
from penstock.broker.staging.staging import Staging
from penstock.broker.topics.taps import Taps
from penstock.broker.webhooks.watch import Watch
from penstock.broker.webhooks.webhooks import Webhooks
from penstock.core.clock import SystemClock
from penstock.core.closing import AsyncClosing
from penstock.core.errors import InvalidArgument, PenstockError
from penstock.core.ports import Clock
from penstock.core.queue_paths import QUEUE_PREFIX, canonical_queue
from penstock.core.types import Purpose
from penstock.log.options import ShardOptions
from penstock.log.shard import Shard
from penstock.log.upkeep.faults import Telling
from penstock.queues.names import GroupName, MessageId, parse_group_name
from penstock.queues.settings import QueueSettings

logger = logging.getLogger("penstock.broker")

_UPKEEP_MS = 5_000
_LET_GO_MS = 1_000
# Looked at in one turn of the loop: about 0.2 ms.
_UPKEEP_QUEUES = 100
# Of those for which something is to be done.
_UPKEEP_DUE = 20
_AUTO_QUEUE_MS = 24 * 3600 * 1000
# Windows know who holds a message by 31 bits. Below it are the numbers of members.
FIRST_SESSION = 1 << 30


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    shard: ShardOptions = field(default_factory=ShardOptions)
    auto_create: bool = True
    """publishing to or subscribing to a queue that is not there makes it"""
    max_auto_queues: int = 10_000
    volatile: VolatileOptions = field(default_factory=VolatileOptions)


class Broker(AsyncClosing):
    """Use Broker.open(), from one event loop."""

    def __init__(self, shard: Shard, configuration: Configuration, clock: Clock, options: BrokerOptions) -> None:
        self.shard, self.clock, self.options = shard, clock, options
        self.timeline = shard.timeline
        self.timeline.watch(self._note_jump)
        self.alarms = Alarms(self.timeline)
        self.ledger = Ledger(shard)
        self.feeder = Feeder()
        self.webhooks = Webhooks(self.wall)
        self.taps = Taps()
        self.declaring = Declaring(
            shard,
            configuration,
            self.alarms,
            self.ledger,
            options.max_auto_queues,
            options.auto_create,
            options.volatile,
        )
        self.exchanges = Exchanging(configuration, self.declaring)
        self.policies = Policies(configuration, self.declaring)
        self.importing = Importing(self.declaring, self.exchanges, self.policies)
        self._numbers, self._sessions = count(1), count()

        def dropped(group: Group, unit: Unit) -> None:
            self.settling.after_dropping(group, unit)

        routes = Routes(shard, self.declaring)
        intake = Intake(shard, self.timeline.now, dropped)
        letters = DeadLetters(
            intake,
            routes,
            self.ledger,
            self.webhooks,
            self.publisher(),
            self.declaring.dead_letters_of,
            shard.max_frame_bytes,
            self.wall,
        )
        self.settling = self.declaring.failures = Settling(self.ledger, letters)
        self.heads = self.declaring.heads = Heads(
            self.alarms, self.timeline, self.settling, self.declaring.by_incarnation, self.declaring.delete
        )
        self.publishing = Publishing(intake, routes)
        self.publishing.bury = letters.bury
        self.staging = Staging(shard, intake, self.declaring, self.now)
        self._watch = Watch(self.webhooks, shard, lambda: self.queues, self.alarms, self.now)
        self._upkeep: asyncio.Task[None] | None = None
        self._telling = Telling(logger)
        self._is_closed = False

    @classmethod
    async def open(cls, directory: Path, options: BrokerOptions | None = None, clock: Clock | None = None) -> Broker:
        """Recover what is there; DirectoryInUse if another process has it open."""
        options, clock = options or BrokerOptions(), clock or SystemClock()
        shard = await Shard.open(directory, options.shard, clock)
        try:
            configuration = await Configuration.open(shard)
            broker = cls(shard, configuration, clock, options)
            await opening.restore(shard, configuration, broker.declaring, broker.now())
            broker.staging.restore()
        except BaseException:
            await shard.close()
            raise
        await broker.heads.begin(broker.queues)
        broker._keep_up(broker.now())
        broker.let_go(broker.now())
        return broker

    async def close(self) -> None:
        """Consumers are let go, what they held is free; everything under way is finished."""
        if self._is_closed:
            return
        self._is_closed = True
        for queue in list(self.declaring.queues.values()):
            for group in queue.groups.values():
                for consumer in list(group.consumers.values()):
                    group.leave(consumer, counted=False)
                group.free_left()
        self.alarms.close()
        if self._upkeep is not None:
            await asyncio.wait([self._upkeep])
        await self._watch.finish()
        await self.heads.finish()
        await self.settling.finish()
        await self.webhooks.close()
        await self.staging.close()
        dirty = [
            unit
            for queue in self.declaring.queues.values()
            for unit in queue.units.values()
            if any(cursor.is_dirty for cursor in unit.cursors.values())
        ]
        try:
            await self.ledger.flush(dirty)
        except PenstockError as error:
            logger.warning("closing without the last state records error=%s", error)
        await self.ledger.drain()
        await self.declaring.volatile.finish()
        await self.shard.close()

    def now(self) -> int:
        """Running time, which nobody sets: for all that waits."""
        return self.timeline.now()

    def wall(self) -> int:
        """The wall clock: for all that is stored or shown."""
        return self.clock.now_ms()

    def _note_jump(self) -> None:
        """Times in the state logs are wall times: those that count on are written anew, as they are now."""
        for queue in self.declaring.queues.values():
            for unit in queue.units.values():
                moved = [cursor.move(self.timeline.shift) for cursor in unit.cursors.values()]
                if any(moved):
                    self.ledger.flush_soon(unit)

    # Queues

    @property
    def queues(self) -> list[Queue]:
        return list(self.declaring.queues.values())

    def queue(self, name: str, namespace: str = "default") -> Queue:
        """NoSuchQueue if there is none."""
        return self.declaring.queue(name, namespace)

    async def declare(self, settings: QueueSettings | Mapping[str, object], *, if_absent: bool = False) -> Queue:
        """A mapping is read as settings people write, over those of matching templates. QueueExists, unless
        `if_absent`. The name is meant as it is written; one that begins with `$queue/` is a path."""
        if not isinstance(settings, QueueSettings):
            name = settings.get("name")
            if not isinstance(name, str):
                raise InvalidArgument("a queue needs a name: {'name': 'orders'}")
            if name.startswith(QUEUE_PREFIX):
                name = canonical_queue(name)
            settings = self.declaring.settings_for(name, {**settings, "name": name})
        return await (self.declaring.declared(settings) if if_absent else self.declaring.declare(settings))

    # Publishing

    def publisher(self) -> Publisher:
        """One for each connection that publishes."""
        return Publisher(next(self._numbers))

    def transaction(self, publisher: Publisher) -> Transaction:
        return Transaction(self.publishing, self.settling, publisher)

    def acks(self) -> Acks:
        """For the frame of a publication by topic."""
        return Acks(self.settling)

    async def settle(self, acks: Acks) -> None:
        """All of them in a frame of their own, or none: StaleSettlement."""
        await acks.prepare()
        await self.publishing.intake.stage(PublishRequest((), late=acks.late, purpose=Purpose.SETTLE))
        acks.done()

    # Consuming

    async def group(
        self, queue: Queue, name: GroupName | str = "default", start: Start = EARLIEST, *, is_derived: bool = False
    ) -> Group:
        key = name if isinstance(name, GroupName) else parse_group_name(name)
        return await self.declaring.group(queue, key, start, is_derived=is_derived)

    def join(self, group: Group, prefetch: int | None = None, *, is_immortal: bool = True) -> Consumer:
        """A member that gets messages of the partitions it is given. One that is not immortal has to send
        heartbeats."""
        limit = group.queue.settings.max_in_flight
        wanted = limit if prefetch is None else prefetch
        if wanted < 1:
            raise InvalidArgument(f"a prefetch of {wanted} lets no message through: give at least 1")
        consumer = Consumer(group, next(self._numbers), min(wanted, limit))
        group.join(consumer, is_immortal)
        return consumer

    def compete(self, group: Group, prefetch: int = 0, *, priority: int = 0, is_exclusive: bool = False) -> Competitor:
        """One of those who share all partitions of a group message by message, and hold what they get until they settle
        it or go: no time runs out. A prefetch of 0 is as many as the group's window takes. Who has a higher priority
        gets messages first. GroupInUse beside one who is exclusive, and for one who would not be alone."""
        competitor = Competitor(group, next(self._numbers), prefetch, priority, is_exclusive)
        group.compete(competitor)
        return competitor

    def take_one(self, group: Group, number: int) -> Delivery | asyncio.Task[Delivery | None] | None:
        """One message of any partition, held without a lease by that number; None if none is ready. A task where a file
        has to be read first."""
        return begun(take_one(group, number))

    def feed(self, source: Source, outlet: Outlet) -> Feed:
        """What the source is handed is sent to the outlet, from now on."""
        return Feed(source, outlet, self.feeder)

    def after_feeding(self, call: Callable[[], None]) -> None:
        """For outlets: see Feeder.after()."""
        self.feeder.after(call)

    def soon(self, call: Callable[[], None]) -> None:
        """Behind all that is fed now, or in the next turn of the loop."""
        self.feeder.soon(call)

    def inbox(self, source: Source) -> Inbox:
        """What the source is handed, for one who comes for it."""
        return Inbox(source, self.feeder)

    def session(self) -> int:
        """The number of one who pulls without being a member. Each request may take one: they come round again, long
        after the longest lease is over."""
        return FIRST_SESSION + next(self._sessions) % FIRST_SESSION

    async def pull(
        self, group: Group, session: int, limit: int, wait_s: float = 0.0, lease_ms: int | None = None
    ) -> list[Delivery]:
        """Messages of any partition, each leased for a time of its own (default: the queue's delivery_timeout)."""
        timeout = group.queue.settings.performance.lease_ms
        return await pull(group, session, limit, wait_s, timeout if lease_ms is None else lease_ms)

    async def claim(
        self, group: Group, session: int, limit: int, idle_ms: int, lease_ms: int | None = None, *, spared: int = -1
    ) -> list[Delivery]:
        """Messages that members other than `spared` were handed so long ago and have not settled, taken over by one who
        pulls: leased as in pull(). Of a key all that is in flight goes, or nothing: no more than `limit` in all."""
        timeout = group.queue.settings.performance.lease_ms
        claiming = Claiming(group, self.settling, session, idle_ms, timeout if lease_ms is None else lease_ms, spared)
        return await claiming.claim(limit)

    def find(self, message: MessageId) -> tuple[Queue, Unit]:
        """InvalidArgument for a message of a queue that is gone, or of a partition it has not."""
        queue = self.declaring.by_incarnation.get(message.incarnation)
        if queue is None or queue.name != message.queue:
            raise InvalidArgument(f"message {message} is of a queue that no longer exists")
        unit = queue.units.get(message.partition)
        if unit is None:
            raise InvalidArgument(f"message {message} is of a partition that queue {queue.name!r} does not have")
        return queue, unit

    # Upkeep

    def let_go(self, now: int) -> None:
        """Of the disk that is held by what every group has settled, a second ago at most."""
        self.alarms.set("let go", now + _LET_GO_MS, self.let_go)
        self._let_go_of(list(self.declaring.filled), 0)

    def _let_go_of(self, waiting: list[Queue], first: int) -> None:
        """Others have a turn after every few queues."""
        if self._is_closed:
            return
        filled, stop = self.declaring.filled, first + _UPKEEP_QUEUES
        if stop < len(waiting):
            asyncio.get_running_loop().call_soon(self._let_go_of, waiting, stop)
        for queue in waiting[first:stop]:
            try:
                if not queue.let_go():
                    filled.discard(queue)
            except PenstockError as error:
                logger.error("settled messages stay on the disk queue=%s error=%s", queue.name, error)
                filled.discard(queue)

    def _keep_up(self, now: int) -> None:
        self.alarms.set(self, now + _UPKEEP_MS, self._keep_up)
        if self._upkeep is None or self._upkeep.done():
            self._upkeep = asyncio.get_running_loop().create_task(self.keep_up(now))

    async def keep_up(self, now: int) -> None:
        """Groups and queues that nobody uses go, producers are forgotten, snapshots are written, stages collected."""
        due = 0
        for number, queue in enumerate(list(self.declaring.queues.values())):
            if number % _UPKEEP_QUEUES == 0:
                await asyncio.sleep(0)
            if not queue.is_upkeep_due(now):
                continue
            due += 1
            if due % _UPKEEP_DUE == 0:
                await asyncio.sleep(0)
            try:
                await self._keep_up_queue(queue, now)
            except PenstockError as error:
                self._telling.warn("queue", "upkeep failed queue=%s error=%s", queue.name, error)
        try:
            await self.staging.keep_up(now)
        except PenstockError as error:
            self._telling.warn("stages", "upkeep of stages failed error=%s", error)

    async def _keep_up_queue(self, queue: Queue, now: int) -> None:
        queue.note_upkeep(now)
        for group in list(queue.groups.values()):
            if (ends_ms := group.ends_ms) is not None and now >= ends_ms:
                logger.info("group deleted, nobody used it queue=%s group=%s", queue.name, group.name)
                await self.declaring.delete_group(group)
        for unit in list(queue.units.values()):
            unit.forget_producers(now)
            for cursor in unit.cursors.values():
                cursor.rest()
            await self._look_at_holes(queue, unit)
            if snapshots.is_due(unit, now):
                await snapshots.write(self.shard, queue, unit, now)
        if queue.record.is_auto and queue.is_unused(now, _AUTO_QUEUE_MS):
            logger.info("queue deleted, it was made by itself and nobody used it queue=%s", queue.name)
            await self.declaring.delete(queue)
            return
        if queue.is_retention_due(now):
            queue.retain(now)
        queue.plan_upkeep()

    async def _look_at_holes(self, queue: Queue, unit: Unit) -> None:
        """After a compaction: what waits to come again may be gone."""
        holes = self.shard.holes(unit.data, unit.start)
        if holes and holes != unit.holes:
            for group in list(queue.groups.values()):
                await settle_superseded(self.shard, group, unit, self.settling)
        unit.holes = holes
