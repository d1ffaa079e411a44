"""Queues that are in memory alone: what they do as any other does, and that nothing of them is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.broker import Stage, got, retries, stage, values
from tests.support.loop import run
from tests.support.volatile import DEFAULT, default_of, used, volatile

from penstock.broker.browsing import browse
from penstock.broker.feed.competing import Competitor
from penstock.broker.feed.held import Held
from penstock.broker.publish.request import ProducerCall
from penstock.broker.queues.start import EARLIEST
from penstock.broker.queues.volatile import VolatileQueue
from penstock.core.errors import InvalidSetting, NoSuchQueue, QueueExists
from penstock.log.columns import Columns
from penstock.log.volatile import NeverStored
from penstock.queues.exchange_topics import exchange_topic
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import Exchange
from penstock.queues.names import GroupName
from penstock.queues.settings import queue_json


def compete(s: Stage, queue: VolatileQueue) -> Competitor:
    return s.broker.compete(default_of(queue))


def stored(s: Stage) -> tuple[int, int, int]:
    """Frames, logs and records of the configuration."""
    shard = s.broker.shard
    return shard.metrics.frames, shard.log_count, s.broker.declaring._configuration.log.end


async def settle_some(s: Stage, queue: VolatileQueue) -> None:
    competitor = compete(s, queue)
    for number, settle in enumerate((s.broker.settling.ack, s.broker.settling.release, s.broker.settling.ack)):
        await s.put(queue, b"%d" % number)
        for delivery in competitor.receive_now(10):
            await settle(Held(delivery))
    competitor.group.leave(competitor)


async def lease_some(s: Stage, queue: VolatileQueue) -> None:
    await s.put(queue, b"1", b"2")
    group = default_of(queue)
    for delivery in await s.broker.pull(group, s.broker.session(), 10):
        await s.broker.settling.fail(Held(delivery))
    await s.advance(600)
    for delivery in await s.broker.pull(group, s.broker.session(), 10):
        await s.broker.settling.extend(Held(delivery), s.broker.now() + 60_000)
        await s.broker.settling.ack(Held(delivery))


async def change_much(s: Stage, queue: VolatileQueue) -> None:
    declaring = s.broker.declaring
    await declaring.change(queue, {"max_in_flight": 7})
    await declaring.change_topic(queue, "a/+", is_wanted=True)
    await declaring.pause(queue, True)
    await declaring.pause(queue, False)
    group = await s.broker.group(queue, "other")
    await declaring.pause_group(group, True)
    await declaring.seek(group, EARLIEST)
    await declaring.delete_group(group)
    await s.broker.keep_up(s.broker.now())


async def remember_a_producer(s: Stage, queue: VolatileQueue) -> None:
    call = ProducerCall(b"p", 0, 0)
    await s.put(queue, b"1", producer=call)
    assert (await s.put(queue, b"1", producer=call)).duplicates == 1
    assert queue.log.end == 1


async def purge(s: Stage, queue: VolatileQueue) -> None:
    await s.put(queue, b"1", b"2")
    assert await s.broker.declaring.purge(queue) == 2
    await s.put(queue, b"3")
    await s.broker.settling.purge_ready(default_of(queue))
    assert default_of(queue).ready() == 0 and queue.depth() == 0


async def set_clock(s: Stage) -> None:
    s.clock.wall_ms += 3_600_000
    s.broker.timeline.look()
    await s.quiet()


async def jump(s: Stage, queue: VolatileQueue) -> None:
    await s.put(queue, b"1")
    [delivery] = await s.broker.pull(default_of(queue), 7, 1)
    await set_clock(s)
    await s.broker.settling.ack(Held(delivery))


@pytest.mark.parametrize("act", [settle_some, lease_some, change_much, remember_a_producer, purge, jump])
def test_nothing_of_it_is_stored(tmp_path: Path, act: Callable[[Stage, VolatileQueue], Awaitable[None]]) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await set_clock(s)  # the first time, something of the broker's own is made
            before = stored(s)
            queue = volatile(s)
            await s.broker.exchanges.bind("default", "amq.direct", Destination("queue", "v"), "key")
            await act(s, queue)
            await s.broker.declaring.delete(queue)
            await s.quiet()
            assert stored(s) == before
            assert used(s) == 0

    run(main())


def test_it_and_its_bindings_are_gone_after_a_restart_and_the_others_are_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            durable, queue = await s.queue("d"), volatile(s)
            await s.broker.exchanges.declare("default", Exchange("x", "direct"))
            for name in ("d", "v"):
                await s.broker.exchanges.bind("default", "x", Destination("queue", name), "key")
            await s.publish(exchange_topic("x", b"key"), b"1")
            assert (durable.units[0].end, queue.log.end) == (1, 1)
            await s.advance(1)
            await s.restart()
            assert [each.name for each in s.broker.queues] == ["d"]
            assert [str(each.destination) for each in s.broker.exchanges.bindings("default")] == [
                str(Destination("queue", "d"))
            ]
            anew = volatile(s)
            assert anew.incarnation > queue.incarnation and anew.log.end == 0

    run(main())


def test_competitors_share_it_and_what_they_leave_goes_to_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = volatile(s)
            one, two = compete(s, queue), compete(s, queue)
            await s.put(queue, *(b"%d" % number for number in range(6)))
            first, second = one.receive_now(10), two.receive_now(10)
            assert (values(first), values(second)) == ([b"0", b"1", b"2"], [b"3", b"4", b"5"])
            one.group.leave(one)
            await s.quiet()
            again = two.receive_now(10)
            assert [(message.value, message.times) for message in got(again)] == [(b"0", 2), (b"1", 2), (b"2", 2)]

    run(main())


def test_one_message_is_taken_and_put_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = volatile(s)
            await s.put(queue, b"1", b"2")
            first = s.broker.take_one(default_of(queue), 7)
            assert first is not None and not isinstance(first, asyncio.Task)
            await s.broker.settling.release(Held(first))
            assert values([first]) == [b"1"]
            again = s.broker.take_one(default_of(queue), 8)
            assert not isinstance(again, asyncio.Task) and again is not None and values([again]) == [b"1"]

    run(main())


def test_members_and_other_groups_have_it_too_and_it_stays_until_all_have_settled_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = volatile(s)
            consumer = await s.consumer(queue, "g")
            await s.put(queue, b"1", b"2")
            await s.ack(consumer, *await s.receive(consumer))
            assert queue.log.start == 0 and used(s) > 0
            competitor = compete(s, queue)
            for delivery in competitor.receive_now(10):
                await s.broker.settling.ack(Held(delivery))
            assert queue.log.start == 2 and used(s) == 0

    run(main())


def test_much_that_is_settled_leaves_memory_while_more_comes(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = volatile(s)
            competitor = compete(s, queue)
            for number in range(2000):
                await s.put(queue, b"x" * 1000)
                if number % 2:
                    [delivery, *_] = competitor.receive_now(1)
                    await s.broker.settling.ack(Held(delivery))
            assert queue.depth() == 1000 and len(queue.log.tail) <= 1000 + 340
            while found := competitor.receive_now(100):
                await s.broker.settling.several([Held(delivery) for delivery in found])
            assert (queue.depth(), len(queue.log.tail), used(s)) == (0, 0, 0)

    run(main())


def test_messages_are_over_by_their_time_and_looked_at_without_being_taken(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = volatile(s, limits={"message_ttl": "10s"})
            await s.put(queue, b"old")
            await s.advance(11)
            await s.put(queue, b"new")
            assert [message.row.value async for message in browse(s.broker, queue)] == [b"old", b"new"]
            [delivery] = compete(s, queue).receive_now(10)
            assert values([delivery]) == [b"new"]
            await s.broker.settling.ack(Held(delivery))
            assert used(s) == 0

    run(main())


def test_rejected_ones_become_dead_letters_that_are_stored(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = volatile(s, retry_policy=retries(0))
            await s.put(queue, b"1", b"2")
            for delivery in compete(s, queue).receive_now(10):
                await s.broker.settling.reject(Held(delivery))
            await s.quiet()
            assert s.dead_letters("$dlq/v") == 2 and used(s) == 0
            await s.restart()
            assert s.dead_letters("$dlq/v") == 2

    run(main())


def test_it_takes_the_dead_letters_of_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            letters = volatile(s, "letters")
            source = await s.queue("d", dlq_config={"topic": "$queue/letters"})
            consumer = await s.consumer(source)
            await s.put(source, b"1")
            await s.reject(consumer, *await s.receive(consumer))
            assert values(compete(s, letters).receive_now(10)) == [b"1"]
            await s.restart()
            assert s.group_of("d").depth() == 0

    run(main())


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = volatile(s, owner=s)
            assert queue.owner is s
            with pytest.raises(QueueExists):
                volatile(s)
            with pytest.raises(QueueExists):
                await s.queue("v")
            making = asyncio.ensure_future(s.queue("d"))
            await asyncio.sleep(0)
            with pytest.raises(QueueExists):
                volatile(s, "d")
            durable = await making
            assert s.broker.queue("d") is durable
            s.broker.declaring.delete_volatile(queue)
            with pytest.raises(NoSuchQueue):
                await s.put(queue, b"1")
            with pytest.raises(NoSuchQueue):
                s.broker.declaring.delete_volatile(queue)
            assert not (await s.queue("v")).is_volatile

    run(main())


@pytest.mark.parametrize("settings", [{"partitions": 2}, {"compaction": {"enabled": True}}])
def test_what_only_a_stored_queue_can_have_is_refused(tmp_path: Path, settings: dict[str, object]) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            with pytest.raises(InvalidSetting):
                volatile(s, "v", None, **settings)
            assert s.broker.queues == []
            queue = volatile(s)
            before = queue.settings
            with pytest.raises(InvalidSetting):
                await s.broker.declaring.change(queue, settings)
            assert queue.settings == before

    run(main())


def test_who_waits_is_told_when_something_comes_and_when_it_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = volatile(s)
            waiting = asyncio.ensure_future(s.broker.pull(default_of(queue), 7, 10, wait_s=60))
            await asyncio.sleep(0)
            await s.put(queue, b"1")
            assert values(await waiting) == [b"1"]
            consumer = await s.consumer(queue, "g")
            s.broker.declaring.delete_volatile(queue)
            assert consumer.is_closed

    run(main())


def test_an_exchange_that_goes_with_its_last_binding_goes_from_the_books_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.broker.exchanges.declare("default", Exchange("x", "fanout", auto_delete=True))
            queue = volatile(s)
            await s.broker.exchanges.bind("default", "x", Destination("queue", "v"))
            s.broker.declaring.delete_volatile(queue)
            assert "x" not in s.broker.exchanges.of("default")
            await s.restart()
            assert "x" not in s.broker.exchanges.of("default")

    run(main())


def test_no_frame_takes_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = volatile(s)
            frames = s.broker.shard.metrics.frames
            engine = s.broker.shard._engine
            with pytest.raises(NeverStored):
                engine.stage([(queue.log, Columns.of([b"1"]))], lambda error: None)
            with pytest.raises(NeverStored):
                await s.broker.shard.purge(queue.log)
            assert s.broker.shard.metrics.frames == frames and queue.log.end == 0

    run(main())


def test_its_settings_are_shown_and_it_is_listed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = volatile(s)
            assert s.broker.queues == [queue]
            assert queue_json(queue.settings)["partitions"] == 1
            assert queue.group(GroupName("default")) is queue.groups[DEFAULT]

    run(main())
