from __future__ import annotations

import asyncio

import pytest
from tests.support.loop import run

from penstock.broker.feed.begun import resumed
from penstock.core.errors import NoSuchQueue


def test_work_that_was_begun_goes_on_in_a_task() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await asyncio.sleep(0.001)
        return "done"

    async def main() -> None:
        begun = work()
        assert await asyncio.create_task(resumed(begun, begun.send(None))) == "done"

    run(main())


def test_what_the_work_raises_behind_its_wait_is_raised() -> None:
    async def refuse() -> None:
        await asyncio.sleep(0.001)
        raise NoSuchQueue("orders")

    async def main() -> None:
        begun = refuse()
        with pytest.raises(NoSuchQueue):
            await asyncio.create_task(resumed(begun, begun.send(None)))

    run(main())


def test_work_that_was_begun_can_be_cancelled_and_tidies_up() -> None:
    tidied: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            tidied.append("yes")

    async def main() -> None:
        begun = work()
        task = asyncio.create_task(resumed(begun, begun.send(None)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tidied == ["yes"]

    run(main())
