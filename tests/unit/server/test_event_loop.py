from __future__ import annotations

import asyncio
import selectors
import socket
import time

import pytest

from penstock.server.config import LoopKind
from penstock.server.event_loop import LingeringSelector, loop_factory


@pytest.fixture
def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair()


def test_what_is_ready_is_found_at_once_and_later(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    with LingeringSelector() as selector, near, far:
        selector.register(near, selectors.EVENT_READ)
        assert selector.select(0) == []
        far.send(b"x")
        assert [key.fileobj for key, _ in selector.select(5)] == [near]
        near.recv(1)
        assert selector.select(0) == []


def test_a_selector_that_lingers_still_keeps_its_time(pair: tuple[socket.socket, socket.socket]) -> None:
    """It looks again only while something goes on, and then for less than any timer is set for."""
    near, far = pair
    with LingeringSelector() as selector, near, far:
        selector.register(near, selectors.EVENT_READ)
        for _ in range(2):
            far.send(b"x")
            selector.select(5)
            near.recv(1)
        before = time.monotonic()
        assert selector.select(0.02) == []
        assert time.monotonic() - before >= 0.02


def test_it_lingers_only_where_what_it_waited_for_came_at_once_twice_in_a_row(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = pair
    looks: list[float | None] = []
    now_s = 0.0
    select = selectors.DefaultSelector.select

    def noted(self: selectors.DefaultSelector, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        nonlocal now_s
        looks.append(timeout)
        ready = select(self, timeout)
        now_s += 10e-6 if ready or not timeout else timeout
        return ready

    monkeypatch.setattr(selectors.DefaultSelector, "select", noted)
    monkeypatch.setattr("penstock.server.event_loop.monotonic", lambda: now_s)
    with LingeringSelector() as selector, near, far:
        selector.register(near, selectors.EVENT_READ)
        selector.select(0.01)
        assert looks == [0.01], "nothing came at once yet"
        for _ in range(2):
            looks.clear()
            far.send(b"x")
            selector.select(0.01)
            near.recv(1)
            assert looks == [0.01], "not twice in a row yet"
        looks.clear()
        selector.select(0.01)
        assert looks[0] == 0, "the last two were there at once"
        looks.clear()
        selector.select(0.01)
        assert looks == [0.01], "the last one never came"


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
