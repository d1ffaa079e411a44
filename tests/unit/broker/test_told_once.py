"""What storage refuses goes on being tried for thousands of queues: the log says it once a minute, not for each."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.broker import Got, Stage, stage
from tests.support.loop import run

from penstock.broker.feed.consumer import Consumer

QUEUES, ROUNDS = 40, 5


def poison(s: Stage) -> None:
    for log in s.broker.shard.logs:
        s.broker.shard._engine._poison(log.number, "a test")


async def upkeep(s: Stage) -> None:
    """Each queue has a group that nobody uses any more, and the catalogue takes nothing."""
    for number in range(QUEUES):
        queue = await s.queue(f"q{number}", group_expiry="60s")
        await s.put(queue, b"x")
        await s.broker.group(queue, "g")
    poison(s)
    for _ in range(ROUNDS):
        await s.advance(120)


async def dead_letters(s: Stage) -> None:
    """Each queue has a message that was rejected, and the dead letters take nothing."""
    held: list[tuple[Consumer, Got]] = []
    for number in range(QUEUES):
        queue = await s.queue(f"q{number}")
        await s.put(queue, b"x")
        consumer = await s.consumer(queue)
        [message] = await s.receive(consumer)
        held.append((consumer, message))
        await s.broker.declaring.subscribed(f"$dlq/q{number}")
    poison(s)
    for consumer, message in held:
        s.broker.settling.reject(s.held(consumer, [message]))
    await s.quiet()


async def drops(s: Stage) -> None:
    """Nothing is kept of what fails."""
    queue = await s.queue(dlq_config={"enabled": False})
    consumer = await s.consumer(queue)
    for number in range(QUEUES):
        await s.put(queue, b"%d" % number)
        [message] = await s.receive(consumer)
        await s.reject(consumer, message)


@pytest.mark.parametrize(("what", "most"), [(upkeep, 4), (dead_letters, 1), (drops, 1)])
def test_the_log_has_a_line_of_each_kind_however_many_queues_there_are(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    what: Callable[[Stage], Awaitable[None]],
    most: int,
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await what(s)
            said.extend(record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)

    said: list[str] = []
    run(main())
    assert 1 <= len(said) <= most, said
