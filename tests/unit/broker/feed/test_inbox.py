from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.broker import Stage, retries, stage, values
from tests.support.loop import run

from penstock.broker.feed.consumer import Consumer
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.feed.inbox import Inbox
from penstock.broker.queues.queue import Queue
from penstock.core.errors import Closed, DiskLow


async def opened(s: Stage, partitions: int = 1, **settings: object) -> tuple[Queue, Consumer, Inbox]:
    queue = await s.queue("q", partitions, **settings)
    member = await s.consumer(queue)
    return queue, member, s.broker.inbox(member)


def test_nothing_is_handed_out_before_somebody_asks(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, member, inbox = await opened(s)
            await s.put(queue, b"1", b"2", b"3")
            await asyncio.sleep(0)
            assert (member.held, inbox.has_messages) == (0, False)
            assert await inbox.receive(2, 0)
            assert (member.held, inbox.unseen) == (2, 2)
            await s.put(queue, b"4")
            await asyncio.sleep(0)
            assert member.held == 2
            assert values(inbox.take_many(1)) == [b"1"]
            taken = inbox.take_one()
            assert taken is not None and taken[0].stored.value(taken[0].rows[taken[1]]) == b"2"
            assert inbox.look(10) and values(inbox.take_many(10)) == [b"3", b"4"]
            assert inbox.take_one() is None

    run(main())


def test_who_asks_waits_for_the_first_message_and_no_longer_than_it_says(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, member, inbox = await opened(s)
            assert not await inbox.receive(10, 0.001)
            waiting = asyncio.ensure_future(inbox.receive(10, None))
            await asyncio.sleep(0)
            await s.put(queue, b"1")
            assert await waiting
            assert values(inbox.take_many(10)) == [b"1"]
            assert member.held == 1

    run(main())


def test_a_call_ends_an_earlier_one_and_stopping_ends_both(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, member, inbox = await opened(s)
            first = asyncio.ensure_future(inbox.receive(10, None))
            await asyncio.sleep(0)
            second = asyncio.ensure_future(inbox.receive(10, None))
            assert not await first
            inbox.interrupt()
            assert not await second
            await s.put(queue, b"1")
            await asyncio.sleep(0)
            assert member.held == 0, "nobody asks"
            inbox.stop()
            assert not await inbox.receive(10, None)

    run(main())


def test_who_asks_is_told_of_the_end_each_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            _queue, member, inbox = await opened(s)
            waiting = asyncio.ensure_future(inbox.receive(10, None))
            await asyncio.sleep(0)
            await s.broker.declaring.delete_group(member.group)
            with pytest.raises(Closed):
                await waiting
            with pytest.raises(Closed):
                await inbox.receive(10, 0)

    run(main())


def test_what_could_not_be_read_is_told_once_and_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, member, inbox = await opened(s)
            await s.put(queue, b"1")

            def refuse(limit: int) -> list[Delivery]:
                raise DiskLow(1, 2)

            with monkeypatch.context() as broken:
                broken.setattr(member, "receive_now", refuse)
                with pytest.raises(DiskLow):
                    await inbox.receive(10, None)
            assert await inbox.receive(10, None)

    run(main())


def test_what_is_in_files_is_waited_for_however_short_the_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            for number in range(100):
                await s.put(queue, b"%d" % number + b"x" * 1000)
            await s.restart()
            await s.broker.shard.checkpoint()
            inbox = s.broker.inbox(await s.consumer(s.broker.queue("q")))
            assert await inbox.receive(10, 0)
            assert len(values(inbox.take_many(10))) == 10

    run(main())


def test_what_came_back_is_not_taken_from_the_inbox(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, _member, inbox = await opened(s, retry_policy=retries(5, "10s"))
            await s.put(queue, b"1", b"2", b"3", keys=[b"a", b"a", b"b"])
            assert await inbox.receive(10, None)
            taken = inbox.take_one()
            assert taken is not None
            settlement = s.broker.settling.fail(Held(taken[0], [taken[1]]))
            inbox.drop_taken_back()
            assert (await settlement).done == 1
            assert values(inbox.take_many(10)) == [b"3"], "2 has the key of 1 and comes behind it"

    run(main())


def test_closing_gives_back_what_was_not_settled(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, _member, inbox = await opened(s)
            await s.put(queue, b"1", b"2")
            assert await inbox.receive(10, None)
            inbox.close()
            inbox.close()
            assert inbox.take_many(10) == []
            assert values(await (await s.consumer(queue)).receive(10)) == [b"1", b"2"]

    run(main())
