"""Processor time of a message that becomes a dead letter: rejected or expired, to a dead-letter queue or an exchange.
The baseline makes each letter by itself, as objects, in a frame for all of a batch."""

from __future__ import annotations

import asyncio
import itertools
import time
from array import array
from functools import partial
from pathlib import Path

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, interleaved
from bench.process import BenchmarkFailed
from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.log.columns import Columns
from penstock.log.options import ShardOptions
from penstock.queues.deadletter import FACTS, Reason
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import Exchange
from penstock.queues.properties import with_properties

_BATCH, _VALUE_BYTES = 1000, 256
_PROPERTIES = b"\x26\x00\x04task\x00\x09tasks.add\x26\x00\x02id\x00\x0412ab"
_NATIVE = b"\x91\x20\0\0\0\0\x14\x04taskS\0\0\0\x09tasks.add"
_QUEUE = {"name": "q", "partitions": 1, "ordering": "none", "durability": "memory"}
_LIMITS = {"max_queue_depth": "none"}


def run(settings: Run) -> list[Comparison]:
    numbers, total = itertools.count(), settings.size(20_000, 2_000)
    ways = ("one by one", "rejected", "rejected, one at a time published", "expired", "to an exchange")
    calls = {name: partial(_moves, settings, numbers, name, total) for name in ways}
    first, *others = [Series(name, taken) for name, taken in interleaved(settings.rounds, calls).items()]
    return [Comparison(other, first, Ratio.COST, Target("<=", 0.1)) for other in others]


def _moves(settings: Run, numbers: itertools.count[int], way: str, total: int) -> float:
    return asyncio.run(_seconds(settings.directory / str(next(numbers)), way, total))


async def _seconds(directory: Path, way: str, total: int) -> float:
    """Processor time a message, of all threads."""
    broker = await Broker.open(directory, BrokerOptions(ShardOptions(disk_reserve_bytes=0)))
    try:
        letters = {"exchange": "dlx"} if way == "to an exchange" else {}
        ring = {"expiry": "at-head"} if way == "expired" else {}
        queue = await broker.declare({**_QUEUE, "limits": {**_LIMITS, **ring}, "dlq_config": letters})
        target = await broker.declare({**_QUEUE, "name": "dead", "limits": _LIMITS})
        await broker.exchanges.declare("default", Exchange("dlx", "fanout"))
        await broker.exchanges.bind("default", "dlx", Destination("queue", "dead"), "", {})
        group = await broker.group(queue)
        await _fill(broker, queue, total, way)
        begun = time.process_time()
        if way == "expired":
            await broker.declaring.change(queue, {"limits": {"message_ttl": "1ms"}})
            await broker.heads.idle()
        elif way == "one by one":
            await _one_by_one(broker, group, target)
        else:
            offsets = await _held(broker, group)
            await broker.settling.dead_letter(group, queue.units[0], offsets, Reason.REJECTED)
        taken = time.process_time() - begun
        if group.depth():
            raise BenchmarkFailed(f"{group.depth()} messages were not moved")
    finally:
        await broker.close()
    return taken / total


async def _fill(broker: Broker, queue: Queue, total: int, way: str) -> None:
    batch = 1 if way == "rejected, one at a time published" else _BATCH
    native = [_NATIVE] * batch if way == "to an exchange" else None
    columns = Columns.of([bytes(_VALUE_BYTES)] * batch, properties=[_PROPERTIES] * batch, native=native)
    publisher = broker.publisher()
    waiting = []
    for _ in range(total // batch):
        staged = broker.publishing.put_now(queue, columns, publisher)
        if staged is None:
            await broker.publishing.put(queue, columns, publisher)
        else:
            waiting.append(staged[1])
    for committed in waiting:
        await committed


async def _held(broker: Broker, group: Group) -> array[int]:
    """All of them, held by one who has no lease, and set aside."""
    found = array("q")
    [unit] = group.queue.units.values()
    competitor = broker.compete(group)
    while len(found) < unit.end:
        await asyncio.sleep(0)
        assert competitor.may_have_more
        for delivery in await competitor.receive(1 << 20):
            found.extend(delivery.offsets)
    group.cursor(unit).set_aside(found)
    return found


async def _one_by_one(broker: Broker, group: Group, target: Queue) -> None:
    offsets, publisher = await _held(broker, group), broker.publisher()
    [unit] = group.queue.units.values()
    pairs = [(name, "some text") for name in FACTS]
    for first in range(0, len(offsets), _BATCH):
        rows = []
        for offset in offsets[first : first + _BATCH]:
            stored = await unit.stored(offset)
            assert stored is not None
            row = stored.message(stored.row_from(offset))
            rows.append(row._replace(properties=with_properties(row.properties or b"", pairs, drop=FACTS)))
            group.cursor(unit).settle(offset, offset + 1)
        columns = Columns.of([row.value for row in rows], properties=[row.properties or b"" for row in rows])
        await broker.publishing.put(target, columns, publisher)
    await broker.ledger.flush([unit])


BENCHMARK = Benchmark("letters", "messages that become dead letters, processor time each", run, syncs=False)
