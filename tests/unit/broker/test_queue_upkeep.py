"""How often queues are looked at: those in use each time, the others now and then."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker import stage
from tests.support.loop import run


def test_a_queue_in_use_is_kept_up_each_time_and_an_idle_one_once_a_minute(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            busy, idle = await s.queue("busy"), await s.queue("idle")
            await s.broker.keep_up(s.broker.now())
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
            await s.broker.keep_up(s.broker.now())
            for seconds in (5, 5):
                s.clock.advance(seconds)
                await s.broker.keep_up(s.broker.now())
            assert queue.retained_ms == s.broker.now()

    run(main())
