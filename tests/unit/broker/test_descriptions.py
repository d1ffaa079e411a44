from __future__ import annotations

from pathlib import Path

import msgspec
from tests.support.broker import retries, stage
from tests.support.loop import run

from penstock.broker.descriptions import describe_group, describe_queue
from penstock.core.descriptions import QueueDescription


def test_a_queue_is_described_with_its_settings_and_partitions(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue(partitions=3)
            await on.put(queue, b"a", b"b", partition=0)
            await on.put(queue, b"c", partition=2)
            found = await describe_queue(queue, on.broker.now())
            assert (found.name, found.namespace, found.messages, found.published) == ("q", "default", 3, 3)
            assert [(each.partition, each.start, each.end, each.messages) for each in found.partitions] == [
                (0, 0, 2, 2),
                (2, 0, 1, 1),
            ]
            assert found.settings["partitions"] == 3
            assert found.dead_letter_queue == "$dlq/q"
            assert msgspec.json.decode(msgspec.json.encode(found), type=QueueDescription) == found

    run(main())


def test_lag_counts_what_is_not_settled_and_depth_what_came_after_the_group(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            await on.put(queue, b"a", b"b")
            on.clock.advance(5)
            group = await on.broker.group(queue, "g")
            await on.put(queue, b"c")
            found = await describe_group(group, on.broker.now())
            assert (found.depth, found.lag, found.lag_s) == (1, 3, 5.0)
            consumer = on.broker.join(group)
            await on.ack(consumer, *(await on.receive(consumer, 2)))
            on.clock.advance(2)
            found = await describe_group(group, on.broker.now())
            assert (found.depth, found.lag, found.lag_s) == (1, 1, 2.0)
            assert found.partitions[0].floor == found.partitions[0].next == 2
            await on.ack(consumer, *(await on.receive(consumer)))
            found = await describe_group(group, on.broker.now())
            assert (found.depth, found.lag, found.lag_s) == (0, 0, 0.0)

    run(main())


def test_what_a_group_holds_waits_for_and_has_done_is_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue(retry_policy=retries(3))
            consumer = await on.consumer(queue, prefetch=10)
            await on.put(queue, *[b"%d" % number for number in range(6)])
            messages = await on.receive(consumer)
            await on.ack(consumer, messages[0])
            await on.fail(consumer, messages[1])
            await on.reject(consumer, messages[2])
            found = await describe_group(consumer.group, on.broker.now())
            assert (found.in_flight, found.waiting, found.lag) == (3, 1, 4)
            assert (found.counts.delivered, found.counts.acked, found.counts.failed) == (6, 1, 1)
            assert found.counts.dead_lettered == 1
            [member] = found.members
            assert (member.partitions, member.prefetch, member.in_flight) == ([0], 10, 3)
            assert found.partitions[0].owner == member.number
            assert found.generation >= 1
            assert found.rebalances == 1

    run(main())


def test_a_group_of_a_reopened_directory_stands_where_it_stood(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            consumer = await on.consumer(queue, "g|eu/#")
            await on.put(queue, b"a", b"b", topics=[b"$queue/q/eu/1", b"$queue/q/eu/2"])
            messages = await on.receive(consumer)
            await on.ack(consumer, messages[0])
            await on.broker.declaring.pause_group(consumer.group, True)
            await on.restart()
            [found] = (await describe_queue(on.broker.queue("q"), on.broker.now())).groups
            assert (found.name, found.filter, found.is_paused) == ("g", "eu/#", True)
            assert (found.lag, found.partitions[0].floor, found.members) == (1, 1, [])

    run(main())
