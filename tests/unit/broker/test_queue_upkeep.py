"""How often queues are looked at: those in use each time, the others now and then."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker import Stage, stage
from tests.support.loop import run


async def looked_at_twice(s: Stage) -> None:
    """After the first look the next one comes early, at a queue's own time."""
    await s.broker.keep_up(s.broker.now())
    s.clock.advance(60)
    await s.broker.keep_up(s.broker.now())


def test_a_queue_in_use_is_kept_up_each_time_and_an_idle_one_once_a_minute(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            busy, idle = await s.queue("busy"), await s.queue("idle")
            await looked_at_twice(s)
            looked_ms = idle.kept_up_ms
            for _ in range(11):
                s.clock.advance(5)
                await s.put(busy, b"1")
                await s.broker.keep_up(s.broker.now())
                assert (busy.kept_up_ms, idle.kept_up_ms) == (s.broker.now(), looked_ms)
            s.clock.advance(5)
            await s.broker.keep_up(s.broker.now())
            assert idle.kept_up_ms == s.broker.now()

    run(main())


def test_a_queue_whose_messages_are_only_taken_is_in_use(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue, prefetch=1)
            await s.put(queue, b"1", b"2")
            await s.broker.keep_up(s.broker.now())
            s.clock.advance(5)
            await s.receive(consumer)
            await s.broker.keep_up(s.broker.now())
            assert queue.kept_up_ms == s.broker.now()

    run(main())


def test_retention_that_is_to_look_more_often_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retention={"time_check_interval": "10s"})
            await looked_at_twice(s)
            for seconds in (5, 5):
                s.clock.advance(seconds)
                await s.broker.keep_up(s.broker.now())
            assert queue.retained_ms == s.broker.now()

    run(main())


def test_idle_queues_are_not_all_looked_at_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queues = [await s.queue(f"q{number}") for number in range(20)]
            await s.broker.keep_up(s.broker.now())
            s.clock.advance(50)
            await s.broker.keep_up(s.broker.now())
            assert 0 < sum(queue.kept_up_ms == s.broker.now() for queue in queues) < 20
            s.clock.advance(10)
            await s.broker.keep_up(s.broker.now())
            assert all(s.broker.now() - queue.kept_up_ms <= 10_000 for queue in queues)

    run(main())


async def kept_up_for(s: Stage, seconds: int) -> None:
    """As the broker does it, once in five seconds."""
    for _ in range(seconds // 5):
        s.clock.advance(5)
        await s.broker.keep_up(s.broker.now())


def test_retention_of_an_idle_queue_comes_as_often_as_its_setting_says(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retention={"time_check_interval": "100s"})
            await looked_at_twice(s)
            await kept_up_for(s, 100)
            looked_ms = queue.retained_ms
            await kept_up_for(s, 100)
            assert queue.retained_ms - looked_ms == 100_000

    run(main())


def test_groups_of_idle_queues_end_in_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(group_expiry="20s")
            await looked_at_twice(s)
            (await s.consumer(queue, "left")).leave()
            await s.broker.group(queue, "never joined")
            await kept_up_for(s, 15)
            assert len(queue.groups) == 2
            await kept_up_for(s, 5)
            assert not queue.groups

    run(main())


def test_a_setting_that_is_changed_counts_from_then_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await looked_at_twice(s)
            await kept_up_for(s, 15)
            await s.broker.declaring.change(queue, {"retention": {"time_check_interval": "10s"}})
            await kept_up_for(s, 10)
            assert s.broker.now() - queue.retained_ms < 10_000

    run(main())
