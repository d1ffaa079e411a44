from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.broker import Stage, stage
from tests.support.loop import run

from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import LATEST, Start
from penstock.core.errors import QueueFull


async def limited(s: Stage, depth: int, overflow: str = "reject", partitions: int = 1) -> Queue:
    return await s.queue(
        partitions=partitions, overflow=overflow, limits={"max_queue_depth": depth}, durability="memory"
    )


def test_a_full_queue_refuses_whole_publishes_until_its_slowest_group_has_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await limited(s, 5)
            fast, slow = await s.consumer(queue, "fast"), await s.consumer(queue, "slow")
            await s.put(queue, *[b"v"] * 4)
            with pytest.raises(QueueFull) as refused:
                await s.put(queue, b"v", b"v")
            assert (refused.value.depth, refused.value.limit, queue.depth()) == (4, 5, 4)
            await s.put(queue, b"v")
            await s.ack(fast, *await s.receive(fast))
            with pytest.raises(QueueFull):
                await s.put(queue, b"v")
            messages = await s.receive(slow)
            with pytest.raises(QueueFull):
                await s.put(queue, b"v")
            await s.ack(slow, messages[0])
            await s.put(queue, b"v")
            assert queue.depth() == 5

    run(main())


def test_publishes_that_are_under_way_at_the_same_time_count(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3, limits={"max_queue_depth": 5})
            await s.consumer(queue, "g")
            outcomes = await asyncio.gather(*(s.put(queue, b"v") for _ in range(24)), return_exceptions=True)
            refused = [outcome for outcome in outcomes if isinstance(outcome, QueueFull)]
            assert (len(refused), queue.depth()) == (19, 5)

    run(main())


