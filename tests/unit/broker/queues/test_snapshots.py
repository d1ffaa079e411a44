from __future__ import annotations

import asyncio
import random
from pathlib import Path

from tests.support.broker import Stage, retries, stage
from tests.support.loop import run

from penstock.broker.publish.request import ProducerCall
from penstock.broker.queues import snapshots
from penstock.broker.queues.group import Group
from penstock.broker.queues.unit import Unit
from penstock.kernels.window import PendingEntry
from penstock.log.columns import Columns
from penstock.queues import snapshot


def state(group: Group, unit: Unit) -> tuple[int, int, int, list[PendingEntry]]:
    cursor = group.cursor(unit)
    window = cursor.window
    entries = [entry for offset in window.offsets() if (entry := window.entry(offset)) is not None]
    return window.floor, window.next, cursor.history_end, entries


async def live(s: Stage, messages: int = 60, seed: int = 1) -> Group:
    """A group with messages in every state."""
    queue = await s.queue(retry_policy=retries(20, "1h"), durability="memory")
    consumer = await s.consumer(queue)
    draw = random.Random(seed)
    await s.put(queue, *[b"v"] * messages, keys=[b"%d" % draw.randrange(5) for _ in range(messages)])
    await s.broker.pull(consumer.group, s.broker.session(), 5, lease_ms=10_000_000)
    for message in await s.receive(consumer, messages // 2):
        action = draw.randrange(4)
        if action == 0:
            await s.ack(consumer, message)
        elif action == 1:
            await s.fail(consumer, message)
    consumer.leave()
    return consumer.group


def test_recovery_from_a_snapshot_equals_the_live_state_and_the_whole_replay(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            group = await live(s)
            unit = s.broker.queue("q").units[0]
            await s.broker.ledger.flush([unit])
            await s.restart()
            unit = s.broker.queue("q").units[0]
            replayed = state(s.group_of(), unit)
            await snapshots.write(s.broker.shard, s.broker.queue("q"), unit, s.clock.now_ms())
            await s.broker.shard.trim(unit.state_log, unit.state_log.end)
            await s.restart()
            unit = s.broker.queue("q").units[0]
            assert unit.snapshots is not None
            assert state(s.group_of(), unit) == replayed
            assert group.key == s.group_of().key

    run(main())


def test_what_came_after_a_snapshot_is_replayed_on_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await live(s)
            queue = s.broker.queue("q")
            await snapshots.write(s.broker.shard, queue, queue.units[0], s.clock.now_ms())
            consumer = s.broker.join(s.group_of())
            found = await s.receive(consumer, 10)
            await s.ack(consumer, *found[:5])
            await s.restart()
            again = s.broker.join(s.group_of())
            offsets = [m.offset for m in await s.receive(again)]
            assert set(offsets).isdisjoint(m.offset for m in found[:5])
            assert {m.offset for m in found[5:]} <= set(offsets)

    run(main())


def test_a_snapshot_is_due_after_enough_records_or_time_if_it_is_worth_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await live(s)
            unit, now = s.broker.queue("q").units[0], s.clock.now_ms()
            unit.last_snapshot_ms = now
            unit.records_since_snapshot, unit.bytes_since_snapshot, unit.snapshot_bytes = 9_999, 1000, 999
            assert not snapshots.is_due(unit, now + snapshots.INTERVAL_MS - 1)
            assert snapshots.is_due(unit, now + snapshots.INTERVAL_MS)
            unit.records_since_snapshot = 10_000
            assert snapshots.is_due(unit, now)
            unit.snapshot_bytes = 1000
            assert not snapshots.is_due(unit, now + 10 * snapshots.INTERVAL_MS)

    run(main())


def test_upkeep_writes_snapshots_and_keeps_three_of_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await live(s)
            queue = s.broker.queue("q")
            unit = queue.units[0]
            await s.advance(301)
            assert unit.snapshots is not None and len(unit.snapshot_starts) == 1
            kept = []
            for _ in range(4):
                await s.put(queue, b"more")
                consumer = s.broker.join(s.group_of())
                await s.ack(consumer, (await s.receive(consumer))[-1])
                consumer.leave()
                unit.snapshot_bytes = 0
                await s.advance(301)
                kept.append(len(unit.snapshot_starts))
            assert kept == [2, 3, 3, 3]
            first, included = unit.snapshot_starts[0]
            assert (unit.snapshots.start, unit.state_log.start) == (first, included) != (0, 0)
            before = s.group_of().cursor(unit).window.offsets()
            await s.restart()
            unit = s.broker.queue("q").units[0]
            assert s.group_of().cursor(unit).window.offsets() == before
            assert len(unit.snapshot_starts) == 3

    run(main())


def test_a_snapshot_that_was_not_finished_is_passed_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await live(s)
            queue = s.broker.queue("q")
            unit = queue.units[0]
            await snapshots.write(s.broker.shard, queue, unit, s.clock.now_ms())
            before = s.group_of().cursor(unit).window.offsets()
            pieces = list(snapshot.pieces([b"x" * (2 << 20)], unit.state_log.end, s.clock.now_ms()))
            assert unit.snapshots is not None and len(pieces) == 3
            await s.broker.shard.append(unit.snapshots, Columns.of([pieces[0][:100]]))
            await s.restart()
            unit = s.broker.queue("q").units[0]
            assert s.group_of().cursor(unit).window.offsets() == before

    run(main())


def test_producers_are_in_snapshots(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            call = ProducerCall(b"p", 3, 7)
            first = await s.put(queue, b"v", producer=call)
            unit = queue.units[0]
            await snapshots.write(s.broker.shard, queue, unit, s.clock.now_ms())
            await s.broker.shard.trim(unit.state_log, unit.state_log.end)
            await s.restart()
            again = await s.put(s.broker.queue("q"), b"v", producer=call)
            assert (again.placed, again.duplicates) == (first.placed, 1)

    run(main())


def test_two_that_are_written_at_once_stand_one_behind_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await live(s)
            queue = s.broker.queue("q")
            unit = queue.units[0]
            now = s.clock.now_ms()
            await asyncio.gather(*(snapshots.write(s.broker.shard, queue, unit, now) for _ in range(3)))
            assert unit.snapshots is not None
            assert len(snapshot.wholes(s.broker.shard.readable(unit.snapshots, 0))) == 3

    run(main())
