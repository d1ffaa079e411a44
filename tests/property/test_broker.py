"""The broker against the naive model of its rules: seeded walks, see tests/sim/queue_walk.py. Many more:
`python -m tests.sim.soak_queues`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sim.queue_walk import QueueWalk
from tests.support.broker import Stage, retries, stage
from tests.support.loop import run

WALKS, STEPS = 8, 400


@pytest.mark.parametrize("seed", range(WALKS))
def test_the_broker_keeps_the_rules_of_groups(tmp_path: Path, seed: int) -> None:
    async def walk() -> None:
        await QueueWalk(seed, tmp_path, STEPS).run()

    run(walk())


def test_a_message_in_retry_for_a_day_costs_its_own_entry_only(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as made:
            await _retry_for_a_day(made)

    run(main())


async def _retry_for_a_day(made: Stage) -> None:
    queue = await made.queue(retry_policy=retries(100, total_timeout=0), durability="memory")
    consumer = await made.consumer(queue)
    await made.put(queue, b"poison")
    [poison] = await made.receive(consumer)
    await made.fail(consumer, poison, delay_ms=86_400_000)
    window = consumer.group.cursor(queue.units[0]).window
    for _ in range(200):
        await made.put(queue, *[b"fine"] * 500)
        for _ in range(2):
            messages = await made.receive(consumer, 250)
            await made.ack(consumer, *messages)
        assert window.pending == 1 and window.capacity < 5000
    assert (window.floor, window.next) == (0, 100_001)
    assert consumer.group.depth() == 1
    await made.advance(86_400)
    assert [(m.value, m.times) for m in await made.receive(consumer)] == [(b"poison", 2)]
