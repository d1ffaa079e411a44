"""Queues and groups that are gone stay gone, and nobody is taken for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.broker import Stage, begin_to_delete, stage
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import EARLIEST
from penstock.core.errors import NoSuchGroup, NoSuchQueue
from penstock.queues.names import GroupName


def test_a_new_group_is_not_taken_for_one_that_was_deleted_before_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            await on.put(queue, b"a", b"b")
            consumer = await on.consumer(queue, "old")
            await on.ack(consumer, *await on.receive(consumer))
            await on.broker.declaring.delete_group(consumer.group)
            await on.restart()
            await on.broker.group(on.broker.queue("q"), "new")
            await on.restart()
            consumer = await on.consumer(on.broker.queue("q"), "new")
            assert [one.value for one in await on.receive(consumer)] == [b"a", b"b"]

    run(main())


def test_a_queue_declared_anew_after_a_restart_has_another_incarnation(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            before = (await on.queue()).incarnation
            await on.broker.declaring.delete(on.broker.queue("q"))
            await on.restart()
            assert (await on.queue()).incarnation > before

    run(main())


def test_a_deletion_that_was_interrupted_is_finished_when_the_directory_is_opened(tmp_path: Path) -> None:
    """Earlier versions deleted a queue in several commits."""

    async def main() -> None:
        async with stage(tmp_path / "data") as on:
            queue = await on.queue(partitions=2)
            await on.put(queue, b"a", partition=0)
            await on.put(queue, b"b", partition=1)
            await on.broker.group(queue, "g")
            await begin_to_delete(on, queue)
            await on.broker.shard.delete(queue.units[0].data)
        async with stage(tmp_path / "data") as on:
            assert on.broker.queues == []
            assert [log.name for log in on.broker.shard.logs if "/" in log.name] == []
            queue = await on.queue(partitions=2)
            await on.put(queue, b"c", partition=0)
            consumer = await on.consumer(queue)
            assert [one.value for one in await on.receive(consumer)] == [b"c"]

    run(main())


async def _change(on: Stage, queue: Queue, group: Group) -> None:
    await on.broker.declaring.change(queue, {"max_in_flight": 7})


async def _pause(on: Stage, queue: Queue, group: Group) -> None:
    await on.broker.declaring.pause(queue, True)


async def _group(on: Stage, queue: Queue, group: Group) -> None:
    await on.broker.declaring.group(queue, GroupName("late"), EARLIEST)


async def _pause_group(on: Stage, queue: Queue, group: Group) -> None:
    await on.broker.declaring.pause_group(group, True)


async def _seek(on: Stage, queue: Queue, group: Group) -> None:
    await on.broker.declaring.seek(group, EARLIEST)


@pytest.mark.parametrize("act", [_change, _pause, _group, _pause_group, _seek])
def test_who_still_has_a_deleted_queue_in_hand_cannot_bring_it_back(
    tmp_path: Path, act: Callable[[Stage, Queue, Group], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            group = await on.broker.group(queue, "g")
            await on.broker.declaring.delete(queue)
            with pytest.raises((NoSuchQueue, NoSuchGroup)):
                await act(on, queue, group)
            await on.restart()
            assert on.broker.queues == []

    run(main())


@pytest.mark.parametrize("act", [_pause_group, _seek])
def test_who_still_has_a_deleted_group_in_hand_cannot_bring_it_back(
    tmp_path: Path, act: Callable[[Stage, Queue, Group], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            group = await on.broker.group(queue, "g")
            await on.broker.declaring.delete_group(group)
            with pytest.raises(NoSuchGroup):
                await act(on, queue, group)
            await on.restart()
            assert on.broker.queue("q").groups == {}

    run(main())


def test_a_settlement_that_comes_after_its_group_was_deleted_leaves_nothing_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=1)
            consumer = await s.consumer(queue)
            await s.put(queue, b"1")
            found = await consumer.receive(1000)
            await s.broker.declaring.delete_group(consumer.group)
            assert (await s.broker.settling.several([Held(each) for each in found])).stale == 1
            assert not queue.units[0].cursors

    run(main())
