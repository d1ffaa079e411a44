from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.support.arrivals import arrivals
from tests.support.broker import got, offsets, stage
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.broker.queues.start import LATEST
from penstock.core.errors import FencedMember


def test_a_partition_moves_when_its_owner_has_settled_what_it_held(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2)
            one = await s.consumer(queue)
            for partition in (0, 1):
                await s.put(queue, b"v", partition=partition)
            held = await s.receive(one)
            two = await s.consumer(queue)
            assert (one.partitions, two.partitions, one.held) == ([0], [], 2), "kept in flight until it is settled"
            await s.put(queue, b"w", partition=1)
            assert await s.receive(one) == [], "nothing new of a partition that it is to give up"
            await s.ack(one, next(m for m in held if m.partition == 1))
            assert two.partitions == [1]
            assert [m.value for m in await s.receive(two)] == [b"w"]

    run(main())


def test_at_the_deadline_a_partition_is_taken_and_what_is_held_returns(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2, performance={"delivery_timeout": "5m"})
            one = await s.consumer(queue)
            for partition in (0, 1):
                await s.put(queue, b"v", partition=partition)
            held = await s.receive(one)
            two = await s.consumer(queue)
            await s.advance(29)
            assert two.partitions == []
            await s.advance(1)
            assert (one.partitions, two.partitions, one.held) == ([0], [1], 1)
            moved = next(m for m in held if m.partition == 1)
            assert await s.ack(one, moved) == (0, 1)
            assert [(m.value, m.times) for m in await s.receive(two)] == [(b"v", 2)]
            entry = one.group.cursor(queue.units[1]).window.entry(0)
            assert entry is not None and (entry.returns, entry.failures) == (1, 0)
            assert one.group.members.metrics.revocations_forced == 1

    run(main())


def test_a_revocation_that_is_off_lets_messages_flow_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2)
            one = await s.consumer(queue)
            await s.put(queue, b"v", partition=1)
            await s.receive(one)
            two = await s.consumer(queue)
            await s.put(queue, b"w", partition=1)
            two.leave()
            assert one.partitions == [0, 1]
            assert [m.value for m in await s.receive(one)] == [b"w"]

    run(main())


