"""A broker on a small directory, with a clock that goes where the test sends it, and short words for what tests do."""

from __future__ import annotations

import asyncio
import shutil
from array import array
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.support.clock import FakeClock

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.feed.consumer import Consumer
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.feed.settling import Settled
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import ProducerCall, Published
from penstock.broker.queues.group import Group
from penstock.broker.queues.partitioned import PartitionedQueue
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import EARLIEST, Start
from penstock.broker.queues.unit import Unit
from penstock.log.columns import Columns
from penstock.log.journal.journal import JournalOptions
from penstock.log.options import ShardOptions
from penstock.log.segments.keeper import KeeperOptions
from penstock.queues.declared import group_key, queue_key

SMALL = ShardOptions(
    journal=JournalOptions(file_bytes=256 << 10, limit_bytes=2 << 20, max_frame_bytes=128 << 10),
    keeper=KeeperOptions(flush_bytes=4 << 10),
    disk_reserve_bytes=0,
    housekeeping_s=0,
)
# Frames of the size that the product has.
LARGE = ShardOptions(disk_reserve_bytes=0, housekeeping_s=0)


class Got(NamedTuple):
    """One message as a consumer sees it."""

    partition: int
    offset: int
    value: bytes
    times: int
    """it was handed out, this time included"""


def got(deliveries: Iterable[Delivery]) -> list[Got]:
    found = []
    for delivery in deliveries:
        counts = delivery.deliveries or array("i", [1]) * len(delivery)
        for row, offset, count in zip(delivery.rows, delivery.offsets, counts, strict=True):
            found.append(Got(delivery.unit.partition, offset, delivery.stored.batch.value(row), count))
    return found


def values(deliveries: Iterable[Delivery]) -> list[bytes]:
    return [message.value for message in got(deliveries)]


def offsets(*numbers: int) -> array[int]:
    return array("q", numbers)


@dataclass
class Stage:
    """A broker, opened and opened again."""

    directory: Path
    options: BrokerOptions = field(default_factory=lambda: BrokerOptions(shard=SMALL))
    clock: FakeClock = field(default_factory=FakeClock)
    broker: Broker = field(init=False)
    publisher: Publisher = field(init=False)

    async def open(self) -> None:
        self.broker = await Broker.open(self.directory, self.options, self.clock)
        self.publisher = self.broker.publisher()

    async def restart(self) -> None:
        await self.broker.close()
        await self.open()

    async def crash(self, copy: Path) -> None:
        """What is on the disk at this moment is opened, as if the process were gone. The old directory is deleted."""
        # Behind a checkpoint the threads of the shard rest: the copy is of one moment.
        await self.broker.shard.checkpoint()
        shutil.copytree(self.directory, copy)
        before, self.directory = self.directory, copy
        await self.restart()
        shutil.rmtree(before)

    async def queue(self, name: str = "q", partitions: int = 1, **settings: object) -> Queue:
        return await self.broker.declare({"name": name, "partitions": partitions, **settings})

    async def put(
        self,
        queue: Queue,
        *messages: bytes,
        keys: Sequence[bytes] | None = None,
        partition: int | None = None,
        producer: ProducerCall | None = None,
        publisher: Publisher | None = None,
        expiry: Sequence[int] | None = None,
        topics: Sequence[bytes] | None = None,
    ) -> Published:
        columns = Columns.of(messages, keys=keys, expiry=expiry, topics=topics)
        return await self.broker.publishing.put(queue, columns, publisher or self.publisher, partition, producer)

    async def publish(self, topic: bytes, *messages: bytes) -> list[Published]:
        columns = Columns.of(messages, topics=[topic] * len(messages))
        return await self.broker.publishing.publish(columns, self.publisher)

    async def consumer(
        self, queue: Queue, group: str = "g", prefetch: int | None = None, start: Start = EARLIEST
    ) -> Consumer:
        return self.broker.join(await self.broker.group(queue, group, start), prefetch)

    async def receive(self, consumer: Consumer, limit: int = 1000) -> list[Got]:
        return got(await consumer.receive(limit))

    async def ack(self, consumer: Consumer, *messages: Got) -> Settled:
        return await self.broker.settling.ack(self.held(consumer, messages))

    async def fail(self, consumer: Consumer, *messages: Got, delay_ms: int | None = None, detail: str = "") -> Settled:
        return await self.broker.settling.fail(self.held(consumer, messages), delay_ms, detail)

    async def reject(self, consumer: Consumer, *messages: Got, detail: str = "") -> Settled:
        return await self.broker.settling.reject(self.held(consumer, messages), detail)

    def held(self, consumer: Consumer, messages: Sequence[Got]) -> Held:
        group, unit = consumer.group, self.unit_of(consumer.group.queue, messages)
        return Held.named(group, unit, _offsets(messages), _counts(messages), consumer.number)

    def unit_of(self, queue: PartitionedQueue, messages: Sequence[Got]) -> Unit:
        [partition] = {message.partition for message in messages}
        return queue.units[partition]

    async def advance(self, seconds: float) -> None:
        """The time is later, everything that was due has been done."""
        await self.quiet()  # upkeep that began before is not about the later time
        self.clock.advance(seconds)
        self.broker.alarms.ring()
        await self.quiet()

    async def quiet(self) -> None:
        """Nothing is under way any more."""
        for _ in range(3):
            await asyncio.sleep(0)
            await self.broker.heads.idle()
            await self.broker.settling.finish()
            await self.broker.ledger.drain()
            if self.broker._upkeep is not None:
                await asyncio.wait([self.broker._upkeep])

    def dead_letters(self, name: str = "$dlq/q") -> int:
        """How many lie in that queue; 0 if there is no such queue."""
        found = [queue for queue in self.broker.queues if queue.name == name]
        return sum(unit.data.end - unit.data.start for queue in found for unit in queue.units.values())

    def group_of(self, queue: str = "q", group: str = "g") -> Group:
        """After a restart."""
        return next(found for found in self.broker.queue(queue).groups.values() if found.key.name == group)


def _offsets(messages: Sequence[Got]) -> array[int]:
    return array("q", [message.offset for message in messages])


def _counts(messages: Sequence[Got]) -> array[int]:
    return array("i", [message.times for message in messages])


@asynccontextmanager
async def stage(
    directory: Path, *, shard: ShardOptions = SMALL, auto_create: bool = True, max_auto_queues: int = 10_000
) -> AsyncIterator[Stage]:
    made = Stage(directory, BrokerOptions(shard=shard, auto_create=auto_create, max_auto_queues=max_auto_queues))
    await made.open()
    try:
        yield made
    finally:
        await made.broker.close()


async def begin_to_delete(on: Stage, queue: Queue) -> None:
    """What versions that deleted a queue in several commits wrote in the first of them."""
    record = msgspec.structs.replace(queue.record, is_deleted=True)
    gone = [(group_key(queue.incarnation, group.number), None) for group in queue.groups.values()]
    await on.broker.declaring._configuration.write((queue_key(queue.incarnation), record), *gone)


def retries(count: int, backoff: str = "10s", **more: object) -> Mapping[str, object]:
    """A retry policy with a backoff that does not grow."""
    return {"max_retries": count, "initial_backoff": backoff, "max_backoff": backoff, **more}
