from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.broker import Stage, offsets, stage
from tests.support.loop import run

from penstock.broker.feed.consumer import Consumer
from penstock.broker.feed.held import Held
from penstock.broker.feed.settling import Settled
from penstock.broker.queues.unit import Unit
from penstock.broker.visits import Visits
from penstock.core.errors import JournalFailed, PenstockError
from penstock.log.batch import Batch
from penstock.queues.records import Kind, decode


async def held(s: Stage, count: int = 3) -> tuple[Consumer, Unit]:
    queue = await s.queue()
    consumer = await s.consumer(queue)
    await s.put(queue, *[b"v"] * count)
    await s.receive(consumer)
    return consumer, queue.units[0]


def kinds(s: Stage, unit: Unit) -> list[Kind]:
    batches = s.broker.shard.reader.batches(unit.state_log, unit.state_log.start)
    return [decode(row.value).kind for data in batches for row in Batch.parse(data)]


def test_deliveries_ride_in_the_commit_of_a_settlement(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, unit = await held(s)
            assert unit.state_log.end == 0
            await s.broker.settling.ack(Held.named(consumer.group, unit, offsets(1), None, consumer.number))
            assert kinds(s, unit) == [Kind.DELIVERED], "the range leaves out what is settled"
            await s.broker.settling.ack(Held.named(consumer.group, unit, offsets(0), None, consumer.number))
            assert kinds(s, unit) == [Kind.DELIVERED, Kind.SETTLED]

    run(main())


def test_a_settlement_whose_record_a_transaction_took_along_waits_for_that_frame(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2")
            [delivery] = await consumer.receive(10)
            unit = queue.units[0]

            async def ack() -> Settled:
                return await s.broker.settling.ack(Held(delivery, [0]))

            acking = asyncio.ensure_future(ack())
            transaction = s.broker.transaction(s.publisher)
            transaction.ack(Held(delivery, [1]))
            committing = asyncio.ensure_future(transaction.commit())
            assert await acking == (1, 0)
            assert unit.state_log.visible_end == unit.state_log.end == 1
            assert await committing == []

    run(main())


def test_a_settlement_that_could_not_be_committed_is_not_acknowledged(tmp_path: Path) -> None:
    async def main() -> None:
        s = Stage(tmp_path)
        await s.open()
        consumer, unit = await held(s)
        s.broker.shard._engine.commit.fail(JournalFailed("no disk"))
        with pytest.raises(PenstockError):
            await s.broker.settling.ack(Held.named(consumer.group, unit, offsets(0), None, consumer.number))
        await s.broker.close()
        await s.open()
        again = s.broker.join(s.group_of())
        assert len(await s.receive(again)) == 3
        await s.broker.close()

    run(main())


def test_a_visitor_commits_a_settlement_without_a_turn_of_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, unit = await held(s)
            visits = Visits(s.broker.shard, s.broker.ledger)
            visits.begin()
            work = s.broker.settling.ack(Held.named(consumer.group, unit, offsets(0), None, consumer.number))
            [waited] = work.waiting
            assert visits.end()
            progress = visits.commit()
            assert progress is not None
            assert not waited.done()
            visits.report(progress)
            assert waited.done()
            assert await work == (1, 0)
            assert unit.state_log.visible_end == unit.state_log.end == 1

    run(main())


def test_a_flush_that_was_due_soon_and_came_at_once_does_not_come_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, unit = await held(s)
            consumer.group.cursor(unit).ack(offsets(0), None, consumer.number)
            first = s.broker.ledger.flush_soon(unit)
            s.broker.ledger.flush_now()
            consumer.group.cursor(unit).ack(offsets(1), None, consumer.number)
            second = s.broker.ledger.flush_soon(unit)
            assert first is not second
            await asyncio.gather(first, second)
            assert kinds(s, unit) == [Kind.DELIVERED, Kind.SETTLED]

    run(main())


def test_settlements_that_nobody_waits_for_go_with_one_that_somebody_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, unit = await held(s)
            frames = s.broker.shard.metrics.frames
            for offset in (1, 2):
                acked = Held.named(consumer.group, unit, offsets(offset), None, consumer.number)
                s.broker.settling.ack(acked, is_awaited=False)
                await asyncio.sleep(0)
            assert s.broker.shard.metrics.frames == frames
            await s.broker.settling.ack(Held.named(consumer.group, unit, offsets(0), None, consumer.number))
            assert s.broker.shard.metrics.frames == frames + 1
            assert unit.state_log.end == 1

    run(main())


def test_settlements_that_nobody_waits_for_are_committed_a_little_later_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, unit = await held(s)
            frames = s.broker.shard.metrics.frames
            acked = [Held.named(consumer.group, unit, offsets(each), None, consumer.number) for each in (0, 1, 2)]
            settlements = [s.broker.settling.ack(each, is_awaited=False) for each in acked]
            assert [await each for each in settlements] == [(1, 0)] * 3
            assert s.broker.shard.metrics.frames == frames + 1
            assert unit.state_log.end == 1

    run(main())


def test_settlements_that_nobody_waits_for_are_committed_before_the_broker_closes(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, unit = await held(s)
            acked = Held.named(consumer.group, unit, offsets(0, 1, 2), None, consumer.number)
            s.broker.settling.ack(acked, is_awaited=False)
            await s.restart()
            again = s.broker.join(s.group_of())
            assert await s.receive(again) == []

    run(main())
