"""One attempt in one turn of the loop: all of it is staged, or nothing has changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest import mock

import pytest
from tests.support.broker import SMALL, Stage, stage, values
from tests.support.loop import run

from penstock.broker.publish.commit import Frame
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import Limits, PublishRequest, Put
from penstock.broker.queues.queue import Queue
from penstock.core.errors import DiskLow, NoSuchQueue, OutcomeUnknown, PenstockError, QueueFull, TooLarge
from penstock.log.columns import Columns

FRAME_BYTES = SMALL.journal.max_frame_bytes


def rows(count: int, value: bytes = b"v") -> Columns:
    return Columns.of([value] * count)


def put(s: Stage, queue: Queue, columns: Columns, partition: int | None = None) -> Put:
    return Put(queue, columns, s.publisher, partition)


def is_untouched(*queues: Queue) -> bool:
    """No gate is passed and no room is kept."""
    return all(not queue.gate.under_way and not queue.expected for queue in queues)


def test_puts_of_one_attempt_share_the_room_of_a_queue(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, other = await s.queue(limits={"max_queue_depth": 10}), await s.queue("other")
            await s.consumer(queue)
            for each in (queue, other):
                await s.put(each, b"first")
            intake, told = s.broker.publishing.intake, list[PenstockError | None]()
            with pytest.raises(QueueFull):
                intake.try_stage([put(s, other, rows(1)), *[put(s, queue, rows(4))] * 3], told.append)
            assert is_untouched(queue, other) and (queue.depth(), other.units[0].data.end) == (1, 1)
            assert intake.try_stage([put(s, queue, rows(4)), put(s, queue, rows(5))], told.append) is not None
            assert (queue.depth(), queue.expected) == (10, 0)
            await s.broker.shard.drain()
            assert told == [None] and is_untouched(queue, other)

    run(main())


def test_puts_of_one_frame_into_a_ring_drop_for_all_of_them_or_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            ring = await s.queue(overflow="drop-oldest", limits={"max_queue_depth": 5})
            consumer, intake = await s.consumer(ring), s.broker.publishing.intake
            await s.put(ring, *[b"%d" % number for number in range(5)])
            with pytest.raises(QueueFull):
                await intake.stage(PublishRequest([put(s, ring, rows(3))] * 2))
            assert ring.depth() == 5 and is_untouched(ring)
            assert intake.try_stage([put(s, ring, rows(1))], lambda error: None) is None
            await intake.stage(PublishRequest([put(s, ring, rows(2)), put(s, ring, rows(1))]))
            assert ring.depth() == 5 and is_untouched(ring)
            assert values(await consumer.receive(10)) == [b"3", b"4", b"v", b"v", b"v"]

    run(main())


def test_messages_are_counted_when_they_are_committed_and_only_then(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            one, two = await s.queue("one"), await s.queue("two")
            for queue in (one, two):
                await s.put(queue, b"first")
            publishing, told = s.broker.publishing, list[PenstockError | None]()
            assert publishing.intake.try_stage([put(s, one, rows(2)), put(s, two, rows(3))], told.append) is not None
            topics = [b"$queue/one", b"$queue/two"]
            targets = publishing.routes.targets(topics)
            assert targets is not None
            routed = (Columns.of([b"x", b"x"], topics=topics), targets, s.publisher, None)
            assert publishing.intake.try_stage((), told.append, (), routed) is not None
            assert (one.published, two.published) == (1, 1)
            await s.broker.shard.drain()
            assert (one.published, two.published, told) == (4, 5, [None, None])
            transaction = s.broker.transaction(s.publisher)
            transaction.put(one, rows(1))
            await transaction.commit()
            frame = publishing.intake.try_stage([put(s, one, rows(5))], told.append)
            assert frame is not None
            await s.broker.shard.drain()
            assert (one.published, publishing.intake.latency.count) == (10, 15)
            lost = Frame(Limits.ASKED, True, publishing.intake.latency)
            assert lost.take(one, 7, {}, s.broker.now()) is None
            lost.done(OutcomeUnknown("a test"))
            assert one.published == 10

    run(main())


def test_who_is_refused_behind_an_obstacle_takes_no_step_and_keeps_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, intake = await s.queue(partitions=3, unkeyed="spread"), s.broker.publishing.intake
            first = s.publisher.partition(queue)
            assert intake.try_stage([put(s, queue, rows(1))], lambda error: None) is None  # no partition is made yet
            for _ in range(3):
                await s.put(queue, b"v")
            with pytest.raises(TooLarge):
                await s.put(queue, bytes(FRAME_BYTES - 1000), bytes(2000))
            low = mock.patch.object(s.broker.shard, "stage_now", mock.Mock(side_effect=DiskLow(0, 1)))
            with low, pytest.raises(DiskLow):
                intake.try_stage([put(s, queue, rows(1))], lambda error: None)
            assert s.publisher.partition(queue) == first and is_untouched(queue)
            [placed] = (await s.put(queue, b"v")).placed
            assert placed.partition == (first + 1) % 3

    run(main())


def test_a_queue_that_is_deleted_while_a_put_waits_for_its_gate_takes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, other = await s.queue(), await s.queue("other")
            await s.put(other, b"first")
            await queue.gate.close()
            request = PublishRequest([put(s, other, rows(1)), put(s, queue, rows(1))])
            waiting = asyncio.ensure_future(s.broker.publishing.intake.stage(request))
            await asyncio.sleep(0)
            assert not waiting.done() and is_untouched(other)
            await s.broker.declaring.delete(queue)
            queue.gate.open()
            with pytest.raises(NoSuchQueue):
                await waiting
            assert is_untouched(queue, other) and other.units[0].data.end == 1

    run(main())


def test_a_publisher_remembers_nothing_of_queues_that_keep_its_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            sticky, spread = await s.queue("a", partitions=4), await s.queue("b", partitions=4, unkeyed="spread")
            publisher = Publisher(6)
            for queue in (sticky, spread, sticky):
                await s.put(queue, b"v", publisher=publisher)
            assert (publisher.partition(sticky), publisher.partition(spread)) == (2, 3)
            assert publisher._steps.keys() == {spread.incarnation}
            await s.broker.declaring.change(sticky, {"partitions": 5})
            assert publisher.partition(sticky) == 1

    run(main())
