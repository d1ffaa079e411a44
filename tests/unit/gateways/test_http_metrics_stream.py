"""The overview over a WebSocket."""

from __future__ import annotations

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
