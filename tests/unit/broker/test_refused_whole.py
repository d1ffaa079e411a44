from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.broker import SMALL, Stage, offsets, retries, stage, values
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.broker.publish.request import ProducerCall
from penstock.broker.queues import snapshots
from penstock.broker.queues.queue import Queue
from penstock.core.errors import LogPoisoned, QueueFull, TooLarge
from penstock.log.columns import Columns

FRAME_BYTES = SMALL.journal.max_frame_bytes


async def many_ranges(
    s: Stage, count: int, lease_ms: int = 60_000, retry_policy: Mapping[str, object] | None = None
) -> Queue:
    """A queue with so many messages in leases, of which every second one is settled: the state log knows nothing."""
    queue = await s.queue(
        "source",
        limits={"max_queue_depth": None},
        group_window=2 * count,
        durability="memory",
        retry_policy=retries(10) if retry_policy is None else retry_policy,
    )
    await s.broker.group(queue, "g")
    for _ in range(0, count, 1000):
        await s.put(queue, *[b"v"] * 1000)
    group = s.group_of("source")
    taken, number = 0, s.broker.session()
    while taken < count:
        taken += sum([len(each) for each in await s.broker.pull(group, number, 1000, lease_ms=lease_ms)])
    cursor = group.cursor(queue.units[0])
    cursor.ack(array("q", range(0, count, 2)), None, -1)
    return queue


def test_a_transaction_that_is_too_large_has_settled_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            source, target = await s.queue("source"), await s.queue("target")
            consumer = await s.consumer(source)
            await s.put(source, *[b"v"] * 1000)
            deliveries = await consumer.receive(1000)
            transaction = s.broker.transaction(s.publisher)
            # Room for the batch, but not for what is settled beside it.
            transaction.put(target, Columns.of([bytes(1000)] * 126 + [bytes(300)]))
            for delivery in deliveries:
                transaction.ack(Held(delivery, range(0, len(delivery), 2)))
            with pytest.raises(TooLarge):
                await transaction.commit()
            assert (consumer.group.depth(), consumer.held) == (1000, 1000)
            assert sum(unit.end for unit in target.units.values()) == 0
            assert sum([(await s.broker.settling.ack(Held(each))).done for each in deliveries]) == 1000
            await s.restart()
            assert s.group_of("source").depth() == 0

    run(main())


