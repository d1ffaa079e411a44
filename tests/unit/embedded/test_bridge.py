from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from tests.support.loop import run

from penstock.core.errors import Closed, InvalidArgument
from penstock.embedded.bridge import Bridge


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    bridge = Bridge("test")
    bridge.start()
    yield bridge
    bridge.stop()


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def refuse() -> None:
    raise InvalidArgument("no")


def test_a_thread_gets_the_result_of_its_work(bridge: Bridge) -> None:
    assert bridge.run(double(4)) == 8


def test_what_the_work_raises_reaches_the_thread_that_asked(bridge: Bridge) -> None:
    with pytest.raises(InvalidArgument, match="no"):
        bridge.run(refuse())


def test_many_threads_each_get_their_own_answer(bridge: Bridge) -> None:
    answers: dict[int, list[int]] = {}

    def ask(number: int) -> None:
        answers[number] = [bridge.run(double(number + i)) for i in range(50)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: [2 * (number + i) for i in range(50)] for number in range(16)}


def test_many_tasks_each_get_their_own_answer(bridge: Bridge) -> None:
    async def main() -> None:
        assert await asyncio.gather(*[bridge.wait(double(i)) for i in range(200)]) == [2 * i for i in range(200)]
        with pytest.raises(InvalidArgument):
            await bridge.wait(refuse())

    run(main())
    run(main())


def test_a_cancelled_wait_does_not_disturb_the_others(bridge: Bridge) -> None:
    started, goes_on = threading.Event(), threading.Event()

    async def slow() -> None:
        started.set()
        await asyncio.to_thread(goes_on.wait)

    async def main() -> None:
        waiting = asyncio.ensure_future(bridge.wait(slow()))
        await asyncio.to_thread(started.wait)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        goes_on.set()
        assert await bridge.wait(double(1)) == 2

    run(main())


def test_after_the_end_every_call_is_told_that_it_is_closed() -> None:
    bridge = Bridge("test")
    bridge.start()
    bridge.stop()
    bridge.stop()
    with pytest.raises(Closed, match="open it again"):
        bridge.run(double(1))


def test_whoever_waits_at_the_end_is_told_that_it_is_closed() -> None:
    bridge = Bridge("test")
    bridge.start()
    started, told = threading.Event(), list[BaseException]()

    async def for_ever() -> None:
        started.set()
        await asyncio.Event().wait()

    def ask() -> None:
        try:
            bridge.run(for_ever())
        except Closed as error:
            told.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    started.wait()
    bridge.stop()
    thread.join()
    assert len(told) == 1


def test_a_loop_that_breaks_says_so_to_every_caller() -> None:
    bridge = Bridge("test")
    bridge.start()

    async def leave() -> None:
        raise SystemExit("gone")

    with pytest.raises(SystemExit):
        bridge.run(leave())
    bridge.stop()
    with pytest.raises(Closed, match="SystemExit: gone"):
        bridge.run(double(1))
