from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.broker import LARGE, stage
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.core.errors import InvalidArgument, QueueFull, StaleSettlement, TooLarge
from penstock.log.columns import Columns


def test_a_transaction_publishes_and_settles_in_one_frame(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            source, one, two = await s.queue("source"), await s.queue("one"), await s.queue("two")
            consumer = await s.consumer(source)
            for queue in (source, one, two):
                await s.put(queue, b"first")
            [delivery] = await consumer.receive(1)
            frames = s.broker.shard.metrics.frames
            transaction = s.broker.transaction(s.publisher)
            transaction.put(one, Columns.of([b"a", b"b"]))
            transaction.put(two, Columns.of([b"c"]))
            transaction.ack(Held(delivery))
            assert consumer.held == 1, "nothing has happened yet"
            published = await transaction.commit()
            assert s.broker.shard.metrics.frames == frames + 1
            assert [tuple(result.placed[0]) for result in published] == [(0, 1, 2), (0, 1, 1)]
            assert (consumer.held, consumer.group.depth()) == (0, 0)
            await s.restart()
            assert s.group_of("source").depth() == 0
            assert [s.broker.queue(name).units[0].end for name in ("one", "two")] == [3, 2]
            with pytest.raises(InvalidArgument, match="begin another"):
                await transaction.commit()

    run(main())


def test_a_transaction_with_a_stale_delivery_is_refused_whole(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            source, target = await s.queue("source"), await s.queue("target")
            consumer = await s.consumer(source)
            await s.put(source, b"1")
            await s.put(source, b"2")
            one, two = await consumer.receive(10)
            await s.broker.settling.ack(Held(two))
            transaction = s.broker.transaction(s.publisher)
            transaction.put(target, Columns.of([b"v"]))
            transaction.ack(Held(one))
            transaction.ack(Held(two))
            with pytest.raises(StaleSettlement, match="nothing of it was done"):
                await transaction.commit()
            assert (consumer.group.depth(), consumer.held) == (1, 1)
            assert sum(unit.end for unit in target.units.values()) == 0
            assert (await s.broker.settling.ack(Held(one))).done == 1

    run(main())


def test_a_transaction_that_one_queue_refuses_does_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            source = await s.queue("source")
            full = await s.queue("full", limits={"max_queue_depth": 1})
            await s.consumer(full)
            await s.put(full, b"v")
            consumer = await s.consumer(source)
            await s.put(source, b"v")
            [delivery] = await consumer.receive(1)
            transaction = s.broker.transaction(s.publisher)
            transaction.put(source, Columns.of([b"v"]))
            transaction.put(full, Columns.of([b"v"]))
            transaction.ack(Held(delivery))
            with pytest.raises(QueueFull):
                await transaction.commit()
            assert (source.units[0].end, consumer.held) == (1, 1)

    run(main())


@pytest.mark.parametrize("other", ["there", "unmade"])
def test_what_a_queue_refuses_is_said_before_a_stale_delivery(tmp_path: Path, other: str) -> None:
    """Whether or not a queue is to be made for the transaction."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            source, small = await s.queue("source"), await s.queue("small", limits={"max_message_size": 64})
            full, _ = await s.queue("full", limits={"max_queue_depth": 1}), await s.queue("there")
            await s.consumer(full)
            await s.put(full, b"v")
            consumer = await s.consumer(source)
            await s.put(source, b"v")
            [delivery] = await consumer.receive(1)
            await s.broker.settling.ack(Held(delivery))
            named = [queue.name for queue in s.broker.queues]
            for queue, value, refusal in (
                (small, bytes(65), TooLarge),
                (full, b"v", QueueFull),
                (small, b"v", StaleSettlement),
            ):
                transaction = s.broker.transaction(s.publisher)
                transaction.put(queue, Columns.of([value]))
                transaction.put(s.broker.declaring.wanted(other, {}), Columns.of([b"v"]))
                transaction.ack(Held(delivery))
                with pytest.raises(refusal):
                    await transaction.commit()
            assert [queue.name for queue in s.broker.queues] == named
            assert sum(unit.end for unit in small.units.values()) == 0

    run(main())


def test_a_transaction_over_16_mib_is_refused_with_its_size_and_nothing_is_settled(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=LARGE) as s:
            source, target = await s.queue("source"), await s.queue("target")
            consumer = await s.consumer(source)
            await s.put(source, b"v")
            [delivery] = await consumer.receive(1)
            transaction = s.broker.transaction(s.publisher)
            for _ in range(17):
                transaction.put(target, Columns.of([b"v" * (1 << 20)]))
            transaction.ack(Held(delivery))
            with pytest.raises(TooLarge, match=str(17 << 20)[:3]):
                await transaction.commit()
            assert (consumer.held, target.units[0].end) == (1, 0)
            assert (await s.broker.settling.ack(Held(delivery))).done == 1

    run(main())


def test_an_empty_transaction_is_no_frame(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            frames = s.broker.shard.metrics.frames
            assert await s.broker.transaction(s.publisher).commit() == []
            assert s.broker.shard.metrics.frames == frames

    run(main())