def test_without_groups_only_retention_bounds_a_queue(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await limited(s, 5)
            await s.put(queue, *[b"v"] * 100)
            assert queue.depth() == 0

    run(main())


def test_history_that_a_later_group_reads_does_not_count_as_depth(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await limited(s, 5)
            await s.put(queue, *[b"v"] * 100)
            late = await s.consumer(queue, "late")
            assert (late.group.depth(), len(await s.receive(late, 3))) == (0, 3)
            await s.put(queue, *[b"v"] * 5)
            assert late.group.depth() == 5
            with pytest.raises(QueueFull):
                await s.put(queue, b"v")
            await s.broker.declaring.seek(late.group, Start.at_offset(0))
            assert late.group.depth() == 0
            await s.restart()
            assert s.group_of("q", "late").depth() == 0

    run(main())


def test_deleting_the_slowest_group_makes_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await limited(s, 1)
            slow = await s.consumer(queue)
            await s.put(queue, b"v")
            with pytest.raises(QueueFull):
                await s.put(queue, b"v")
            await s.broker.declaring.delete_group(slow.group)
            await s.put(queue, b"v")

    run(main())


def test_depth_counts_what_is_in_flight_or_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await limited(s, 100, partitions=2)
            consumer = await s.consumer(queue, start=LATEST)
            for partition in (0, 1):
                await s.put(queue, *[b"v"] * 5, partition=partition)
            assert consumer.group.depth() == 10
            found = [m for m in await s.receive(consumer) if m.partition == 0]
            await s.fail(consumer, found[0])
            await s.ack(consumer, *found[1:3])
            assert consumer.group.depth() == 8

    run(main())


def test_drop_oldest_settles_the_oldest_for_every_group_in_flight_or_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await limited(s, 3, "drop-oldest")
            one, two = await s.consumer(queue, "one"), await s.consumer(queue, "two")
            await s.put(queue, b"0", b"1", b"2")
            held = await s.receive(one)
            await s.ack(one, held[0])
            await s.put(queue, b"3", b"4")
            unit = queue.units[0]
            dropped = [consumer.group.cursor(unit).tally.dropped for consumer in (one, two)]
            assert dropped == [1, 2], "what a group had settled is not dropped for it"
            assert await s.ack(one, held[1]) == (0, 1)
            assert (await s.ack(one, held[2])).done == 1
            assert [m.value for m in await s.receive(two)] == [b"2", b"3", b"4"]
            assert [m.value for m in await s.receive(one)] == [b"3", b"4"]
            assert (unit.start, unit.end) == (0, 5), "the log keeps them"
            with pytest.raises(QueueFull):
                await s.put(queue, *[b"v"] * 4)

    run(main())


def test_drop_oldest_begins_with_the_partition_of_the_oldest_message(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await limited(s, 3, "drop-oldest", partitions=3)
            consumer = await s.consumer(queue)
            for partition in (1, 0, 2):
                await s.put(queue, b"%d" % partition, partition=partition)
                s.clock.advance(1)
            await s.put(queue, b"new", partition=0)
            assert sorted(m.value for m in await s.receive(consumer)) == [b"0", b"2", b"new"]
            await s.put(queue, b"newer", partition=2)
            await s.quiet()
            assert consumer.held == 2, "0 was dropped while it was in flight"

    run(main())


def test_limits_change_while_the_queue_runs(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await limited(s, 1)
            await s.consumer(queue)
            await s.put(queue, b"v")
            with pytest.raises(QueueFull):
                await s.put(queue, b"v")
            await s.broker.declaring.change(queue, {"limits": {"max_queue_depth": 2}})
            await s.put(queue, b"v")
            await s.broker.declaring.change(queue, {"overflow": "drop-oldest"})
            await s.put(queue, b"v")
            assert queue.depth() == 2

    run(main())


def test_drop_oldest_passes_offsets_that_a_crash_left_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "0") as s:
            queue = await limited(s, 3, "drop-oldest")
            await s.consumer(queue)
            await s.put(queue, b"0")
            await s.crash(tmp_path / "1")
            queue = s.broker.queue("q")
            await s.put(queue, b"1", b"2")
            assert queue.units[0].missing(0) > 1 << 30
            await s.put(queue, b"3", b"4")
            consumer = s.broker.join(s.group_of())
            assert [m.value for m in await s.receive(consumer)] == [b"2", b"3", b"4"]

    run(main())


def test_what_is_under_way_counts_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=1, limits={"max_queue_depth": 10})
            consumer = await s.consumer(queue)
            await s.put(queue, *[b"v"] * 6)
            await s.ack(consumer, *await s.receive(consumer))
            await asyncio.gather(s.put(queue, *[b"v"] * 3), s.put(queue, *[b"v"] * 7))
            assert queue.depth() == 10

    run(main())


async def compacted(s: Stage) -> Queue:
    """20 messages of 4 keys, and one of another key, of which compaction has left the last of each key."""
    queue = await s.queue(
        compaction={"enabled": True, "lag": "0s", "interval": "1s"},
        retention={"time": 0},
        limits={"message_ttl": 0, "max_queue_depth": 21},
        group_expiry=0,
        retry_policy={"max_retries": 5, "initial_backoff": "10s", "total_timeout": 0},
    )
    waiting = await s.consumer(queue, "waiting")
    await s.broker.group(queue, "idle")
    for first in range(0, 20, 5):
        await s.put(queue, *[b"v"] * 5, keys=[b"%d" % (i % 4) for i in range(first, first + 5)])
    await s.fail(waiting, (await s.receive(waiting, 1))[0], delay_ms=365 * 86_400_000)
    waiting.leave()
    await s.broker.shard.checkpoint()
    s.clock.advance(8 * 24 * 3600)
    await s.put(queue, b"last", keys=[b"other"])
    await s.broker.shard.checkpoint()
    assert {queue.depth()} == {21}
    await s.broker.shard.keep_house()
    await s.broker.shard.checkpoint()
    return queue


def test_depth_does_not_count_what_compaction_removed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await compacted(s)
            assert s.group_of("q", "idle").depth() == 5
            assert s.group_of("q", "waiting").depth() == 6, "one waits to come again, until somebody looks"
            await s.broker.keep_up(s.broker.now())
            assert (s.group_of("q", "waiting").depth(), queue.depth()) == (5, 5)
            await s.put(queue, *[b"v"] * 16, keys=[b"k"] * 16)
            with pytest.raises(QueueFull):
                await s.put(queue, b"one too many")
            await s.restart()
            idle = await s.consumer(s.broker.queue("q"), "idle")
            assert idle.group.depth() == 21
            for left in (20, 19, 18, 17, 16, 15):
                await s.ack(idle, *await s.receive(idle, 1))
                assert idle.group.depth() == left
            assert s.group_of("q", "waiting").cursor(s.broker.queue("q").units[0]).tally.lost == 0

    run(main())


def test_a_message_that_waits_and_was_compacted_is_settled_after_a_restart_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await compacted(s)
            await s.restart()
            await s.broker.keep_up(s.broker.now())
            assert s.group_of("q", "waiting").depth() == 5

    run(main())
