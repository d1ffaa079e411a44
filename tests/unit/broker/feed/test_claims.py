from __future__ import annotations

from pathlib import Path

from tests.support.broker import Stage, got, stage
from tests.support.loop import run

from penstock.broker.feed.consumer import Consumer


async def claimed(s: Stage, consumer: Consumer, idle_s: float = 10, limit: int = 100) -> list[tuple[bytes, int]]:
    """Values and delivery counts, by a session of its own."""
    session = s.broker.session()
    found = await s.broker.claim(consumer.group, session, limit, int(idle_s * 1000))
    return [(message.value, message.times) for message in got(found)]


def test_what_a_member_does_not_settle_is_taken_over_and_its_settlement_is_stale(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(performance={"delivery_timeout": "1h"})
            consumer = await s.consumer(queue)
            await s.put(queue, b"old")
            [old] = await s.receive(consumer)
            await s.advance(10)
            await s.put(queue, b"new")
            [new] = await s.receive(consumer)
            assert await claimed(s, consumer) == [(b"old", 2)]
            assert consumer.held == 1, "who had it has room again"
            assert (await s.ack(consumer, old)).stale == 1
            assert (await s.ack(consumer, new)).done == 1
            assert await claimed(s, consumer) == [], "a lease has a time of its own"

    run(main())


def test_the_time_of_a_claimed_message_begins_anew_and_counts_as_no_failure(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(performance={"delivery_timeout": "30s"})
            consumer = await s.consumer(queue)
            await s.put(queue, b"m")
            await s.receive(consumer)
            await s.advance(29)
            assert await claimed(s, consumer) == [(b"m", 2)]
            await s.advance(29)
            window = consumer.group.cursor(queue.units[0]).window
            entry = window.entry(0)
            assert entry is not None and (entry.failures, entry.returns, window.leased) == (0, 0, 1)
            await s.advance(1)
            entry = window.entry(0)
            assert entry is not None and (entry.failures, window.leased) == (1, 0)

    run(main())


def test_a_claimed_message_stays_its_claimants_over_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"m")
            await s.receive(consumer)
            await s.advance(10)
            await claimed(s, consumer)
            await s.restart()
            consumer = s.broker.join(s.group_of())
            assert await s.receive(consumer) == []
            await s.advance(30)
            await s.advance(5)
            assert [(m.value, m.times) for m in await s.receive(consumer)] == [(b"m", 3)]

    run(main())


def test_of_a_key_all_that_is_in_flight_is_claimed_or_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(performance={"delivery_timeout": "1h"})
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2", keys=[b"k", b"other"])
            await s.receive(consumer)
            await s.advance(10)
            await s.put(queue, b"3", keys=[b"k"])
            await s.receive(consumer)
            assert await claimed(s, consumer) == [(b"2", 2)]
            await s.advance(10)
            assert await claimed(s, consumer, limit=1) == []
            assert await claimed(s, consumer) == [(b"1", 2), (b"3", 2)]

    run(main())


def test_a_paused_group_and_messages_that_are_too_old_are_not_claimed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(performance={"delivery_timeout": "1h"}, limits={"message_ttl": "30s"})
            consumer = await s.consumer(queue)
            await s.put(queue, b"m")
            await s.receive(consumer)
            await s.advance(10)
            await s.broker.declaring.pause_group(consumer.group, True)
            assert await claimed(s, consumer) == []
            await s.broker.declaring.pause_group(consumer.group, False)
            await s.advance(20)
            assert await claimed(s, consumer) == []

    run(main())
