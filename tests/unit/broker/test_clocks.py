"""What waits follows a clock that nobody sets; what is stored follows the wall clock, and neither loses the other."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.support.broker import Stage, got, offsets, retries, stage
from tests.support.loop import run
from tests.support.staging import QUERY, staged

from penstock.broker.browsing import browse
from penstock.broker.feed.held import Held
from penstock.queues.deadletter import from_properties

HOUR_S = 3600
DAY_S = 24 * HOUR_S
YEAR_S = 365 * DAY_S
BACK_AND_FORTH = pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S, YEAR_S, -YEAR_S])


async def set_clock(s: Stage, jump_s: int) -> None:
    s.clock.wall_ms += 1000 * jump_s
    await s.advance(1)


async def committed(s: Stage) -> bool:
    """Whether epoch 7 was there before."""
    rows = await staged(s, s.broker.queue("q"), b"x", writer=f"{QUERY}/7")
    return (await s.broker.staging.commit(QUERY, 7, [rows])).is_repeated


async def pulled(s: Stage, lease_s: float = 30) -> list[bytes]:
    group = await s.broker.group(s.broker.queue("q"), "g")
    found = await s.broker.pull(group, s.broker.session(), 10, 0, int(1000 * lease_s))
    return [message.value for message in got(found)]


@BACK_AND_FORTH
@pytest.mark.parametrize("restarts", [False, True])
def test_a_lease_lasts_as_long_as_it_was_given_for(tmp_path: Path, jump_s: int, restarts: bool) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(10, "1s", total_timeout="none"), limits={"message_ttl": "none"})
            await s.put(queue, b"x")
            assert await pulled(s, 60) == [b"x"]
            await set_clock(s, jump_s)
            if restarts:
                await s.restart()
            await s.advance(50)
            assert await pulled(s) == []
            await s.advance(15)
            await s.advance(2)
            assert await pulled(s) == [b"x"]

    run(main())


@BACK_AND_FORTH
@pytest.mark.parametrize("restarts", [False, True])
def test_a_delay_is_as_long_as_it_was_asked_for(tmp_path: Path, jump_s: int, restarts: bool) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"message_ttl": "none"})
            consumer = await s.consumer(queue)
            await s.put(queue, b"x")
            [message] = await s.receive(consumer)
            await s.fail(consumer, message, delay_ms=600_000)
            consumer.leave()
            await set_clock(s, jump_s)
            if restarts:
                await s.restart()
            await s.advance(590)
            assert await pulled(s) == []
            await s.advance(15)
            assert await pulled(s) == [b"x"]

    run(main())


@BACK_AND_FORTH
def test_a_consumer_has_its_whole_time(tmp_path: Path, jump_s: int) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(10, "1s"), limits={"message_ttl": "none"})
            consumer = await s.consumer(queue)
            await s.put(queue, b"x")
            await s.receive(consumer)
            await set_clock(s, jump_s)
            await s.advance(25)
            assert consumer.held == 1
            await s.advance(6)
            assert consumer.held == 0

    run(main())


@BACK_AND_FORTH
def test_a_group_lives_as_long_as_it_should(tmp_path: Path, jump_s: int) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.broker.group(queue, "client", is_derived=True)
            await set_clock(s, jump_s)
            await s.advance(HOUR_S - 60)
            assert len(queue.groups) == 1
            await s.advance(120)
            assert len(queue.groups) == 0

    run(main())


@pytest.mark.parametrize("jump_s", [HOUR_S, YEAR_S])
@pytest.mark.parametrize("by_message", [False, True])
def test_messages_do_not_expire_because_the_clock_was_set_forward(
    tmp_path: Path, jump_s: int, by_message: bool
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"message_ttl": "none" if by_message else "10m"})
            ends_ms = [s.clock.wall_ms + 600_000] if by_message else None
            await s.put(queue, b"before", expiry=ends_ms)
            await set_clock(s, jump_s)
            await s.put(queue, b"after", expiry=[s.clock.wall_ms + 600_000] if by_message else None)
            await s.advance(300)
            consumer = await s.consumer(queue, "early")
            assert [message.value for message in await s.receive(consumer)] == [b"before", b"after"]
            await s.advance(301)
            consumer = await s.consumer(queue, "late")
            assert await s.receive(consumer) == []

    run(main())


def test_messages_never_expire_too_early_because_the_clock_was_set_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"message_ttl": "10m"})
            await s.put(queue, b"before")
            await set_clock(s, -HOUR_S)
            await s.put(queue, b"after")
            await s.advance(590)
            consumer = await s.consumer(queue, "early")
            assert [message.value for message in await s.receive(consumer)] == [b"before", b"after"]
            await s.advance(HOUR_S + 20)
            consumer = await s.consumer(queue, "late")
            assert await s.receive(consumer) == []

    run(main())


@BACK_AND_FORTH
def test_dead_letters_say_when_by_the_wall_clock(tmp_path: Path, jump_s: int) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(1, "1s"), limits={"message_ttl": "none"})
            consumer = await s.consumer(queue)
            await set_clock(s, jump_s)
            await s.put(queue, b"x")
            failed_ms = s.clock.wall_ms
            await s.fail(consumer, *await s.receive(consumer))
            await s.advance(5)
            await s.reject(consumer, *await s.receive(consumer))
            await s.quiet()
            [letter] = [each async for each in browse(s.broker, s.broker.queue("$dlq/q"))]
            facts = from_properties(letter.row.properties or b"")
            assert facts is not None
            assert (facts.first_failed_ms, facts.moved_ms) == (failed_ms, s.clock.wall_ms)

    run(main())


@BACK_AND_FORTH
@pytest.mark.parametrize("is_before", [False, True])
def test_an_epoch_is_remembered_as_long_as_it_should_be(tmp_path: Path, jump_s: int, is_before: bool) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.queue()
            if is_before:
                await set_clock(s, jump_s)
            await committed(s)
            if not is_before:
                await set_clock(s, jump_s)
            await s.broker.keep_up(s.broker.now())
            await s.restart()
            await s.broker.keep_up(s.broker.now())
            assert await committed(s)
            await s.advance(29 * DAY_S)
            assert await committed(s)
            await s.advance(2 * DAY_S)
            assert not await committed(s)

    run(main())


@BACK_AND_FORTH
def test_a_stage_lives_for_a_day(tmp_path: Path, jump_s: int) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await set_clock(s, jump_s)
            await staged(s, queue, b"x")
            await s.restart()
            await s.advance(DAY_S - 60)
            assert s.broker.staging.stage_count == 1
            await s.advance(120)
            assert s.broker.staging.stage_count == 0

    run(main())


@pytest.mark.parametrize("jump_s", [-YEAR_S, YEAR_S])
def test_a_queue_that_made_itself_goes_a_day_after_its_last_use(tmp_path: Path, jump_s: int) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await set_clock(s, jump_s)
            await s.broker.declaring.subscribed("$queue/q")
            await s.advance(DAY_S - 60)
            assert len(s.broker.queues) == 1
            await s.advance(120)
            assert len(s.broker.queues) == 0

    run(main())


@BACK_AND_FORTH
def test_a_group_waits_for_a_change_of_partitions_as_long_as_it_should(tmp_path: Path, jump_s: int) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(switch_timeout="60s", limits={"message_ttl": "none"})
            await s.broker.group(queue, "g")
            await s.put(queue, b"x")
            await set_clock(s, jump_s)
            await s.broker.declaring.change(queue, {"partitions": 2})
            await s.restart()
            await s.advance(50)
            assert s.group_of().switches
            await s.advance(15)
            assert not s.group_of().switches

    run(main())


def test_setting_the_clock_is_logged_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await set_clock(s, -HOUR_S)
            await s.advance(5)
            assert s.broker.timeline.jumps == 1

    with caplog.at_level(logging.WARNING, "penstock.clock"):
        run(main())
    assert caplog.text.count("wall clock was set by_s=-3600.0") == 1


def test_a_lease_that_was_extended_after_a_jump_is_stored_as_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(10, "1s"))
            await s.put(queue, b"x")
            await set_clock(s, HOUR_S)
            group, number = await s.broker.group(queue, "g"), s.broker.session()
            await s.broker.pull(group, number, 1, 0, 30_000)
            unit = queue.units[0]
            await s.broker.settling.extend(Held.named(group, unit, offsets(0), None, number), s.broker.now() + 60_000)
            await s.restart()
            await s.advance(55)
            assert await pulled(s) == []
            await s.advance(10)
            await s.advance(2)
            assert await pulled(s) == [b"x"]

    run(main())