def test_what_a_gone_consumer_held_is_free_at_once_and_counts_as_returned(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            one, two = await s.consumer(queue), await s.consumer(queue)
            await s.put(queue, b"v")
            await s.receive(one)
            one.leave()
            assert [m.times for m in await s.receive(two)] == [2]
            entry = two.group.cursor(queue.units[0]).window.entry(0)
            assert entry is not None and (entry.returns, entry.failures) == (1, 0)

    run(main())


def test_a_silent_member_is_taken_for_gone_and_its_work_goes_to_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(performance={"delivery_timeout": "5m"})
            group = await s.broker.group(queue, "g")
            silent = s.broker.join(group, is_immortal=False)
            other = s.broker.join(group)
            await s.put(queue, b"v")
            await s.receive(silent)
            await s.advance(20)
            group.heartbeat(silent, group.members.generation)
            await s.advance(20)
            assert await s.receive(other) == []
            await s.advance(10)
            assert silent.is_closed
            assert [m.times for m in await s.receive(other)] == [2]
            with pytest.raises(FencedMember):
                group.heartbeat(silent, group.members.generation)

    run(main())


def test_a_seek_lets_a_revoked_partition_go(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2)
            one = await s.consumer(queue)
            await s.put(queue, b"v", partition=1)
            await s.receive(one)
            two = await s.consumer(queue)
            await s.broker.declaring.seek(one.group, LATEST)
            assert two.partitions == [1]

    run(main())


def test_a_purge_gives_back_the_room_of_what_was_in_flight(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue, prefetch=2)
            await s.put(queue, b"1", b"2", b"3")
            held = await s.receive(consumer)
            assert await s.broker.declaring.purge(queue) == 3
            assert (consumer.held, consumer.group.depth()) == (0, 0)
            assert await s.ack(consumer, *held) == (0, 2)
            await s.put(queue, b"4")
            assert [(m.value, m.offset) for m in await s.receive(consumer)] == [(b"4", 3)]
            await s.restart()
            assert s.group_of().depth() == 1

    run(main())


def test_a_group_without_members_goes_after_its_expiry_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(group_expiry="1h")
            used, unused = await s.consumer(queue, "used"), await s.consumer(queue, "unused")
            unused.leave()
            await s.advance(3599)
            assert len(queue.groups) == 2
            with caplog.at_level(logging.INFO, "penstock.broker"):
                await s.advance(60)
            assert [group.key.name for group in queue.groups.values()] == ["used"]
            assert "unused" in caplog.text
            await s.restart()
            assert [group.key.name for group in s.broker.queue("q").groups.values()] == ["used"]
            assert used.group.key.name == "used"

    run(main())


def test_a_derived_group_goes_an_hour_after_its_last_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            group = await s.broker.group(queue, "client", is_derived=True)
            await s.broker.group(queue, "named")
            consumer = s.broker.join(group)
            await s.advance(2 * 3600)
            assert len(queue.groups) == 2
            consumer.leave()
            await s.advance(3601)
            assert [group.key.name for group in queue.groups.values()] == ["named"]

    run(main())


def test_a_new_group_of_an_old_name_knows_nothing_of_the_old_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2")
            await s.ack(consumer, *await s.receive(consumer))
            await s.broker.declaring.delete_group(consumer.group)
            await s.restart()
            await s.broker.group(s.broker.queue("q"), "g")
            await s.restart()
            again = s.broker.join(s.group_of())
            assert [m.value for m in await s.receive(again)] == [b"1", b"2"]

    run(main())


def test_in_flight_is_per_group(tmp_path: Path) -> None:
    """A second group gets everything while the first one holds everything."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            one, two = await s.consumer(queue, "one"), await s.consumer(queue, "two")
            await s.put(queue, b"v")
            assert len(await s.receive(one)) == len(await s.receive(two)) == 1
            assert await s.broker.settling.ack(Held.named(one.group, queue.units[0], offsets(0), None, -1)) == (1, 0)
            assert (one.group.depth(), two.group.depth()) == (0, 1)

    run(main())


def test_no_group_yet_means_keep(tmp_path: Path) -> None:
    """A queue published to before its first subscriber keeps its messages, whatever retention does with settled
    ones."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retention={"settled": "delete", "time_check_interval": "1s"})
            await s.put(queue, b"1", b"2")
            await s.advance(3600)
            await s.broker.shard.keep_house()
            await s.restart()
            consumer = await s.consumer(s.broker.queue("q"))
            assert [m.value for m in await s.receive(consumer)] == [b"1", b"2"]

    run(main())


def test_consumers_can_wait_while_partitions_move(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=4)
            consumers = [await s.consumer(queue) for _ in range(4)]
            waiting = [asyncio.ensure_future(arrivals(consumer, 10, 60)) for consumer in consumers]
            await asyncio.sleep(0)
            for partition in range(4):
                await s.put(queue, b"v", partition=partition)
            assert [len(got(await found)) for found in waiting] == [1, 1, 1, 1]

    run(main())


def test_a_commit_by_a_member_that_lost_the_partition_is_fenced(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2)
            one = await s.consumer(queue)
            for partition in (0, 1):
                await s.put(queue, b"v", partition=partition)
            group, known = one.group, one.group.members.generation
            two = await s.consumer(queue)
            await asyncio.sleep(0.01)
            assert (one.partitions, two.partitions) == ([0], [1])
            commit = s.broker.settling.commit
            with pytest.raises(FencedMember):
                await commit(group, queue.units[1], 1, (one.number, known))
            assert group.cursor(queue.units[1]).window.floor == 0
            assert await commit(group, queue.units[0], 1, (one.number, known)) == 1
            assert await commit(group, queue.units[1], 1, (two.number, group.members.generation)) == 1

    run(main())
