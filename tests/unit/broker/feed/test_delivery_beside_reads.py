"""Handing out while a file is read: what others do meanwhile counts."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from pathlib import Path

from tests.support.broker import Stage, got, stage, values
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.publish.request import ProducerCall
from penstock.broker.queues.unit import Unit


def test_a_message_that_comes_back_while_a_later_one_is_read_is_not_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            await on.put(queue, b"first")
            await on.put(queue, b"second")
            group, session = await on.broker.group(queue, "g"), on.broker.session()
            assert values(await on.broker.pull(group, session, 10)) == [b"first", b"second"]
            unit = queue.units[0]
            await on.broker.settling.fail(Held.named(group, unit, array("q", [1]), None, session), 0)
            read = _fail_while_reading(on, unit, session)
            found = values(await on.broker.pull(group, session, 10))
            assert read == [1]
            assert found == [b"first", b"second"]
            assert group.cursor(unit).tally.lost == 0

    run(main())


def _fail_while_reading(on: Stage, unit: Unit, session: int) -> list[int]:
    """The next read is one from a file, in the course of which the first message fails."""
    read: list[int] = []
    stored, stored_near = unit.stored, unit.stored_near

    async def slow(offset: int) -> StoredBatch | None:
        read.append(offset)
        await on.broker.settling.fail(Held.named(on.group_of(), unit, array("q", [0]), None, session), 0)
        return await stored(offset)

    def near(offset: int) -> StoredBatch | None:
        return stored_near(offset) if read else None

    unit.stored = slow  # type: ignore[method-assign]  # as slow as a disk can be
    unit.stored_near = near  # type: ignore[method-assign]  # as above
    return read


def test_a_call_that_is_taken_once_names_its_offsets_each_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue(partitions=3)
            keys = [b"a", b"b", b"c", b"d"]
            call = ProducerCall(b"me", 0, 0)
            first = await on.put(queue, b"1", b"2", b"3", b"4", keys=keys, producer=call)
            again = await on.put(queue, b"1", b"2", b"3", b"4", keys=keys, producer=call)
            assert (first.duplicates, again.duplicates) == (0, 4)
            assert sum(placed.rows for placed in first.placed) == 4
            assert _places(first.placed) == _places(again.placed)
            consumer = await on.consumer(queue)
            found = got(await consumer.receive(10))
            assert _places(first.placed) == {(message.partition, message.offset) for message in found}

    run(main())


def _places(placed: Sequence[tuple[int, int, int]]) -> set[tuple[int, int]]:
    return {(partition, base + row) for partition, base, rows in placed for row in range(rows)}


def test_a_pull_that_is_cancelled_while_it_reads_gives_back_what_it_took(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue(partitions=2)
            for partition in (0, 1):
                await on.put(queue, b"v", partition=partition)
            group, session, reading = await on.broker.group(queue, "g"), on.broker.session(), asyncio.Event()
            unit = next(queue.units_in_turn())  # the last one of the next turn

            async def hang(offset: int) -> StoredBatch | None:
                reading.set()
                await asyncio.Event().wait()
                return None

            unit.stored = hang  # type: ignore[method-assign]  # a disk that does not answer
            unit.stored_near = lambda offset: None  # type: ignore[method-assign]  # as above
            pull = asyncio.create_task(on.broker.pull(group, session, 10))
            await reading.wait()
            pull.cancel()
            await asyncio.wait([pull])
            windows = [group.cursor(each).window for each in queue.units.values()]
            assert [window.held for window in windows] == [0, 0]
            assert sum(window.ready for window in windows) == 1, "the one that was taken, and counts as nothing"

    run(main())
