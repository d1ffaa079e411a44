"""A member that is there and settles nothing: others get its messages, and it comes back when it is at work again."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.support.broker import Got, Stage, retries, stage
from tests.support.loop import run

from penstock.broker.feed.consumer import Consumer

TIMEOUT_S = 30
SOON = {"initial_backoff": "1s", "max_backoff": "1s", "total_timeout": "none"}


async def pass_timeouts(s: Stage, count: int, *taking: Consumer) -> None:
    """With members that take what comes and settle nothing."""
    for _ in range(count):
        for consumer in taking:
            await s.receive(consumer)
        await s.advance(TIMEOUT_S)
        await s.advance(2)


async def work(s: Stage, consumer: Consumer) -> list[bytes]:
    """What a healthy one finds and settles."""
    done: list[Got] = []
    while found := await s.receive(consumer):
        for message in found:
            await s.ack(consumer, message)
        done += found
    return [message.value for message in done]


@pytest.mark.parametrize("max_retries", [0, 1, 2, 10])
def test_messages_of_a_member_that_settles_nothing_go_to_one_that_does(tmp_path: Path, max_retries: int) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=4, retry_policy=retries(max_retries, "1s"))
            hung, healthy = await s.consumer(queue), await s.consumer(queue)
            for partition in range(4):
                await s.put(queue, *[b"%d" % (10 * partition + i) for i in range(3)], partition=partition)
            done: list[bytes] = []
            for _ in range(6):
                await s.receive(hung)
                done += await work(s, healthy)
                await s.advance(TIMEOUT_S)
                await s.advance(2)
            done += await work(s, healthy)
            assert sorted(done, key=int) == [b"%d" % (10 * p + i) for p in range(4) for i in range(3)]
            assert s.dead_letters() == 0
            assert (hung.partitions, healthy.partitions) == ([], [0, 1, 2, 3])

    run(main())


def test_it_is_logged_and_counted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2, retry_policy=SOON)
            hung, healthy = await s.consumer(queue), await s.consumer(queue)
            for partition in range(2):
                await s.put(queue, b"x", partition=partition)
            await work(s, healthy)
            await pass_timeouts(s, 5, hung)
            assert caplog.text.count("suspended") == 1
            assert hung.group.members.suspended == {hung.number}

    with caplog.at_level(logging.WARNING, "penstock.broker.group"):
        run(main())


def test_a_member_that_settles_again_gets_partitions_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2, retry_policy=SOON)
            hung, healthy = await s.consumer(queue), await s.consumer(queue)
            await s.put(queue, b"x", partition=hung.partitions[0])
            [message] = await s.receive(hung)
            await pass_timeouts(s, 4, hung)
            assert hung.partitions == []
            assert await work(s, healthy) == [b"x"]
            settled = await s.ack(hung, message)
            assert settled.stale == 1, "it is another's by now; that it was said is what counts"
            await s.quiet()
            assert (len(hung.partitions), len(healthy.partitions)) == (1, 1)
            assert hung.group.members.suspended == set()

    run(main())


def test_a_member_that_settles_now_and_then_is_not_suspended(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2, retry_policy=SOON)
            slow, _ = await s.consumer(queue, prefetch=1), await s.consumer(queue)
            for number in range(8):
                await s.put(queue, b"%d" % number, partition=slow.partitions[0])
            for _ in range(6):
                [message] = await s.receive(slow)
                await s.advance(TIMEOUT_S + 2)
                await s.ack(slow, message)
            assert len(slow.partitions) == 1

    run(main())


def test_where_nobody_settles_messages_still_end_as_dead_letters(tmp_path: Path) -> None:
    """One that makes whoever gets it hang must not go round for ever."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=1, retry_policy=retries(4, "1s"))
            members = [await s.consumer(queue) for _ in range(2)]
            await s.put(queue, b"poison")
            await pass_timeouts(s, 12, *members)
            assert s.dead_letters() == 1

    run(main())


def test_one_that_comes_gets_what_a_hung_one_has_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3, retry_policy=SOON)
            hung = await s.consumer(queue)
            await s.put(queue, b"x", partition=1)
            await pass_timeouts(s, 3, hung)
            await s.receive(hung)
            assert hung.partitions == [0, 1, 2], "there is nobody else"
            healthy = await s.consumer(queue)
            assert (hung.partitions, healthy.partitions) == ([], [0, 1, 2])
            await s.advance(2)
            assert await work(s, healthy) == [b"x"]
            healthy.leave()
            assert hung.partitions == [0, 1, 2]

    run(main())


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2, retry_policy=SOON, suspend_after="none")
            hung, _ = await s.consumer(queue), await s.consumer(queue)
            await s.put(queue, b"x", partition=hung.partitions[0])
            await pass_timeouts(s, 6, hung)
            assert len(hung.partitions) == 1

    run(main())
