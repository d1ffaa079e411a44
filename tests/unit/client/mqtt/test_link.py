"""The client's end of a WebSocket, against the server's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.support.loop import run

from penstock.client.errors import ConnectionLost
from penstock.client.mqtt.link import Link, open_link
from penstock.client.mqtt.options import MqttOptions
from penstock.core.ports import Buffer
from penstock.gateways.mqtt.gateway import OVER_WEBSOCKET
from penstock.gateways.wire.websocket import WebSocketProtocol


class Echo:
    """Sends back what it is fed, and closes on `bye`."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def feed(self, data: Buffer) -> None:
        self.transport.write(data)
        if bytes(data).endswith(b"bye"):
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


@asynccontextmanager
async def linked(path: str = "/mqtt") -> AsyncIterator[Link]:
    async with (
        await asyncio.get_running_loop().create_server(
            lambda: WebSocketProtocol(Echo, OVER_WEBSOCKET, "/mqtt"), "127.0.0.1", 0
        ) as server,
        asyncio.timeout(10),
    ):
        port = server.sockets[0].getsockname()[1]
        link = await open_link(MqttOptions(port=port, websocket_path=path))
        try:
            yield link
        finally:
            await link.close()


async def received(link: Link, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := await link.receive()):
        data += chunk
    return data


def test_bytes_come_back_however_large() -> None:
    async def main() -> None:
        async with linked("/mqtt?a=1") as link:
            for size in (1, 200, 70_000, 1_000_000):
                link.send(b"x" * size)
                await link.drain()
                assert await received(link, size) == b"x" * size

    run(main())


def test_the_end_is_seen_when_the_server_closes() -> None:
    async def main() -> None:
        async with linked() as link:
            link.send(b"bye")
            assert await received(link, 100) == b"bye"
            assert await link.receive() == b""
            link.send(b"after")

    run(main())


def test_another_path_is_told_with_what_to_check() -> None:
    async def main() -> None:
        with pytest.raises(ConnectionLost, match=r"404.*check its port and the path"):
            async with linked("/other"):
                pass

    run(main())


def test_a_server_without_websockets_is_told_from_one_with() -> None:
    async def main() -> None:
        def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"\x20\x02\x00\x01")
            writer.close()

        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ConnectionLost, match="opened no WebSocket"):
                await open_link(MqttOptions(port=port, websocket_path="/mqtt"))

    run(main())
