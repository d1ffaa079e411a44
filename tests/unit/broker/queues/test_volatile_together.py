"""Publications that go to stored and to volatile queues: one answer, and a refusal has no effect on either. And the
bounds of what is in memory alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.broker import Stage, offsets, stage, values
from tests.support.loop import run
from tests.support.volatile import default_of, used, volatile

from penstock.broker.broker import BrokerOptions
from penstock.broker.catalogue.volatile import VolatileOptions
from penstock.broker.feed.held import Held
from penstock.broker.publish.joint import Row
from penstock.broker.queues.queue import Queue
from penstock.core.errors import DiskLow, PenstockError, QueueFull, QueueLimit, StaleSettlement, VolatileFull
from penstock.log.columns import Columns
from penstock.queues.exchange_topics import exchange_topic
from penstock.queues.exchange_types import Destination

TOPIC = exchange_topic("amq.fanout", b"")


async def bound(s: Stage, *names: str) -> None:
    for name in names:
        await s.broker.exchanges.bind("default", "amq.fanout", Destination("queue", name))


def ends(*queues: Queue) -> list[int]:
    return [queue.units[0].data.end if queue.units else 0 for queue in queues]


def taken(s: Stage, queue: Queue) -> list[bytes]:
    return values(s.broker.compete(next(iter(queue.groups.values()))).receive_now(100))


def bounded(s: Stage, **limits: int) -> None:
    """From the next opening on."""
    s.options = replace(s.options, volatile=VolatileOptions(**limits))


def test_one_publication_has_one_answer_and_is_one_frame(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            durable, one, two = await s.queue("d"), volatile(s, "one"), volatile(s, "two")
            await bound(s, "d", "one", "two")
            before = s.broker.shard.metrics.frames
            published = await s.publish(TOPIC, b"1", b"2")
            assert s.broker.shard.metrics.frames == before + 1
            assert {each.queue.name: each.placed[0].rows for each in published} == {"d": 2, "one": 2, "two": 2}
            assert ends(durable, one, two) == [2, 2, 2]
            assert taken(s, one) == taken(s, two) == [b"1", b"2"]

    run(main())


def test_what_is_volatile_is_there_when_the_frame_is_staged_and_the_answer_comes_behind_its_sync(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            durable, queue = await s.queue("d"), volatile(s)
            answers: list[PenstockError | None] = []
            puts = [(each, Columns.of([b"1"]), s.publisher, None, None, None) for each in (durable, queue)]
            assert s.broker.publishing.intake.try_stage(puts, answers.append) is not None
            assert (answers, durable.units[0].end, queue.units[0].end) == ([], 0, 1)
            assert taken(s, queue) == [b"1"]
            await s.broker.shard.drain()
            assert (answers, durable.units[0].end) == ([None], 1)

    run(main())


@pytest.mark.parametrize("is_awaited", [True, False])
def test_what_a_stored_queue_refuses_no_volatile_one_gets(tmp_path: Path, is_awaited: bool) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            durable, queue = await s.queue("d", limits={"max_queue_depth": 1}), volatile(s)
            await s.broker.group(durable, "g")
            await bound(s, "d", "v")
            with pytest.raises(QueueFull):
                if is_awaited:
                    await s.publish(TOPIC, b"1", b"2")
                else:
                    puts = [
                        (each, Columns.of([b"1", b"2"]), s.publisher, None, None, None) for each in (queue, durable)
                    ]
                    s.broker.publishing.intake.try_stage(puts, lambda error: None)
            assert ends(durable, queue) == [0, 0] and used(s) == 0

    run(main())


def test_what_the_disk_refuses_goes_nowhere_and_what_needs_no_disk_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            durable, queue = await s.queue("d"), volatile(s)
            await bound(s, "d", "v")
            monkeypatch.setattr(s.broker.shard._engine, "_reserve", 1 << 62)
            with pytest.raises(DiskLow):
                await s.publish(TOPIC, b"1")
            assert ends(durable, queue) == [0, 0]
            await s.put(queue, b"1")
            assert s.broker.publishing.put_now(queue, Columns.of([b"2"]), s.publisher) is not None
            assert taken(s, queue) == [b"1", b"2"]

    run(main())


@pytest.mark.parametrize("is_awaited", [True, False])
def test_what_a_volatile_queue_refuses_no_stored_one_gets(tmp_path: Path, is_awaited: bool) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            bounded(s, queue_bytes=4000)
            await s.restart()
            durable, queue = await s.queue("d"), volatile(s)
            await bound(s, "d", "v")
            rows = [b"x" * 1000] * 5
            for _ in range(3):
                with pytest.raises(VolatileFull):
                    if is_awaited:
                        await s.publish(TOPIC, *rows)
                    else:
                        puts = [(each, Columns.of(rows), s.publisher, None, None, None) for each in (durable, queue)]
                        s.broker.publishing.intake.try_stage(puts, lambda error: None)
            assert ends(durable, queue) == [0, 0] and used(s) == 0
            assert (durable.gate.under_way, queue.gate.under_way) == (0, 0)
            await s.publish(TOPIC, *rows[:2])
            assert ends(durable, queue) == [2, 2]

    run(main())


def test_a_queue_takes_more_when_some_is_settled(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            bounded(s, queue_bytes=10_000)
            await s.restart()
            queue = volatile(s)
            with pytest.raises(VolatileFull):
                for _ in range(100):
                    await s.put(queue, b"x" * 1000)
            before = queue.log.end
            for delivery in s.broker.compete(default_of(queue)).receive_now(100):
                await s.broker.settling.ack(Held(delivery))
            await s.put(queue, b"x" * 1000)
            assert 5 < before == queue.log.end - 1

    run(main())


def test_all_queues_together_are_bounded_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            bounded(s, bytes=10_000)
            await s.restart()
            one, two = volatile(s, "one"), volatile(s, "two")
            await bound(s, "one", "two")
            await s.put(one, b"x" * 4000)
            with pytest.raises(VolatileFull):
                await s.publish(TOPIC, b"x" * 4000)
            assert ends(one, two) == [1, 0]
            s.broker.declaring.delete_volatile(one)
            await s.put(two, b"x" * 4000)
            assert ends(two) == [1]

    run(main())


def test_there_are_only_so_many(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            bounded(s, queues=2)
            await s.restart()
            made = [volatile(s, name) for name in ("a", "b")]
            with pytest.raises(QueueLimit):
                volatile(s, "c")
            s.broker.declaring.delete_volatile(made[0])
            volatile(s, "c")
            assert {each.name for each in s.broker.queues} == {"b", "c"}

    run(main())


def test_a_transaction_takes_from_a_stored_queue_and_puts_to_a_volatile_one_and_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            durable, queue = await s.queue("d"), volatile(s)
            consumer = await s.consumer(durable)
            await s.put(durable, b"request")
            [request] = await consumer.receive(10)
            there = s.broker.transaction(s.publisher)
            there.ack(Held(request))
            there.put(queue, Columns.of([b"reply"]))
            await there.commit()
            assert default_of(queue).ready() == 1 and consumer.group.depth() == 0
            [reply] = s.broker.compete(default_of(queue)).receive_now(10)
            back = s.broker.transaction(s.publisher)
            back.ack(Held(reply))
            back.put(durable, Columns.of([b"again"]))
            await back.commit()
            assert used(s) == 0 and default_of(queue).depth() == 0
            assert ends(durable) == [2]
            alone = s.broker.transaction(s.publisher)
            alone.put(queue, Columns.of([b"1"]))
            await alone.commit()
            assert queue.log.end == 2

    run(main())


def test_a_transaction_that_comes_too_late_does_nothing_in_either(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            durable, queue = await s.queue("d"), volatile(s)
            await s.put(queue, b"1")
            [delivery] = s.broker.compete(default_of(queue)).receive_now(10)
            await s.broker.settling.ack(Held(delivery))
            late = s.broker.transaction(s.publisher)
            late.ack(Held(delivery))
            late.put(durable, Columns.of([b"1"]))
            late.put(queue, Columns.of([b"2"]))
            with pytest.raises(StaleSettlement):
                await late.commit()
            assert ends(durable, queue) == [0, 1]

    run(main())


def test_single_messages_of_several_callers_go_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            durable, queue = await s.queue("d"), volatile(s)
            joint = s.broker.publishing.joint
            waiting = [
                joint.put_and_wait(each, Row(b"%d" % i), s.publisher) for i in range(4) for each in (durable, queue)
            ]
            placed = await asyncio.gather(*waiting)
            assert sorted(each.base_offset for each in placed) == [0, 0, 1, 1, 2, 2, 3, 3]
            assert sorted(taken(s, queue)) == [b"0", b"1", b"2", b"3"]

    run(main())


def test_the_largest_frame_bounds_only_what_is_stored(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=BrokerOptions().shard) as s:
            queue = volatile(s, limits={"max_message_size": "1MiB"})
            for _ in range(3):
                await s.put(queue, *[b"x" * (1 << 20)] * 8)
            assert default_of(queue).ready() == 24
            [*_, last] = s.broker.compete(default_of(queue)).receive_now(100)
            assert last.offsets[-1:] == offsets(23)

    run(main())
