"""What leaves a volatile queue by itself: expired messages at its head, messages that are too many, and the queue that
nobody uses; to exchanges, in memory or stored."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker import stage
from tests.support.loop import run
from tests.support.volatile import default_of, used, volatile

from penstock.queues.exchange_types import Destination


def test_messages_expire_at_its_head_without_a_consumer(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            there = volatile(s, "there")
            durable = await s.queue("d")
            for name in ("there", "d"):
                await s.broker.exchanges.bind("default", "amq.fanout", Destination("queue", name))
            queue = volatile(
                s, limits={"message_ttl": "10s", "expiry": "at-head"}, dlq_config={"exchange": "amq.fanout"}
            )
            frames = s.broker.shard.metrics.frames
            await s.put(queue, b"1", b"2")
            assert s.broker.shard.metrics.frames == frames
            await s.advance(11)
            assert default_of(queue).depth() == 0
            assert queue.log.start == queue.log.end == 2
            assert (default_of(there).ready(), durable.units[0].end) == (2, 2)
            assert used(s) == there.log.bytes

    run(main())


def test_the_oldest_go_where_there_are_too_many_and_become_dead_letters(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            there = volatile(s, "there")
            await s.broker.exchanges.bind("default", "amq.fanout", Destination("queue", "there"))
            queue = volatile(s, limits={"max_ready": 2}, overflow="drop-oldest", dlq_config={"exchange": "amq.fanout"})
            for number in range(5):
                await s.put(queue, b"%d" % number)
            await s.quiet()
            assert (default_of(queue).ready(), default_of(there).ready(), queue.log.start) == (2, 3, 3)

    run(main())


def test_it_goes_when_nobody_uses_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = volatile(s, expires_after="10s")
            await s.put(queue, b"1")
            await s.advance(11)
            assert queue.is_deleted and s.broker.queues == [] and used(s) == 0

    run(main())
