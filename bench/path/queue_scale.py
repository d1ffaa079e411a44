"""What a message costs when there are many partitions, idle queues, idle groups: the same rate is offered to each, and
the processor time of the whole process is what counts."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, interleaved
from bench.path.load import BATCH_MESSAGES
from bench.path.queues import Passage, columns_of_batch
from penstock.broker.broker import Broker
from penstock.broker.feed.held import Held
from penstock.log.columns import Columns

_PARTITIONS = {100: Target("<=", 2.0), 1000: Target("<=", 10.0)}
_IDLE_QUEUES, _IDLE_GROUPS, _DECLARED_AT_ONCE = 10_000, 100, 200
# Upkeep comes each 5 s, and looks at a twelfth of the idle queues: a sample has to have its share of that.
_SECONDS, _IDLE_SECONDS = 1, 5


@dataclass(frozen=True)
class Load:
    """So many messages a second, in calls of so many."""

    name: str
    rate_a_s: int
    call_messages: int
    is_keyed: bool

    def columns(self) -> list[Columns]:
        """One call after the other."""
        if self.call_messages > 1:
            return [columns_of_batch(keyed=self.is_keyed)]
        batch = columns_of_batch(keyed=True)
        return [batch.select(array("i", [row])) for row in range(batch.count)]


_WHOLE = Load("columns of 500 without keys, each to one partition", 20_000, BATCH_MESSAGES, False)
_SINGLE = Load("one message a call, by its key", 5_000, 1, True)
_SCATTERED = Load("columns of 500 keys, scattered", 20_000, BATCH_MESSAGES, True)


def run(settings: Run) -> list[Comparison]:
    with asyncio.Runner() as runner:
        opened = {count: runner.run(_open(settings.directory / str(count), count)) for count in (1, *_PARTITIONS)}
        found = [
            comparison
            for load in (_WHOLE, _SINGLE, _SCATTERED)
            for comparison in _over_partitions(settings, runner, opened, load)
        ]
        for passage in opened.values():
            runner.run(passage.broker.close())
        return found + _beside_idle(settings, runner)


def _over_partitions(settings: Run, runner: asyncio.Runner, opened: dict[int, Passage], load: Load) -> list[Comparison]:
    calls = settings.size(load.rate_a_s * _SECONDS // load.call_messages, 5)
    samples = interleaved(
        settings.rounds, {str(count): partial(_cost, runner, passage, load, calls) for count, passage in opened.items()}
    )
    one = Series(f"one partition, {load.rate_a_s:,}/s", samples["1"])
    return [
        Comparison(Series(f"{load.name}, {count:,}", samples[str(count)]), one, Ratio.COST, target)
        for count, target in _PARTITIONS.items()
    ]


def _beside_idle(settings: Run, runner: asyncio.Runner) -> list[Comparison]:
    """One broker after the other: what upkeep costs one of them must not be counted for another."""
    queues = settings.size(_IDLE_QUEUES, 100)
    calls = settings.size(_WHOLE.rate_a_s * _IDLE_SECONDS // _WHOLE.call_messages, 5)
    samples: dict[str, tuple[float, ...]] = {}
    for name, idle_queues, idle_groups in (("alone", 0, 0), ("queues", queues, 0), ("groups", 0, _IDLE_GROUPS)):
        passage = runner.run(_open_again(settings.directory / name, 10, idle_queues, idle_groups))
        samples |= interleaved(settings.rounds, {name: partial(_cost, runner, passage, _WHOLE, calls)})
        runner.run(passage.broker.close())
    alone, target = Series("a queue of 10 partitions alone", samples["alone"]), Target("<=", 1.2)
    return [
        Comparison(Series(f"beside {queues:,} idle queues", samples["queues"]), alone, Ratio.COST, target),
        Comparison(Series(f"beside {_IDLE_GROUPS} idle groups", samples["groups"]), alone, Ratio.COST, target),
    ]


async def _open(directory: Path, partitions: int, idle_queues: int = 0, idle_groups: int = 0) -> Passage:
    """A busy queue, every partition of which has messages. Each idle queue has a message, and a group that has settled
    it; idle groups are the busy queue's, and have settled nothing."""
    broker = await Broker.open(directory)
    passage = await Passage.open(broker, "busy", columns_of_batch(keyed=True), partitions=partitions)
    await passage.run(10)
    numbers = iter(range(idle_queues))
    await asyncio.gather(*[_declare_idle(broker, numbers) for _ in range(_DECLARED_AT_ONCE)])
    for number in range(idle_groups):
        await broker.group(passage.queue, f"idle-{number}")
    await broker.declaring.change(passage.queue, {"limits": {"max_queue_depth": 1 << 40}})
    await broker.shard.checkpoint()
    return passage


async def _open_again(directory: Path, partitions: int, idle_queues: int, idle_groups: int) -> Passage:
    """Idle is what was not made just now: nothing of it waits to be written."""
    passage = await _open(directory, partitions, idle_queues, idle_groups)
    await passage.broker.close()
    broker = await Broker.open(directory)
    passage = await Passage.of(broker, broker.queue("busy"), columns_of_batch(keyed=True))
    await passage.run(10)
    return passage


async def _declare_idle(broker: Broker, numbers: Iterator[int]) -> None:
    message = columns_of_batch(messages=1)
    for number in numbers:
        queue = await broker.declare({"name": f"idle/{number}", "partitions": 1})
        consumer = broker.join(await broker.group(queue, "idle"))
        await broker.publishing.put(queue, message, broker.publisher())
        await broker.settling.several([Held(each) for each in await consumer.receive(1)])
        consumer.leave()


def _cost(runner: asyncio.Runner, passage: Passage, load: Load, calls: int) -> float:
    """Processor seconds a message."""
    took = runner.run(_offer(passage, load, calls))
    runner.run(passage.broker.shard.checkpoint())
    return took


async def _offer(passage: Passage, load: Load, calls: int) -> float:
    """At a fixed rate, whether the calls before have returned or not."""
    loop, columns = asyncio.get_running_loop(), load.columns()
    passage.expect(columns)
    begun, messages = time.process_time(), calls * load.call_messages
    consuming = loop.create_task(passage.consume(passage.taken + messages))
    start, calling = loop.time(), []
    for number in range(calls):
        await asyncio.sleep(max(start + number * load.call_messages / load.rate_a_s - loop.time(), 0))
        calling.append(loop.create_task(passage.publish(number, columns[number % len(columns)])))
    await asyncio.gather(*calling)
    await consuming
    return (time.process_time() - begun) / messages


BENCHMARK = Benchmark(
    "queue-scale", "processor time a message at a fixed rate: many partitions, idle queues, idle groups", run
)
