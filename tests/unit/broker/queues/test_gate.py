from __future__ import annotations

import asyncio

from tests.support.loop import run

from penstock.broker.queues.gate import Gate


def test_nobody_is_under_way_when_it_is_closed() -> None:
    async def main() -> None:
        gate, seen = Gate(), list[str]()
        await gate.enter()
        closing = asyncio.create_task(gate.close())
        closing.add_done_callback(lambda _: seen.append("closed"))
        await asyncio.sleep(0)
        later = asyncio.create_task(gate.enter())
        later.add_done_callback(lambda _: seen.append("entered"))
        await asyncio.sleep(0)
        assert seen == []
        gate.leave()
        await closing
        assert seen == ["closed"]
        gate.open()
        await later
        assert seen == ["closed", "entered"]

    run(main())


def test_closing_that_is_given_up_opens_it_again() -> None:
    async def main() -> None:
        gate = Gate()
        await gate.enter()
        closing = asyncio.create_task(gate.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        await asyncio.wait_for(gate.enter(), 5)

    run(main())
