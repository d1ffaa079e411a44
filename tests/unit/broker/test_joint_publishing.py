"""Publishes that are staged together at the end of a turn of the loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest import mock

import pytest
from tests.support.broker import Stage, stage
from tests.support.loop import run

from penstock.broker.publisher import Publisher
from penstock.broker.queue import Queue
from penstock.core.errors import DiskLow, PenstockError

TOPIC = b"$queue/q"
Outcomes = list[PenstockError | None]


def take(s: Stage, queue: Queue, outcomes: Outcomes, *values: bytes, publisher: Publisher | None = None) -> bool:
    starts, ends, at = list[int](), list[int](), 0
    for value in values:
        starts.append(at)
        at += len(value)
        ends.append(at)
    joint, topics = s.broker.publishing.joint, [TOPIC] * len(values)
    return joint.take(queue, publisher or s.publisher, b"".join(values), starts, ends, topics, outcomes.append)


async def until_told(outcomes: Outcomes, count: int) -> None:
    while len(outcomes) < count:  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.001)


def test_publishers_of_one_turn_share_a_frame_and_keep_their_partitions(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, consumer_queue = await s.queue(partitions=3), await s.queue("r")
            publishers = [s.broker.publisher() for _ in range(3)]
            for publisher in publishers:
                await s.put(queue, b"first", publisher=publisher)
            await s.put(consumer_queue, b"first")
            frames, outcomes = s.broker.shard.metrics.frames, Outcomes()
            for number, publisher in enumerate(publishers):
                assert take(s, queue, outcomes, b"%da" % number, b"%db" % number, publisher=publisher)
            assert take(s, consumer_queue, outcomes, b"other")
            assert take(s, queue, outcomes, b"0c", publisher=publishers[0])
            assert outcomes == []
            await until_told(outcomes, 5)
            assert outcomes == [None] * 5
            assert s.broker.shard.metrics.frames == frames + 1
            assert (queue.published, consumer_queue.published) == (10, 2)
            found = [m for m in await s.receive(await s.consumer(queue)) if m.value != b"first"]
            for number in range(3):
                mine = [m for m in found if m.value.startswith(b"%d" % number)]
                assert [m.value[1:] for m in mine] == [b"a", b"b", b"c"][: len(mine)]
                assert len({m.partition for m in mine}) == 1

    run(main())


def test_queues_of_different_durability_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            slow, quick = await s.queue("slow"), await s.queue("quick", durability="memory")
            await s.put(slow, b"first")
            await s.put(quick, b"first")
            late, early = Outcomes(), Outcomes()
            assert take(s, slow, late, b"1")
            assert take(s, quick, early, b"1")
            s.broker.publishing.joint.flush()
            assert (late, early) == ([], [None])
            await until_told(late, 1)

    run(main())


@pytest.mark.parametrize("has_partition", [False, True])
def test_what_a_queue_would_make_wait_is_left_to_others(tmp_path: Path, has_partition: bool) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, outcomes = await s.queue(limits={"max_queue_depth": 2, "max_message_size": "5B"}), Outcomes()
            if not has_partition:
                assert not take(s, queue, outcomes, b"1")
                return
            consumer = await s.consumer(queue)
            await s.put(queue, b"first")
            await s.ack(consumer, *await s.receive(consumer))
            assert not take(s, queue, outcomes, b"longer than five")
            assert take(s, queue, outcomes, b"1")
            assert not take(s, queue, outcomes, b"2", b"3")
            assert take(s, queue, outcomes, b"2")
            assert not take(s, queue, outcomes, b"3")
            await until_told(outcomes, 2)
            assert (queue.expected, queue.depth()) == (0, 2)
            await queue.gate.close()
            assert not take(s, queue, outcomes, b"3")
            queue.gate.open()

    run(main())


def test_a_gate_is_closed_only_when_what_was_taken_is_committed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, outcomes = await s.queue(), Outcomes()
            await s.put(queue, b"first")
            assert take(s, queue, outcomes, b"1")
            await queue.gate.close()
            assert outcomes == [None]
            queue.gate.open()

    run(main())


def test_what_cannot_be_staged_is_told_to_all_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, outcomes, low = await s.queue(), Outcomes(), DiskLow(1, 2)
            await s.put(queue, b"first")
            with mock.patch.object(s.broker.shard, "stage_now", mock.Mock(side_effect=low)):
                assert take(s, queue, outcomes, b"1")
                assert take(s, queue, outcomes, b"2", publisher=s.broker.publisher())
                s.broker.publishing.joint.flush()
            assert outcomes == [low, low]
            assert (queue.expected, queue.published) == (0, 1)
            await queue.gate.close()
            queue.gate.open()
            assert take(s, queue, outcomes, b"3")
            await until_told(outcomes, 3)

    run(main())


def test_what_has_to_wait_comes_before_what_is_published_behind_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, outcomes = await s.queue(), Outcomes()
            await s.put(queue, b"first")
            joint, log = s.broker.publishing.joint, queue.units[0].data
            assert take(s, queue, outcomes, b"1")
            async with s.broker.shard._turns.taken([log]):
                joint.flush()
                assert joint.is_late
                assert not take(s, queue, outcomes, b"2")
                second = asyncio.create_task(s.put(queue, b"2"))
                for _ in range(5):
                    await asyncio.sleep(0)
                assert outcomes == []
            await second
            assert outcomes == [None]
            assert not joint.is_late
            found = await s.receive(await s.consumer(queue))
            assert [m.value for m in found] == [b"first", b"1", b"2"]

    run(main())
