"""The overview over a WebSocket."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.support.http_gateway import RunningHttp
from websockets.exceptions import ConnectionClosed


def test_the_overview_comes_again_and_again_until_the_server_ends(http: RunningHttp) -> None:
    with http.websocket("/metrics/stream") as socket:
        first = json.loads(socket.recv(10))
        assert (first["queues"], first["streams"], first["version"]) == (0, 1, "0.0.0-test")
        http.declare()
        assert json.loads(socket.recv(10))["queues"] == 1
        http.wait(http.gateway.drain())
        with pytest.raises(ConnectionClosed):
            while True:
                socket.recv(10)


def test_a_client_that_leaves_is_forgotten(http: RunningHttp) -> None:
    with http.websocket("/metrics/stream") as socket:
        socket.recv(10)
    http.until(lambda: http.gateway.app.state.streams.count == 0)


def test_those_who_watch_share_one_look_in_a_second(http: RunningHttp) -> None:
    http.declare()
    glances = http.gateway.app.state.glances

    async def watch() -> list[int]:
        found = await asyncio.gather(*(glances.recent("default") for _ in range(50)))
        return [each.queues for each in found]

    assert http.wait(watch()) == [1] * 50
    assert glances.looks == 1
    assert http.wait(glances.now("default")).queues == 1  # who asks for once is told how it is
    assert glances.looks == 2


def test_only_queues_that_have_changed_are_looked_at_again(http: RunningHttp) -> None:
    for number in range(20):
        http.declare(f"q{number}")
    glances = http.gateway.app.state.glances

    def look() -> tuple[int, int, int, int, int]:
        before = glances.looked_at
        found = http.wait(glances.now("default"))
        return found.queues, found.groups, found.messages, found.published, glances.looked_at - before

    assert look() == (20, 0, 0, 0, 20)
    assert look() == (20, 0, 0, 0, 0)
    http.put("q3", b"1", b"2")
    http.put("q4", b"3")
    assert look() == (20, 0, 3, 3, 2)
    assert look() == (20, 0, 3, 3, 0)
    http.wait(http.broker.group(http.broker.queue("q3"), "g"))
    assert look()[:4] == (20, 1, 3, 3)
    http.wait(http.broker.declaring.purge(http.broker.queue("q3")))
    assert look() == (20, 1, 1, 3, 1)
    http.wait(http.broker.declaring.delete(http.broker.queue("q4")))
    assert look()[:4] == (19, 1, 0, 2)
    http.wait(http.broker.declaring.delete(http.broker.queue("q3")))
    http.declare("another")
    assert look()[:4] == (19, 0, 0, 0)
    assert look() == (19, 0, 0, 0, 0)
