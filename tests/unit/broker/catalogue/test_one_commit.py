"""A queue with all it begins with is one commit, and so is its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.broker import Stage, stage
from tests.support.loop import run

from penstock.broker.queues.queue import Queue
from penstock.core.errors import JournalFailed, QueueExists
from penstock.queues.exchange_types import Destination
from penstock.queues.names import GroupName

DEFAULT = GroupName("default")


async def declared(s: Stage, name: str = "q", partitions: int = 1) -> Queue:
    settings = s.broker.declaring.settings_for(name, {"name": name, "partitions": partitions})
    return await s.broker.declaring.declare(settings, (DEFAULT, GroupName("spark")))


def frames(s: Stage) -> int:
    return s.broker.shard.metrics.frames


def test_a_queue_comes_with_its_groups_and_its_partition_in_one_commit(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            before = frames(s)
            queue = await declared(s)
            assert frames(s) == before + 1
            await s.put(queue, b"1")
            assert frames(s) == before + 2
            await s.restart()
            queue = s.broker.queue("q")
            assert [(str(key), group.record.is_permanent) for key, group in queue.groups.items()] == [
                ("default", True),
                ("spark", True),
            ]
            consumer = s.broker.join(queue.group(DEFAULT))
            assert [message.value for message in await s.receive(consumer)] == [b"1"]

    run(main())


def test_partitions_of_a_queue_that_has_several_are_made_when_they_are_needed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await declared(s, partitions=3)
            assert queue.units == {}

    run(main())


def test_a_queue_goes_with_its_groups_bindings_and_logs_in_one_commit(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            logs = s.broker.shard.log_count
            queue = await declared(s, partitions=3)
            for partition in range(3):
                await s.put(queue, b"1", partition=partition)
            await s.broker.exchanges.bind("default", "amq.direct", Destination("queue", "q"), "key")
            before = frames(s)
            await s.broker.declaring.delete(queue)
            assert frames(s) == before + 1
            assert s.broker.shard.log_count == logs
            await s.restart()
            assert s.broker.queues == [] and s.broker.shard.log_count == logs
            assert s.broker.exchanges.bindings("default") == []
            assert (await declared(s)).incarnation > queue.incarnation

    run(main())


def test_a_refused_deletion_leaves_the_queue_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await declared(s)

            def refuse(*_: object) -> None:
                raise JournalFailed("no more")

            with monkeypatch.context() as patch, pytest.raises(JournalFailed):
                patch.setattr(s.broker.shard, "_refuse", refuse)
                await s.broker.declaring.delete(queue)
            assert s.broker.queue("q") is queue and len(queue.groups) == 2
            await s.put(queue, b"1")

    run(main())


def test_a_queue_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await declared(s)
            before = frames(s)
            with pytest.raises(QueueExists):
                await declared(s)
            assert (frames(s), len(queue.groups)) == (before, 2)

    run(main())


def test_a_partition_that_is_being_made_goes_with_its_queue(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            logs = s.broker.shard.log_count
            queue = await declared(s, partitions=2)
            making = asyncio.ensure_future(queue.unit(1))
            await asyncio.sleep(0)
            await s.broker.declaring.delete(queue)
            await asyncio.wait([making])
            assert s.broker.shard.log_count == logs

    run(main())
