from __future__ import annotations

import asyncio
import selectors
import socket
import threading
import time
from unittest import mock

import pytest

from penstock.gateways.pace import Pace
from penstock.server.config import LoopKind
from penstock.server.looping import PacedLoop, PacedSelector, loop_factory, pace_of


@pytest.fixture
def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair()


def test_what_is_ready_is_found_at_once_and_later(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    with PacedSelector(Pace()) as selector, near, far:
        selector.register(near, selectors.EVENT_READ)
        assert selector.select(0) == []
        far.send(b"x")
        assert [key.fileobj for key, _ in selector.select(5)] == [near]
        near.recv(1)
        assert selector.select(0) == []


def test_a_selector_that_lingers_still_keeps_its_time(pair: tuple[socket.socket, socket.socket]) -> None:
    """It looks again only while something goes on, and then for less than any timer is set for."""
    near, far = pair
    with PacedSelector(Pace()) as selector, near, far:
        selector.register(near, selectors.EVENT_READ)
        far.send(b"x")
        selector.select(5)
        near.recv(1)
        before = time.monotonic()
        assert selector.select(0.02) == []
        assert time.monotonic() - before >= 0.02


class SlowPace(Pace):
    """Lets nobody look within the next 20 ms."""

    def wait_s(self, now_s: float) -> float:
        return 0.02


def test_at_a_slow_pace_what_can_be_done_is_not_held_up_by_looking(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    with PacedSelector(SlowPace()) as selector, near, far:
        selector.register(near, selectors.EVENT_READ)
        far.send(b"x")
        assert selector.select(0) == []


def test_at_a_slow_pace_who_has_nothing_to_do_looks_later(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    with PacedSelector(SlowPace()) as selector, near, far:
        selector.register(near, selectors.EVENT_READ)
        far.send(b"x")
        before = time.monotonic()
        assert [key.fileobj for key, _ in selector.select(None)] == [near]
        assert time.monotonic() - before >= 0.02


def test_at_a_slow_pace_what_other_threads_have_to_say_is_heard(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    loop = PacedLoop()

    async def run() -> list[str]:
        heard = list[str]()
        over = asyncio.Event()

        def tell() -> None:
            heard.append("told")
            over.set()

        loop.add_reader(near, heard.append, "received")
        far.send(b"x")
        threading.Thread(target=loop.call_soon_threadsafe, args=(tell,)).start()
        await over.wait()
        return heard

    with near, far, mock.patch.object(loop.pace.__class__, "wait_s", lambda *_: 60.0):
        assert loop.run_until_complete(run()) == ["told"]
    loop.close()


def test_a_loop_of_another_kind_has_a_pace_that_nobody_asks() -> None:
    loop, paced = asyncio.SelectorEventLoop(), PacedLoop()
    assert pace_of(loop) is not pace_of(loop)
    assert pace_of(paced) is paced.pace
    loop.close()
    paced.close()


def test_a_loop_runs_on_it() -> None:
    async def run() -> str:
        reader, writer = await asyncio.open_connection(sock=near)
        writer.write(b"there\n")
        await writer.drain()
        far.send(far.recv(100).upper())
        answer = await reader.readline()
        writer.close()
        return answer.decode()

    near, far = socket.socketpair()
    with far, asyncio.Runner(loop_factory=loop_factory(LoopKind.ASYNCIO)) as runner:
        assert runner.run(run()) == "THERE\n"
