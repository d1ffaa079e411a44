"""Messages through a queue: published in columns, taken and acknowledged by a group, all of them counted."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, cpu_seconds, interleaved
from bench.path.load import BATCH_BYTES, BATCH_MESSAGES, MESSAGE_BYTES
from penstock.broker.broker import Broker
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.feed.inbox import Inbox
from penstock.broker.publish.publisher import Publisher
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.log.columns import Columns

_PARTITIONS = 10
_TARGET_MESSAGES_A_S = 1_000_000
# Publishers run ahead of the group as far as people let them, and no further.
_MAX_DEPTH = 50_000
_PUBLISH_RATE_A_S, _RETENTION_INTERVAL_S = 10_000, 60


@dataclass
class Passage:
    """One queue and one group. What is taken is counted, and now and then compared with what was put byte by byte."""

    broker: Broker
    queue: Queue
    group: Group
    inbox: Inbox
    columns: Columns
    publishers: list[Publisher]
    taken: int = 0
    samples: set[bytes] = field(default_factory=set)

    @classmethod
    async def open(cls, broker: Broker, name: str, columns: Columns, **settings: object) -> Passage:
        declared = {"name": name, "limits": {"max_queue_depth": 10 * _MAX_DEPTH}, "max_in_flight": 20_000, **settings}
        return await cls.of(broker, await broker.declare(declared), columns)

    @classmethod
    async def of(cls, broker: Broker, queue: Queue, columns: Columns) -> Passage:
        group = await broker.group(queue, "bench")
        inbox = broker.inbox(broker.join(group))
        publishers = [broker.publisher() for _ in range(queue.settings.partitions)]
        passage = cls(broker, queue, group, inbox, columns, publishers)
        passage.expect([columns])
        return passage

    def expect(self, several: Sequence[Columns]) -> None:
        """These may be among what is taken."""
        self.samples |= {_value(columns, row) for columns in several for row in range(columns.count)}

    async def run(self, batches: int) -> float:
        """Seconds until the last message is acknowledged by the group."""
        begun, wanted = time.perf_counter(), self.taken + batches * self.columns.count
        consuming = asyncio.ensure_future(self.consume(wanted))
        for number in range(batches):
            await self.publish(number)
            if number % 16 == 0:
                await self._room()
        await consuming
        took = time.perf_counter() - begun
        assert self.taken == wanted
        assert self.group.depth() == 0
        return took

    async def publish(self, number: int, columns: Columns | None = None) -> None:
        publisher = self.publishers[number % len(self.publishers)]
        await self.broker.publishing.put(self.queue, columns or self.columns, publisher)

    async def consume(self, wanted: int) -> None:
        while self.taken < wanted:
            await self.inbox.receive(10_000, 1.0)
            found = self.inbox.take_many(10_000)
            # One each time: what looking at it costs would be counted, and grow with the partitions.
            if found:
                self._check(found[self.taken % len(found)])
            self.taken += (await self.broker.settling.several([Held(each) for each in found])).done

    async def _room(self) -> None:
        # Nobody tells when a group has settled something.
        while self.group.depth() > _MAX_DEPTH:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _check(self, delivery: Delivery) -> None:
        assert delivery.stored.value(delivery.rows[0]) in self.samples


def columns_of_batch(*, keyed: bool = False, messages: int = BATCH_MESSAGES) -> Columns:
    """Values of random bytes; with a key of its own for each message, or without keys."""
    keys = [b"customer-%06d" % (i * 7919 % 100_000) for i in range(messages)] if keyed else None
    return Columns.of([os.urandom(MESSAGE_BYTES) for _ in range(messages)], keys=keys)


def run(settings: Run) -> list[Comparison]:
    with asyncio.Runner() as runner:
        broker = runner.run(Broker.open(settings.directory / "data"))
        found = _through(settings, runner, broker)
        found += _checks(settings, runner, broker)
        runner.run(broker.close())
    return found


def _through(settings: Run, runner: asyncio.Runner, broker: Broker) -> list[Comparison]:
    batches = settings.size(2000, 20)
    kinds = {"without keys": columns_of_batch(), "a key each": columns_of_batch(keyed=True)}
    passages = {
        (level, kind): runner.run(
            Passage.open(broker, f"{level}/{kind.replace(' ', '-')}", columns, partitions=_PARTITIONS, durability=level)
        )
        for level in ("memory", "commit")
        for kind, columns in kinds.items()
    }
    samples = interleaved(
        settings.rounds,
        {f"{level}, {kind}": partial(_pass, runner, passage, batches) for (level, kind), passage in passages.items()},
    )
    asked = {"memory, without keys": Target(">=", 1.0)}
    return [_throughput(name, taken, batches, asked.get(name)) for name, taken in samples.items()]


def _pass(runner: asyncio.Runner, passage: Passage, batches: int) -> float:
    took = runner.run(passage.run(batches))
    runner.run(passage.broker.shard.checkpoint())
    return took


def _throughput(name: str, samples: tuple[float, ...], batches: int, target: Target | None) -> Comparison:
    messages = batches * BATCH_MESSAGES
    subject = Series(f"publish, take and ack {messages:,} messages, {name}", samples, bytes=batches * BATCH_BYTES)
    allowed = Series(f"at {_TARGET_MESSAGES_A_S:,} a second", (messages / _TARGET_MESSAGES_A_S,) * len(samples))
    return Comparison(subject, allowed, target=target, notes={"a second": f"{messages / subject.spread.median:,.0f}"})


def _checks(settings: Run, runner: asyncio.Runner, broker: Broker) -> list[Comparison]:
    """What looking at limits costs, as a share of publishing one message."""
    times = settings.size(20_000, 200)
    limited = {
        "partitions": _PARTITIONS,
        "durability": "memory",
        "retention": {"messages": 10_000_000, "bytes": "10GiB"},
    }
    passage = runner.run(Passage.open(broker, "limited", columns_of_batch(messages=1), **limited))
    queue, samples = passage.queue, _Shares([], [], [])
    for _ in range(settings.rounds):
        samples.publish.append(runner.run(_publish(passage, times)))
        samples.depth.append(cpu_seconds(lambda: queue.admit(1), times))
        samples.retention.append(runner.run(_keep_house(broker)) / (_PUBLISH_RATE_A_S * _RETENTION_INTERVAL_S))
    share, publish = Target("<=", 0.05), Series("processor time of publishing it, `memory`", tuple(samples.publish))
    rate = f"a message's share, {_PUBLISH_RATE_A_S:,} a second, a look every {_RETENTION_INTERVAL_S} s"
    return [
        Comparison(Series("the depth check of a message", tuple(samples.depth)), publish, Ratio.COST, share),
        Comparison(Series(f"retention: {rate}", tuple(samples.retention)), publish, Ratio.COST, share),
    ]


@dataclass
class _Shares:
    """Processor seconds a message, round by round."""

    publish: list[float]
    depth: list[float]
    retention: list[float]


async def _publish(passage: Passage, times: int) -> float:
    begun = time.thread_time()
    for number in range(times):
        await passage.publish(number)
    took = (time.thread_time() - begun) / times
    await passage.consume(passage.taken + times)
    return took


async def _keep_house(broker: Broker) -> float:
    begun = time.process_time()
    await broker.shard.keep_house()
    return time.process_time() - begun


def _value(columns: Columns, row: int) -> bytes:
    return bytes(columns.source[columns.value.starts[row] : columns.value.ends[row]])


BENCHMARK = Benchmark("queues", "500 x 256 B a publish, 10 partitions, one group that takes and acks everything", run)
