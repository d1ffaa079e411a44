"""MQTT over WebSocket for blocking clients, by another library's frames."""

from __future__ import annotations

import ssl
from contextlib import ExitStack

from tests.support.mqtt_client import MqttClient
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol


class WebSocketRefused(Exception):
    """The server answered with something else than an upgrade."""


class WebSocketWire:
    """What a socket is to a client: bytes, however they were cut into frames."""

    def __init__(self, connection: ClientConnection, opened: ExitStack, timeout_s: float | None) -> None:
        self._connection, self._opened, self._timeout_s = connection, opened, timeout_s
        self._left = b""

    def sendall(self, data: bytes, /) -> None:
        self._connection.send(data)

    def recv(self, size_bytes: int, /) -> bytes:
        if not self._left:
            try:
                message = self._connection.recv(self._timeout_s)
            except ConnectionClosed:
                return b""
            assert isinstance(message, bytes), "MQTT is in binary frames"
            self._left = message
        data, self._left = self._left[:size_bytes], self._left[size_bytes:]
        return data

    def settimeout(self, timeout_s: float | None, /) -> None:
        self._timeout_s = timeout_s

    def gettimeout(self) -> float | None:
        return self._timeout_s

    def close(self) -> None:
        self._opened.close()


def upgrade(
    client: MqttClient,
    path: str = "/mqtt",
    context: ssl.SSLContext | None = None,
    *,
    origin: str | None = None,
    hostname: str = "127.0.0.1",
) -> None:
    """WebSocket from here on, over TLS with a context. WebSocketRefused for another answer."""
    scheme = "ws" if context is None else "wss"
    if context is not None:
        # The client reads in a thread of its own. Before Python 3.13 the ssl module lets both in (CPython 124984), and
        # what is written first may meet the session tickets of TLS 1.3 and be lost: once in some thousand times.
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    sock, opened = client.bare_socket, ExitStack()
    try:
        connecting = connect(
            f"{scheme}://{hostname}:{sock.getpeername()[1]}{path}",
            sock=sock,
            ssl=context,
            server_hostname=hostname if context is not None else None,
            origin=None if origin is None else Origin(origin),
            subprotocols=[Subprotocol("mqtt")],
            compression=None,
            close_timeout=client.deadline_s,
        )
        connection = opened.enter_context(connecting)
    except InvalidHandshake as error:
        raise WebSocketRefused(str(error)) from None
    client.go_on_over(WebSocketWire(connection, opened, client.deadline_s))
