"""Batches that several wait for are read once, and one that was read is not taken for the next."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from tests.support.loop import run

from penstock.broker.feed.reads import Reads
from penstock.broker.queues.unit import Unit


class Slow:
    """A partition whose reads are counted."""

    partition = 0

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def stored(self, offset: int) -> Any:
        self.asked.append(offset)
        await asyncio.sleep(0)
        return SimpleNamespace(offset=offset)


def test_who_asks_for_the_next_batch_before_the_loop_turns_gets_it() -> None:
    async def main() -> None:
        unit, reads = Slow(), Reads()

        async def all_of_them(offsets: list[int]) -> None:
            for offset in offsets:
                tries = 0
                while (await reads.read(cast(Unit, unit), offset)).offset != offset:
                    tries += 1
                    assert tries < 3, "the same batch comes again and again"

        async with asyncio.timeout(10):
            await asyncio.gather(all_of_them([1, 2, 3]), all_of_them([1, 5, 6]))
        assert unit.asked[0] == 1
        assert unit.asked.count(1) == 1

    run(main())
