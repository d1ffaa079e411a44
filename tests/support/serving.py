"""A server with a gateway that only echoes, for tests of what stands in front of a gateway."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.broker.broker import Broker, BrokerOptions
from penstock.core.ports import Buffer
from penstock.gateways.http.ports import Operations
from penstock.gateways.mqtt.gateway import OVER_WEBSOCKET
from penstock.gateways.port import InThisProcess
from penstock.gateways.wire.listener import ListenerFacts
from penstock.log.journal.journal import JournalOptions
from penstock.log.options import ShardOptions
from penstock.server.config import Config, load
from penstock.server.config_listeners import LISTENER_NAMES
from penstock.server.process import Process
from penstock.server.server import Server

SMALL = BrokerOptions(
    shard=ShardOptions(
        journal=JournalOptions(file_bytes=1 << 20, limit_bytes=4 << 20, max_frame_bytes=512 << 10), disk_reserve_bytes=0
    )
)
STUCK = 4242
"""as mqtt.max_subscriptions: a process whose gateway is never drained"""
LOCAL = ("listeners.mqtt.port=0", "listeners.mqtt_ws.port=0", "listeners.http.port=0")


class Echo(asyncio.BufferedProtocol):
    """Sends back what comes, behind the name of its listener and the peer's address."""

    def __init__(self, gateway: EchoGateway, facts: ListenerFacts) -> None:
        self._gateway, self._facts = gateway, facts
        self._buffer = bytearray(1 << 16)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._gateway.connections.add(self)
        self.peer = transport.get_extra_info("peername")[0]
        self.certificate = transport.get_extra_info("peercert")
        self.feed(b"%s %s " % (self._facts.name.encode(), self.peer.encode()))

    def connection_lost(self, exc: Exception | None) -> None:
        self._gateway.connections.discard(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.feed(self._buffer[:nbytes])

    def feed(self, data: Buffer) -> None:
        self._transport.write(bytes(data))  # type: ignore[attr-defined]  # any transport that can be written to

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def abort(self) -> None:
        self._transport.abort()  # type: ignore[attr-defined]  # as above


class EchoGateway(InThisProcess):
    def __init__(self) -> None:
        self.connections: set[Echo] = set()
        self.events: list[str] = []
        self.draining, self.drained = asyncio.Event(), asyncio.Event()
        self.drained.set()

    @property
    def connection_count(self) -> int:
        return len(self.connections)

    handshake_timeout_s, max_message_bytes, spoken = 10.0, 1 << 20, OVER_WEBSOCKET

    async def start(self) -> None: ...

    def protocol(self, listener: ListenerFacts) -> Echo:
        return Echo(self, listener)

    def refused(self, peer: str, reason: str) -> None:
        self.events.append(f"refused: {reason}")

    async def drain(self) -> None:
        self.events.append("drain")
        self.draining.set()
        await self.drained.wait()

    async def close(self) -> None:
        self.events.append("close")
        for connection in list(self.connections):
            connection.abort()


class EchoWorks:
    """`server.Works` over a real broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.gateway = broker, EchoGateway()
        self.applied: list[Config] = []
        self.password: str | None = None
        self.may: Callable[[str], bool] = lambda peer: True

    @classmethod
    async def open(cls, config: Config) -> EchoWorks:
        return cls(await Broker.open(Path(config.data_dir), SMALL))

    @property
    def gateways(self) -> dict[str, EchoGateway]:
        return dict.fromkeys(LISTENER_NAMES, self.gateway)

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        return {}

    @property
    def not_accepting(self) -> list[str]:
        return []

    @property
    def connection_count(self) -> int:
        return self.gateway.connection_count

    async def bootstrap(self) -> str | None:
        return self.password

    def has_room(self, listener: str, descriptor: int, coming: int) -> bool:
        return True

    def may_connect(self, peer: str) -> bool:
        return self.may(peer)

    async def apply(self, config: Config) -> None:
        self.applied.append(config)

    async def drain(self) -> None:
        await self.gateway.drain()

    async def close(self) -> None:
        await self.gateway.close()
        await self.broker.close()


def configured(directory: Path, *flags: str) -> Config:
    return load(None, {}, [f"data_dir={directory}", *LOCAL, *flags])


@asynccontextmanager
async def running(config: Config) -> AsyncIterator[tuple[Server, EchoWorks]]:
    made: list[EchoWorks] = []

    async def open_works(config: Config) -> EchoWorks:
        made.append(await EchoWorks.open(config))
        return made[0]

    server = await Server.start(config, open_works)
    try:
        yield server, made[0]
    finally:
        await server.stop()


def _main(config_file: str, ready_file: str) -> int:
    """A process of its own, with the echo behind it: `python -m tests.support.serving`."""

    async def open_works(config: Config, operations: Operations) -> EchoWorks:
        works = await EchoWorks.open(config)
        if config.mqtt.max_subscriptions == STUCK:
            works.gateway.drained.clear()
        works.password = "first-password"
        return works

    return Process(lambda: load(Path(config_file), os.environ, ()), open_works, print, Path(ready_file)).run()


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
