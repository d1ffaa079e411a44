"""Processor time of a message through a queue of one partition: published, handed to one of those who share it, and
acknowledged. The baseline is one member that gets everything."""

from __future__ import annotations

import asyncio
import itertools
import time
from functools import partial
from pathlib import Path

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, interleaved
from bench.process import BenchmarkFailed
from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.log.columns import Columns
from penstock.log.options import ShardOptions

_MESSAGE_BYTES = 256
_RIVALS = (1, 10, 100)
_MUCH = 1 << 20
_QUEUE = {"name": "q", "partitions": 1, "ordering": "none", "durability": "memory", "max_in_flight": 1_000_000}


class _Door:
    """Acknowledges what it was sent when it is asked to, as a client does that answers later."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._unsettled: list[Delivery] = []
        self.settled = 0

    def room(self) -> int:
        return _MUCH

    def send(self, deliveries: list[Delivery]) -> int:
        self._unsettled += deliveries
        return len(deliveries)

    def dismissed(self) -> None: ...

    def broke(self, error: BaseException) -> None:
        raise BenchmarkFailed(str(error))

    def settle(self) -> None:
        if self._unsettled:
            held, self._unsettled = [Held(delivery) for delivery in self._unsettled], []
            self.settled += self._broker.settling.several(held, is_awaited=False).settled.done


def run(settings: Run) -> list[Comparison]:
    found = []
    numbers = itertools.count()
    for batch, total in ((1, settings.size(20_000, 500)), (1_000, settings.size(1_000_000, 20_000))):
        calls = {
            f"{rivals or 'no'} competing, {batch:,} at a time": partial(
                _passage, settings, numbers, rivals, batch, total
            )
            for rivals in (0, *_RIVALS)
        }
        member, *others = [Series(name, taken) for name, taken in interleaved(settings.rounds, calls).items()]
        found += [Comparison(other, member, Ratio.COST) for other in others]
    return found


def _passage(settings: Run, numbers: itertools.count[int], rivals: int, batch: int, total: int) -> float:
    return asyncio.run(_seconds(settings.directory / str(next(numbers)), rivals, batch, total))


async def _seconds(directory: Path, rivals: int, batch: int, total: int) -> float:
    """Processor time a message, of all threads. `rivals`: 0 is a member."""
    broker = await Broker.open(directory, BrokerOptions(ShardOptions(disk_reserve_bytes=0)))
    try:
        queue = await broker.declare(_QUEUE)
        group = await broker.group(queue, "g")
        doors = [_Door(broker) for _ in range(rivals or 1)]
        for door in doors:
            broker.feed(broker.compete(group) if rivals else broker.join(group, _MUCH), door)
        publisher, columns = broker.publisher(), Columns.of([b"x" * _MESSAGE_BYTES] * batch)
        begun = time.process_time()
        for _ in range(total // batch):
            await broker.publishing.put(queue, columns, publisher)
            await _settle(doors)
        while group.depth():
            await _settle(doors)
        taken = time.process_time() - begun
    finally:
        await broker.close()
    shares = [door.settled for door in doors]
    if sum(shares) != total or max(shares) - min(shares) > batch:
        raise BenchmarkFailed(f"{total} messages were settled as {shares}")
    return taken / total


async def _settle(doors: list[_Door]) -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    for door in doors:
        door.settle()


BENCHMARK = Benchmark(
    "competing", "messages of one partition to one member, and to those who share it", run, syncs=False
)
