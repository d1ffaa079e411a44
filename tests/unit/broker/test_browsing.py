from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.broker import Stage, stage
from tests.support.loop import run

from penstock.broker.browsing import Browsed, browse, find
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import LATEST, Start
from penstock.core.errors import InvalidArgument
from penstock.queues.names import MessageId


async def two_partitions(on: Stage) -> Queue:
    """Six messages, one a second, in turn in two partitions."""
    queue = await on.queue(partitions=2)
    for number in range(6):
        await on.put(queue, b"%d" % number, partition=number % 2)
        on.clock.advance(1)
    return queue


async def values(on: Stage, queue: Queue, start: Start | None = None, **options: object) -> list[bytes]:
    found = browse(on.broker, queue, start or Start("earliest"), **options)  # type: ignore[arg-type]  # as in the call
    return [message.row.value async for message in found]


def test_messages_of_all_partitions_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await two_partitions(on)
            assert await values(on, queue) == [b"0", b"1", b"2", b"3", b"4", b"5"]
            assert await values(on, queue, is_merged=False) == [b"0", b"2", b"4", b"1", b"3", b"5"]
            assert await values(on, queue, partition=1) == [b"1", b"3", b"5"]
            assert await values(on, queue, limit=2) == [b"0", b"1"]
            assert await values(on, queue, limit=0) == []

    run(main())


def test_browsing_begins_where_a_group_would(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await two_partitions(on)
            assert await values(on, queue, LATEST) == []
            assert await values(on, queue, Start.at_offset(2)) == [b"4", b"5"]
            assert await values(on, queue, Start.at_offset(1, partition=0), partition=0) == [b"2", b"4"]
            assert await values(on, queue, Start.ago(2.5)) == [b"4", b"5"]

    run(main())


def test_browsing_settles_and_holds_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await two_partitions(on)
            consumer = await on.consumer(queue)
            await values(on, queue)
            assert len(await on.receive(consumer)) == 6
            assert len(await values(on, queue)) == 6

    run(main())


def test_it_ends_with_what_was_there_when_it_began(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            await on.put(queue, b"a", b"b")
            seen: list[bytes] = []
            async for message in browse(on.broker, queue):
                seen.append(message.row.value)
                await on.put(queue, b"late")
            assert seen == [b"a", b"b"]

    run(main())


def test_a_filter_is_over_the_routing_key(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            for name in (b"eu/1", b"us/1", b"eu/2"):
                await on.publish(b"$queue/q/" + name, name)
            assert await values(on, queue, topic_filter="eu/#") == [b"eu/1", b"eu/2"]
            assert await values(on, queue, topic_filter="#") == [b"eu/1", b"us/1", b"eu/2"]
            with pytest.raises(InvalidArgument):
                await values(on, queue, topic_filter="a#")

    run(main())


def test_what_is_purged_while_it_runs_is_passed_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            for number in range(40):
                await on.put(queue, b"%d" % number)
            await on.broker.shard.checkpoint()
            messages = browse(on.broker, queue)
            first = await anext(messages)
            await on.broker.declaring.purge(queue)
            rest = [message.row.value async for message in messages]
            assert first.row.value == b"0"
            assert len(rest) < 39

    run(main())


def test_a_message_is_found_by_its_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await two_partitions(on)
            found = [message async for message in browse(on.broker, queue, partition=1)]
            assert [str(message.id) for message in found] == ["q@1:1:0", "q@1:1:1", "q@1:1:2"]
            assert await find(on.broker, found[1].id) == found[1]
            assert isinstance(found[1], Browsed)
            for gone in (MessageId("q", 1, 1, 3), MessageId("q", 2, 1, 0), MessageId("q", 1, 7, 0)):
                with pytest.raises(InvalidArgument):
                    await find(on.broker, gone)
            await on.broker.declaring.purge(queue)
            with pytest.raises(InvalidArgument):
                await find(on.broker, found[1].id)

    run(main())


def test_an_empty_queue_has_nothing_and_an_unknown_partition_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue(partitions=2)
            assert await values(on, queue) == []
            assert await values(on, queue, partition=1) == []
            with pytest.raises(InvalidArgument):
                await values(on, queue, partition=2)

    run(main())
