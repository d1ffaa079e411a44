"""What leaves a queue without a consumer: expired messages at its head, messages that are too many, the queue."""

from __future__ import annotations

import gc
import shutil
import weakref
from pathlib import Path

import pytest
from tests.support.broker import Stage, stage
from tests.support.letter_queues import classic, deaths, group_of, read_all, send
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.broker.queues.queue import Queue
from penstock.core.errors import QueueFull
from penstock.queues.deadletter import Reason


async def values(s: Stage, queue: Queue) -> list[bytes]:
    return [value for value, _, _ in await read_all(s, queue)]


def later(s: Stage, seconds: float) -> int:
    return s.clock.now_ms() + round(seconds * 1000)


def test_a_message_that_is_too_old_goes_to_the_exchange_without_a_consumer(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead = await classic(s, "dead")
            queue = await classic(s, exchange="", key="dead", limits={"message_ttl": "5s"})
            await send(s, "", "q", b"a")
            await s.advance(3)
            await send(s, "", "q", b"b")
            await s.advance(1.9)
            assert (await values(s, dead), group_of(queue).ready()) == ([], 2)
            await s.advance(0.1)
            assert (await values(s, dead), group_of(queue).ready()) == ([b"a"], 1)
            await s.advance(3)
            assert (await values(s, dead), group_of(queue).depth()) == ([b"a", b"b"], 0)
            assert queue.dead_lettered == {Reason.EXPIRED: 2}
            tally = group_of(queue).cursor(queue.units[0]).tally
            assert (tally.delivered, tally.dead_lettered, tally.expired) == (0, 2, 0)

    run(main())


def test_the_lesser_of_both_times_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead = await classic(s, "dead")
            await classic(s, exchange="", key="dead", limits={"message_ttl": "5s"})
            await send(s, "", "q", b"a", expiry=later(s, 2), expiration="2000")
            await send(s, "", "q", b"b", expiry=later(s, 60), expiration="60000")
            await s.advance(2)
            assert await values(s, dead) == [b"a"]
            await s.advance(3)
            found = await read_all(s, dead)
            assert [value for value, _, _ in found] == [b"a", b"b"]
            assert [deaths(properties)[0]["original-expiration"] for _, properties, _ in found] == ["2000", "60000"]
            assert [properties.expiration for _, properties, _ in found] == [None, None]

    run(main())


def test_a_message_expires_only_when_it_is_the_next_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead, queue = await classic(s, "dead"), await classic(s, exchange="", key="dead")
            await send(s, "", "q", b"stays")
            await send(s, "", "q", b"goes", expiry=later(s, 1))
            await s.advance(60)
            assert (await values(s, dead), group_of(queue).ready()) == ([], 2)
            [delivery] = await s.broker.pull(group_of(queue), s.broker.session(), 1)
            await s.quiet()
            assert (await values(s, dead), group_of(queue).ready()) == ([b"goes"], 0)
            await s.broker.settling.release(Held(delivery))
            assert group_of(queue).ready() == 1

    run(main())


def test_what_comes_back_too_old_goes_and_what_is_held_stays(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead = await classic(s, "dead")
            queue = await classic(s, exchange="", key="dead", limits={"message_ttl": "5s"})
            await send(s, "", "q", b"a", b"b", b"c")
            found = [Held(each) for each in await s.broker.pull(group_of(queue), s.broker.session(), 3, 0.0, 600_000)]
            await s.advance(60)
            assert await values(s, dead) == []
            [held] = found
            await s.broker.settling.release(Held(held.delivery, range(1, 3)))
            await s.quiet()
            assert await values(s, dead) == [b"b", b"c"]
            assert group_of(queue).depth() == 1

    run(main())


def test_a_consumer_is_never_handed_what_is_too_old(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead = await classic(s, "dead")
            queue = await classic(s, exchange="", key="dead")
            for number in range(4):
                await send(s, "", "q", bytes([number]), expiry=later(s, 1) if number % 2 else 0)
            s.clock.advance(2)  # before anybody looks
            found = await s.broker.pull(group_of(queue), s.broker.session(), 10)
            assert [each.stored.batch.value(row) for each in found for row in each.rows] == [b"\0", b"\2"]
            await s.quiet()
            assert await values(s, dead) == [b"\1", b"\3"]

    run(main())


def test_without_an_exchange_they_are_settled_and_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await classic(s, limits={"message_ttl": "5s"})
            await send(s, "", "q", b"a", b"b")
            await s.advance(5)
            assert (group_of(queue).depth(), group_of(queue).cursor(queue.units[0]).tally.expired) == (0, 2)
            await s.restart()
            assert s.group_of("q", "default").depth() == 0

    run(main())


def test_an_alarm_is_set_again_after_a_restart_and_rings_for_what_expired_meanwhile(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await classic(s, "dead")
            await classic(s, exchange="", key="dead", limits={"message_ttl": "5s"})
            await send(s, "", "q", b"a")
            await s.advance(2)
            await send(s, "", "q", b"b")
            await s.broker.close()
            s.clock.advance(4)
            await s.open()
            await s.quiet()
            assert await values(s, s.broker.queue("dead")) == [b"a"]
            await s.advance(1)
            assert await values(s, s.broker.queue("dead")) == [b"a", b"b"]

    run(main())


def test_head_expiry_is_whole_or_not_at_all(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "a") as s:
            await classic(s, "dead")
            await classic(s, exchange="", key="dead", limits={"message_ttl": "1s"})
            copies = []
            for number in range(5):
                await send(s, "", "q", *[bytes([number, each]) for each in range(20)])
                s.clock.advance(1)
                s.broker.alarms.ring()
                if number % 2:
                    await s.quiet()
                await s.broker.shard.checkpoint()
                copies.append(tmp_path / f"copy{number}")
                shutil.copytree(s.directory, copies[-1])
                await s.quiet()
        for number, copy in enumerate(copies):
            made = Stage(copy, s.options, s.clock)
            await made.open()
            await made.quiet()
            dead = await values(made, made.broker.queue("dead"))
            assert dead == [bytes([each, row]) for each in range(number + 1) for row in range(20)]
            assert made.group_of("q", "default").depth() == 0
            await made.broker.close()

    run(main())


def test_a_clock_that_is_set_makes_nothing_expire_too_early(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead = await classic(s, "dead")
            await classic(s, exchange="", key="dead", limits={"message_ttl": "60s"})
            await send(s, "", "q", b"a")
            s.clock.wall_ms += 3_600_000
            await s.advance(30)
            assert await values(s, dead) == []
            await s.advance(31)
            assert await values(s, dead) == [b"a"]

    run(main())


@pytest.mark.parametrize("exchange", [None, ""])
def test_the_oldest_go_when_too_many_are_ready(tmp_path: Path, exchange: str | None) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead = await classic(s, "dead")
            key = None if exchange is None else "dead"
            queue = await classic(s, exchange=exchange, key=key, limits={"max_ready": 3}, overflow="drop-oldest")
            for number in range(5):
                await send(s, "", "q", bytes([number]))
            assert group_of(queue).ready() == 3
            await s.quiet()
            found = await read_all(s, dead)
            assert [value for value, _, _ in found] == ([] if exchange is None else [b"\0", b"\1"])
            assert all(deaths(properties)[0]["reason"] == "maxlen" for _, properties, _ in found)
            tally = group_of(queue).cursor(queue.units[0]).tally
            assert (tally.dropped, tally.dead_lettered) == ((2, 0) if exchange is None else (0, 2))

    run(main())


def test_what_is_held_counts_not_and_what_comes_back_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead = await classic(s, "dead")
            queue = await classic(s, exchange="", key="dead", limits={"max_ready": 2}, overflow="drop-oldest")
            await send(s, "", "q", b"a", b"b")
            [delivery] = await s.broker.pull(group_of(queue), s.broker.session(), 2)
            await send(s, "", "q", b"c", b"d")
            await s.quiet()
            assert await values(s, dead) == []
            await s.broker.settling.release(Held(delivery))
            await s.quiet()
            assert await values(s, dead) == [b"a", b"b"]
            assert group_of(queue).ready() == 2

    run(main())


def test_bytes_are_limited_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await classic(s, limits={"max_ready_bytes": 25}, overflow="drop-oldest")
            for number in range(4):
                await send(s, "", "q", bytes([number]) * 10)
            await s.quiet()
            assert group_of(queue).ready() == 2
            await send(s, "", "q", b"x" * 30)
            await s.quiet()
            assert group_of(queue).ready() == 0

    run(main())


@pytest.mark.parametrize(
    ("limits", "takes"), [({"max_ready": 2}, 2), ({"max_ready_bytes": 25}, 2), ({"max_ready": 0}, 0)]
)
def test_more_than_may_be_ready_is_refused(tmp_path: Path, limits: dict[str, object], takes: int) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await classic(s, limits=limits)
            for _ in range(takes):
                await send(s, "", "q", b"x" * 10)
            with pytest.raises(QueueFull, match="wait for a consumer"):
                await send(s, "", "q", b"x" * 10)
            if not takes:
                return
            [delivery] = await s.broker.pull(group_of(queue), s.broker.session(), 1)
            await send(s, "", "q", b"x" * 10)
            await s.broker.settling.release(Held(delivery))
            assert group_of(queue).ready() == takes + 1
            with pytest.raises(QueueFull):
                await send(s, "", "q", b"x" * 10)

    run(main())


def test_a_queue_that_nobody_uses_is_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await classic(s, expires_after="10s")
            await s.advance(9)
            assert await s.broker.declare(queue.settings, if_absent=True) is queue
            await s.advance(9)
            competitor = s.broker.compete(group_of(queue))
            await s.advance(60)
            competitor.leave()
            await s.advance(9)
            await s.broker.pull(group_of(queue), s.broker.session(), 1)
            await s.advance(9)
            assert not queue.is_deleted
            await send(s, "", "q", b"nobody uses a queue by publishing to it")
            await s.advance(1)
            await s.broker.heads.idle()
            assert queue.is_deleted

    run(main())


def test_a_queue_goes_after_a_restart_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await classic(s, expires_after="10s")
            await s.restart()
            await s.advance(10)
            await s.broker.heads.idle()
            assert [queue.name for queue in s.broker.queues] == []

    run(main())


def test_a_limit_that_is_set_later_counts_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(ordering="none")
            await s.broker.group(queue, "default")
            await s.put(queue, *[bytes([each]) for each in range(10)])
            await s.broker.declaring.change(queue, {"limits": {"max_ready": 4}, "overflow": "drop-oldest"})
            await s.quiet()
            assert (queue.groups and group_of(queue).ready(), s.dead_letters()) == (4, 6)

    run(main())


@pytest.mark.parametrize("exchange", [None, ""])
def test_what_is_refused_can_be_kept_as_a_dead_letter(tmp_path: Path, exchange: str | None) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead = await classic(s, "dead")
            letters = {"enabled": True, "topic": "$queue/dead"} if exchange is None else {}
            queue = await classic(
                s, exchange=exchange, key="dead", limits={"max_ready": 1}, overflow="reject-dead-letter"
            )
            await s.broker.declaring.change(queue, {"dlq_config": letters})
            await send(s, "", "q", b"a", headers={"n": 1})
            with pytest.raises(QueueFull):
                await send(s, "", "q", b"b", headers={"n": 2})
            assert group_of(queue).ready() == 1
            [(value, properties, _)] = await read_all(s, dead)
            headers = properties.headers or {}
            assert (value, headers["n"].value) == (b"b", 2)
            assert ("x-death" in headers) is (exchange is not None)
            assert exchange is None or deaths(properties)[0]["reason"] == "maxlen"

    run(main())


def test_nothing_is_left_of_a_head_when_its_queue_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await classic(s, limits={"message_ttl": "5s"})
            await send(s, "", "q", b"a")
            head = weakref.ref(queue.head)
            await s.broker.declaring.delete(queue)
            assert (queue.head, head(), queue.listening) == (None, None, {})
            await s.advance(5)

    gc.disable()
    try:
        run(main())
    finally:
        gc.enable()
