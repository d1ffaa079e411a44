"""Delayed delivery as Celery does it on RabbitMQ: 28 queues whose messages live 1, 2, 4, … units, and topic exchanges
that lead from each to the next by the bits of the delay in the routing key."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.broker import LARGE, Stage, stage
from tests.support.letter_queues import classic, deaths, group_of, read_all, send
from tests.support.loop import run

from penstock.broker.queues.queue import Queue
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import Exchange

LEVELS, DELIVERY = 28, "celery_delayed_delivery"


def level_name(level: int) -> str:
    return f"celery_delayed_{level}"


async def topology(s: Stage) -> Queue:
    """And the queue at its end."""
    book = s.broker.exchanges
    for level in range(LEVELS):
        await book.declare("default", Exchange(level_name(level), "topic"))
    await book.declare("default", Exchange(DELIVERY, "topic"))
    for level in range(LEVELS):
        following = level_name(level - 1) if level else DELIVERY
        before = "*." * (LEVELS - 1 - level)
        limits = {"message_ttl": f"{2**level}s"}
        await classic(s, level_name(level), exchange=following, limits=limits)
        await book.bind("default", level_name(level), Destination("queue", level_name(level)), before + "1.#", {})
        await book.bind("default", level_name(level), Destination("exchange", following), before + "0.#", {})
    await book.declare("default", Exchange("tasks", "direct"))
    await book.bind("default", DELIVERY, Destination("exchange", "tasks"), "#.celery", {})
    end = await classic(s, "celery")
    await book.bind("default", "tasks", Destination("queue", "celery"), "celery", {})
    await book.bind("default", DELIVERY, Destination("queue", "celery"), "#.celery", {})
    return end


async def delay(s: Stage, seconds: int, *messages: bytes) -> None:
    key = ".".join(f"{seconds:028b}") + ".celery"
    await send(s, level_name(LEVELS - 1), key, *messages, headers={"task": "add"}, correlation_id="c")


@pytest.mark.parametrize("seconds", [1, 5, 6, 100])
def test_a_message_arrives_once_when_its_delay_is_over(tmp_path: Path, seconds: int) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=LARGE) as s:
            end = await topology(s)
            await delay(s, seconds, b"task")
            begun = s.clock.now_ms()
            hops = [level for level in range(LEVELS - 1, -1, -1) if seconds >> level & 1]
            for number, level in enumerate(hops):
                assert group_of(end).ready() == 0
                await s.advance(2**level)
                assert number == len(hops) - 1 or group_of(end).ready() == 0
            assert s.clock.now_ms() - begun == 1000 * seconds
            [(value, properties, topic)] = await read_all(s, end)
            assert (value, properties.correlation_id) == (b"task", "c")
            last = level_name(hops[-1] - 1) if hops[-1] else DELIVERY
            assert topic.startswith(f"$exchange/{last}/")
            found = deaths(properties)
            key = ".".join(f"{seconds:028b}") + ".celery"
            assert {death["queue"] for death in found} == {level_name(level) for level in hops}
            assert all((death["reason"], death["count"]) == ("expired", 1) for death in found)
            assert all(death["routing-keys"] == [key] for death in found)
            assert found[0]["queue"] == level_name(hops[-1])
            first = properties.headers or {}
            assert first["x-first-death-queue"].value == level_name(hops[0])
            assert first["x-first-death-exchange"].value == level_name(LEVELS - 1)
            assert first["x-first-death-reason"].value == "expired"
            for level in range(LEVELS):
                assert group_of(s.broker.queue(level_name(level))).depth() == 0

    run(main())


def test_many_that_are_due_together_are_moved_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=LARGE) as s:
            end = await topology(s)
            sent = [str(number).encode() for number in range(2000)]
            await delay(s, 3, *sent)
            await s.advance(2)
            await s.advance(1)
            assert [value for value, _, _ in await read_all(s, end)] == sent

    run(main())


def test_a_restart_in_the_middle_of_the_way_delays_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=LARGE) as s:
            await topology(s)
            await delay(s, 7, b"task")
            for _ in range(7):
                await s.restart()
                await s.advance(1)
            assert [value for value, _, _ in await read_all(s, s.broker.queue("celery"))] == [b"task"]

    run(main())
