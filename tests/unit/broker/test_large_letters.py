from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.broker import LARGE, SMALL, Stage, stage
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.broker.letters.letters import waiting
from penstock.broker.letters.redrive import RedriveOptions, redrive
from penstock.broker.queues.queue import Queue
from penstock.core.errors import TooLarge
from penstock.log.columns import Columns
from penstock.log.options import ShardOptions
from penstock.queues.deadletter import max_message_bytes
from penstock.queues.properties import encode_user_properties

FIELD_BYTES = 20_000


def large(size: int, count: int = 1, field_bytes: int = FIELD_BYTES) -> Columns:
    """Messages of so many bytes, with a key, a topic and a property of so many each."""
    topic, properties = b"$queue/q/" + b"t" * field_bytes, encode_user_properties([("name", "p" * field_bytes)])
    value = bytes(size - field_bytes - len(topic) - len(properties))
    keys = [bytes(field_bytes - 1) + bytes([number]) for number in range(count)]
    return Columns.of([value] * count, keys=keys, topics=[topic] * count, properties=[properties] * count)


async def reject_all(s: Stage, group: str, detail: str) -> int:
    consumer = await s.consumer(s.broker.queue("q"), group)
    count = 0
    while messages := await s.receive(consumer):
        count += (await s.reject(consumer, *messages, detail=detail)).done
    consumer.leave()
    return count


async def letters_of(s: Stage) -> Queue:
    return s.broker.queue("$dlq/q")


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_message_that_was_stored_with_larger_frames_is_moved_and_redriven(tmp_path: Path, compression: str) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=LARGE) as s:
            queue = await s.queue(compression=compression)
            await s.broker.group(queue, "g")
            await s.put(queue, bytes(200_000))
        async with stage(tmp_path, shard=SMALL) as s:
            assert await reject_all(s, "g", "d") == 1
            assert s.broker.queue("q").depth() == 0
            report = await redrive(s.broker, await letters_of(s))
            assert (report.done, dict(report.left)) == (1, {})
            await s.restart()
            assert s.broker.shard.max_frame_bytes > 200_000

    run(main())


@pytest.mark.parametrize(("options", "group"), [(SMALL, "g"), (LARGE, "g"), (LARGE, "g|" + "t" * FIELD_BYTES)])
def test_the_largest_message_is_moved_and_redriven_again_and_again(
    tmp_path: Path, options: ShardOptions, group: str
) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=options) as s:
            queue = await s.queue(limits={"max_message_size": "16128KiB"}, ordering="none")
            most = max_message_bytes(options.journal.max_frame_bytes)
            with pytest.raises(TooLarge, match="with its key, topic and properties"):
                await s.broker.publishing.put(queue, large(most + 1), s.publisher)
            await s.broker.group(queue, group)
            await s.broker.publishing.put(queue, large(most), s.publisher)
            for _ in range(3):
                assert await reject_all(s, group, "d" * 2000) == 1
                assert queue.depth() == 0
                report = await redrive(s.broker, await letters_of(s))
                assert (report.done, dict(report.left)) == (1, {})

    run(main())


def test_moves_are_split_by_everything_that_is_stored(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3, ordering="none")
            await s.broker.group(queue, "g")
            for _ in range(30):
                await s.broker.publishing.put(queue, large(13_000, 6, 4000), s.publisher)
            rejected = 0
            consumer = await s.consumer(queue)
            while found := await consumer.receive(1000):
                for delivery in found:
                    rejected += (await s.broker.settling.reject(Held(delivery))).done
            assert rejected == s.dead_letters() == 180
            report = await redrive(s.broker, await letters_of(s))
            assert (report.done, waiting(await letters_of(s))) == (180, 0)

    run(main())


def test_a_letter_too_large_for_its_queue_is_reported_and_the_others_go(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.broker.group(queue, "g")
            await s.put(queue, b"small", bytes(2000), b"small too")
            await reject_all(s, "g", "")
            small = await s.queue("narrow", limits={"max_message_size": "1KiB"})
            report = await redrive(s.broker, await letters_of(s), RedriveOptions(to=small))
            assert (report.done, dict(report.left)) == (2, {"it is too large for the queue": 1})
            assert waiting(await letters_of(s)) == 1

    run(main())


def test_a_message_from_before_there_was_a_limit_goes_with_the_facts_that_fit(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.broker.group(queue, "g")
            await s.put(queue, b"first")
            await reject_all(s, "g", "")
            for size in (250, 450, 1200):
                value = bytes(SMALL.journal.max_frame_bytes - size)
                await s.broker.shard.append(queue.units[0].data, Columns.of([value]))
                assert await reject_all(s, "g", "d" * 1000) == 1
            assert (s.dead_letters(), queue.depth()) == (4, 0)

    run(main())