def test_a_transaction_settles_its_own_in_its_frame_however_much_else_was_noted(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            source = await many_ranges(s, 20_000)
            group, unit = s.group_of("source"), source.units[0]
            target = await s.queue("target")
            await s.put(source, b"last")
            [delivery] = await s.broker.pull(group, s.broker.session(), 1, lease_ms=60_000)
            transaction = s.broker.transaction(s.publisher)
            transaction.put(target, Columns.of([b"made from it"]))
            transaction.ack(Held(delivery))
            await transaction.commit()
            assert group.depth() == 10_000
            await s.crash(tmp_path.with_name(f"{tmp_path.name}-copy"))
            assert s.group_of("source").depth() == 10_000
            assert s.broker.queue("target").units[0].end == 1
            assert unit.state_log.end > 2

    run(main())


def test_more_state_than_a_frame_holds_is_committed_in_several(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            source = await many_ranges(s, 40_000)
            await s.broker.ledger.flush([source.units[0]])
            assert not source.units[0].is_dirty
            await s.crash(tmp_path.with_name(f"{tmp_path.name}-copy"))
            cursor = s.group_of("source").cursor(s.broker.queue("source").units[0])
            assert list(cursor.window.offsets()) == list(range(1, 40_000, 2))

    run(main())


def test_a_snapshot_waits_until_the_state_log_knows_everything(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            source = await many_ranges(s, 20_000)
            await snapshots.write(s.broker.shard, source, source.units[0], s.broker.now())
            assert not source.units[0].is_dirty
            await s.crash(tmp_path.with_name(f"{tmp_path.name}-copy"))
            assert s.group_of("source").depth() == 10_000

    run(main())


def test_every_lease_that_ran_out_once_too_often_is_moved_in_frames_that_fit(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            count = 5_000
            await many_ranges(s, count, 1000, retry_policy=retries(0, "1s"))
            await s.advance(2)
            await s.quiet()
            assert s.dead_letters("$dlq/source") == count // 2
            assert s.group_of("source").depth() == 0
            await s.crash(tmp_path.with_name(f"{tmp_path.name}-copy"))
            assert s.dead_letters("$dlq/source") == count // 2
            assert s.group_of("source").depth() == 0

    run(main())


def test_a_producer_whose_call_was_too_large_may_send_it_in_halves(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=10)
            # Room for the batches, but not for what is remembered of the call: a byte for each row.
            count = 7_900
            rows = keys = [b"%4d" % number for number in range(count)]
            with pytest.raises(TooLarge):
                await s.put(queue, *rows, keys=keys, producer=ProducerCall(b"p", 0, 0))
            assert all(unit.data.end == 0 for unit in queue.units.values())
            half = count // 2
            for first in (0, half):
                call = ProducerCall(b"p", 0, first)
                some = slice(first, first + half)
                assert (await s.put(queue, *rows[some], keys=keys[some], producer=call)).duplicates == 0
            assert sum(unit.data.end for unit in queue.units.values()) == count

    run(main())


@pytest.mark.parametrize("size", [FRAME_BYTES // 2, FRAME_BYTES // 4 - 20])
def test_what_no_frame_holds_makes_no_queue(tmp_path: Path, size: int) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            transaction = s.broker.transaction(s.publisher)
            for _ in range(4):
                transaction.put(s.broker.declaring.wanted("new", {}), Columns.of([bytes(size)]))
            with pytest.raises(TooLarge):
                await transaction.commit()
            with pytest.raises(TooLarge):
                await s.publish(b"$queue/new", *[bytes(size)] * 4)
            assert s.broker.queues == []
            await s.publish(b"$queue/new", bytes(size), b"v")
            assert [queue.name for queue in s.broker.queues] == ["new"]

    run(main())


def test_puts_that_a_queue_has_no_room_for_together_make_no_other_queue(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_queue_depth": 10})
            await s.consumer(queue)
            transaction = s.broker.transaction(s.publisher)
            transaction.put(s.broker.declaring.wanted("new", {}), Columns.of([b"v"]))
            for _ in range(2):
                transaction.put(queue, Columns.of([b"v"] * 6))
            with pytest.raises(QueueFull):
                await transaction.commit()
            assert s.broker.queues == [queue]

    run(main())


def test_puts_of_one_transaction_share_the_room_of_a_queue(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_queue_depth": 10})
            await s.consumer(queue)
            transaction = s.broker.transaction(s.publisher)
            for _ in range(3):
                transaction.put(queue, Columns.of([b"v"] * 10))
            with pytest.raises(QueueFull):
                await transaction.commit()
            assert (queue.depth(), queue.expected) == (0, 0)
            transaction = s.broker.transaction(s.publisher)
            transaction.put(queue, Columns.of([b"v"] * 5))
            transaction.put(queue, Columns.of([b"v"] * 5))
            await transaction.commit()
            assert (queue.depth(), queue.expected) == (10, 0)

    run(main())


def test_publishes_that_wait_for_the_journal_keep_their_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_queue_depth": 10})
            await s.consumer(queue)
            await s.put(queue, b"first")
            usage = s.broker.shard._engine.usage
            usage.tail = 1 << 40
            puts = [asyncio.ensure_future(s.put(queue, b"v")) for _ in range(30)]
            for _ in range(5):
                await asyncio.sleep(0)
            usage.tail -= (1 << 40) - 1
            s.broker.shard._engine.room()
            outcomes = await asyncio.gather(*puts, return_exceptions=True)
            assert sum(isinstance(outcome, QueueFull) for outcome in outcomes) == 21
            assert (queue.depth(), queue.expected) == (10, 0)

    run(main())


def test_nothing_is_dropped_for_a_publish_that_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            ring = await s.queue("ring", overflow="drop-oldest", limits={"max_queue_depth": 3})
            full = await s.queue("full", limits={"max_queue_depth": 1})
            reader = await s.consumer(ring)
            await s.consumer(full)
            await s.put(ring, b"1", b"2", b"3")
            transaction = s.broker.transaction(s.publisher)
            transaction.put(ring, Columns.of([b"4"]))
            transaction.put(full, Columns.of([b"v"]))
            transaction.put(full, Columns.of([b"v"]))
            with pytest.raises(QueueFull):
                await transaction.commit()
            with pytest.raises(TooLarge):
                await s.put(ring, bytes(FRAME_BYTES - 1000), bytes(2000))
            assert values(await reader.receive(10)) == [b"1", b"2", b"3"]
            assert (ring.expected, full.expected) == (0, 0)

    run(main())


def test_a_state_log_that_takes_nothing_holds_up_no_other_queue(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            good, bad = await s.queue("good"), await s.queue("bad")
            consumers = [await s.consumer(queue) for queue in (good, bad)]
            for queue in (good, bad):
                await s.put(queue, b"1", b"2")
            taken = [await consumer.receive(10) for consumer in consumers]
            settling = s.broker.settling
            for consumer, queue in zip(consumers, (good, bad), strict=True):
                settling.ack(Held.named(consumer.group, queue.units[0], offsets(0), None, consumer.number))
            bad.units[0].state_log.fault = LogPoisoned(bad.units[0].state_log.name, "a test")
            await s.quiet()
            assert not good.units[0].is_dirty
            assert (
                await settling.ack(Held.named(consumers[0].group, good.units[0], offsets(1), None, consumers[0].number))
            ).done
            with pytest.raises(LogPoisoned):
                await s.broker.settling.ack(Held(taken[1][0]))
            assert bad.units[0].is_dirty
            await s.restart()
            assert s.group_of("good").depth() == 0

    run(main())
