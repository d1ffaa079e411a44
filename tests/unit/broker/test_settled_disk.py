"""What every group has settled gives its disk back: all of a log at once, and what lies around stragglers."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker import LARGE, Stage, stage, values
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.broker.queues.queue import Queue

DELETE = {"settled": "delete"}
MIB = 1 << 20


async def fill(s: Stage, queue: Queue, count: int, size: int = 64 << 10) -> None:
    for number in range(count):
        await s.put(queue, number.to_bytes(4, "big") + bytes(size))


async def take(s: Stage, queue: Queue, spared: frozenset[int] = frozenset()) -> None:
    """And settle all but some."""
    group = await s.broker.group(queue, "g")
    while found := await s.broker.pull(group, s.broker.session(), 1000, 0.0, 3_600_000):
        for delivery in found:
            places = [i for i, offset in enumerate(delivery.offsets) if offset not in spared]
            if places:
                await s.broker.settling.ack(Held(delivery, places))


def stored(s: Stage, queue: Queue) -> int:
    return sum([s.broker.shard.stored_bytes(unit.data) for unit in queue.units.values()])


def test_a_log_that_is_settled_to_its_end_holds_nothing_a_second_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=LARGE) as s:
            queue = await s.queue(retention=DELETE)
            await s.broker.group(queue, "g")
            await fill(s, queue, 40)
            await s.broker.shard.checkpoint()
            assert stored(s, queue) > 2 * MIB
            await s.advance(1)
            assert queue.units[0].start == 0
            await take(s, queue)
            await s.advance(1)
            await s.broker.shard.checkpoint()
            assert (queue.units[0].start, stored(s, queue)) == (40, 0)
            assert queue not in s.broker.declaring.filled
            await fill(s, queue, 1)
            await s.restart()
            queue = s.broker.queue("q")
            group = s.group_of()
            [delivery] = await s.broker.pull(group, s.broker.session(), 10)
            assert values([delivery])[0][:4] == b"\0\0\0\0"
            assert list(delivery.offsets) == [40]

    run(main())


def test_little_is_left_where_it_is_and_so_is_what_another_group_has_not_settled(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=LARGE) as s:
            little, shared = await s.queue("little", retention=DELETE), await s.queue("shared", retention=DELETE)
            kept = await s.queue("kept")
            for queue in (little, shared, kept):
                await s.broker.group(queue, "g")
                await fill(s, queue, 2 if queue is little else 40)
            await s.broker.group(shared, "other")
            for queue in (little, shared, kept):
                await take(s, queue)
            await s.broker.shard.checkpoint()
            await s.advance(1)
            assert [queue.units[0].start for queue in (little, shared, kept)] == [0, 0, 0]

    run(main())


def test_a_straggler_keeps_itself_and_not_the_segment_it_lies_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=LARGE) as s:
            queue = await s.queue(retention={**DELETE, "bytes": "160MiB"})  # segments of 20 MiB
            await s.broker.group(queue, "g")
            await fill(s, queue, 400)
            await s.broker.shard.checkpoint()
            await take(s, queue, frozenset((3, 77)))
            before = stored(s, queue)
            await s.broker.shard.keep_house()
            await s.broker.shard.checkpoint()
            after = stored(s, queue)
            assert before - after > 19 * MIB
            assert queue.units[0].start == 0
            group = s.group_of()
            assert (group.depth(), group.ready()) == (2, 0)
            await s.restart()
            queue, group = s.broker.queue("q"), s.group_of()
            s.clock.advance(7200)
            s.broker.alarms.ring()
            await s.advance(60)
            found = await s.broker.pull(group, s.broker.session(), 10)
            assert [offset for delivery in found for offset in delivery.offsets] == [3, 77]

    run(main())
