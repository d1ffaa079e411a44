"""A gateway of AMQP 0.9.1 on a free loopback port, over a real broker in a directory, on a loop in a thread: tests talk
to it through a client on the codec, and reach into its loop where they must."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.differential.amqp091.peer import GUEST, Login, Peer, Said
from tests.support.access import access_to
from tests.support.broker import SMALL
from tests.support.clock import FakeClock
from tests.support.loop_thread import LoopThread

from penstock.broker.auth.limits import RateLimits
from penstock.broker.auth.options import RateLimitOptions
from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.options import SessionOptions
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.topics.topics import TopicOptions, Topics
from penstock.codecs.amqp091.methods import Method
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.gateway import AmqpGateway
from penstock.gateways.amqp091.options import AmqpOptions
from penstock.gateways.wire.listener import ListenerFacts
from penstock.log.options import ShardOptions


@dataclass(frozen=True, slots=True)
class Setup:
    options: AmqpOptions = field(default_factory=AmqpOptions)
    shard: ShardOptions = SMALL


class RunningAmqp(LoopThread):
    """`gateway` and what is below it belong to the loop of the thread: use `call` and `wait`."""

    gateway: AmqpGateway
    broker: Broker

    def __init__(self, directory: Path, setup: Setup) -> None:
        super().__init__()
        self._directory, self._setup = directory, setup
        self.clock = FakeClock()
        self._peers: list[Peer] = []
        try:
            self.address: tuple[str, int] = self.wait(self._open())
        except BaseException:
            super().close()
            raise

    async def _open(self) -> tuple[str, int]:
        options = BrokerOptions(self._setup.shard, auto_create=False)
        self.broker = await Broker.open(self._directory, options, self.clock)
        self.access = await access_to(self.broker.shard, None, self.clock)
        sessions = await Sessions.open(self.broker.shard, self.broker.now, SessionOptions())
        retained = await Retained.open(self.broker.shard)
        self.topics = Topics(self.broker, sessions, retained, TopicOptions())
        limits = RateLimits(RateLimitOptions(max_connections_per_ip=0), self.clock)
        self.gateway = AmqpGateway(self.broker, self.access, self.topics, limits, self._setup.options)
        await self.gateway.start()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self._server.setblocking(False)
        self._loop.add_reader(self._server.fileno(), self._accept, ListenerFacts("amqp", True))
        host, port = self._server.getsockname()[:2]
        return str(host), int(port)

    def _accept(self, facts: ListenerFacts) -> None:
        connection, peer = self._server.accept()
        connection.setblocking(False)
        self.gateway.adopt(connection, peer, facts)

    async def _close(self) -> None:
        self._loop.remove_reader(self._server.fileno())
        self._server.close()
        await self.gateway.close()
        await self.topics.close()
        self.access.close()
        await self.broker.close()

    def close(self) -> None:
        for peer in self._peers:
            with suppress(OSError):
                peer.close()
        try:
            self.wait(self._close())
        finally:
            super().close()

    # Clients

    def dialled(self) -> Peer:
        """Nothing was said yet."""
        peer = Peer(self.address)
        self._peers.append(peer)
        return peer

    def peer(self, *channels: int, login: Login = GUEST) -> Peer:
        """Logged in, with these channels open."""
        peer = self.dialled()
        peer.log_in(login)
        for channel in channels:
            peer.open(channel)
        return peer

    @property
    def connections(self) -> list[Connection]:
        return list(self.gateway.connections)


def told(peer: Peer, count: int) -> list[tuple[int, Method]]:
    """The next methods that came, as many as that."""
    found: list[Said] = []
    peer.wait(lambda said: found.append(said) or len(found) >= count)  # type: ignore[func-returns-value]
    return [(said.channel, said.method) for said in found]


@contextmanager
def running_amqp(directory: Path, setup: Setup | None = None) -> Iterator[RunningAmqp]:
    made = RunningAmqp(directory, setup or Setup())
    try:
        yield made
    finally:
        made.close()
