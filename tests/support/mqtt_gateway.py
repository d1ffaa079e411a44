"""A gateway on a free loopback port, over a real broker in a directory, on a loop in a thread: tests talk to it through
blocking clients, and reach into its loop where they must."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.support.access import access_to
from tests.support.broker import SMALL
from tests.support.clock import FakeClock
from tests.support.loop_thread import LoopThread
from tests.support.mqtt_client import MqttClient

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.auth.options import AuthOptions, RateLimitOptions
from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.queues.queue import Queue
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.options import Policy, SessionOptions
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.topics.topics import TopicOptions, Topics
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Publish, Will
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.mqtt.gateway import MqttGateway
from penstock.gateways.mqtt.options import MqttOptions
from penstock.gateways.wire.listener import ListenerFacts
from penstock.log.options import ShardOptions

T = TypeVar("T")
V3, V5 = Version.V3_1_1, Version.V5
LONG_S = 3600
"""a session that outlives its test"""


@dataclass(frozen=True, slots=True)
class Setup:
    options: MqttOptions = field(default_factory=lambda: MqttOptions(sys_interval_s=0))
    topics: TopicOptions = field(default_factory=TopicOptions)
    auth: AuthOptions | None = None
    """None: everyone may do everything"""
    rates: RateLimitOptions = field(default_factory=RateLimitOptions)
    auto_create: bool = True
    is_loopback: bool = True
    shard: ShardOptions = SMALL


def user(*pairs: tuple[str, str], **more: object) -> Properties:
    """User properties; underscores in names stand for what an identifier cannot have."""
    named = tuple((name.replace("_", "-"), str(value)) for name, value in more.items())
    return Properties(user_properties=pairs + named)


def said(message: Publish) -> dict[str, str]:
    return dict(message.properties.user_properties)


class RunningGateway(LoopThread):
    """`gateway` and what is below it belong to the loop of the thread: use `call` and `wait`."""

    gateway: MqttGateway
    broker: Broker
    access: Access

    def __init__(self, directory: Path, setup: Setup) -> None:
        super().__init__()
        self._directory, self._setup = directory, setup
        self.clock = FakeClock()
        self._clients: list[MqttClient] = []
        try:
            self.address: tuple[str, int] = self.wait(self._open())
        except BaseException:
            super().close()
            raise

    # The loop

    def left_with(self, connections: int) -> None:
        """So many are there, and what follows from the going of others is done."""
        self.until(lambda: self.gateway.connection_count == connections and not self.gateway.background.is_busy)

    def settle(self) -> None:
        """What was received is committed, settlements and dead letters included."""

        async def run() -> None:
            for _ in range(3):
                await asyncio.sleep(0)
                await self.broker.settling.finish()
                await self.broker.ledger.drain()
                await self.broker.shard.drain()

        self.wait(run())

    def advance(self, seconds: float) -> None:
        """The time is later, and everything that was due has been done."""

        async def run() -> None:
            self.clock.advance(seconds)
            self.broker.alarms.ring()
            await self.gateway.registry.look_at_due()

        self.wait(run())
        self.settle()

    def keep_up(self) -> None:
        """Groups and queues that nobody used are gone."""
        self.wait(self.broker.keep_up(self.broker.now()))

    # Opening and closing

    async def _open(self) -> tuple[str, int]:
        setup, options = self._setup, self._setup.options
        broker_options = BrokerOptions(setup.shard, auto_create=setup.auto_create)
        self.broker = await Broker.open(self._directory, broker_options, self.clock)
        self.access = await access_to(self.broker.shard, self._setup.auth, self.clock)
        sessions = await Sessions.open(
            self.broker.shard,
            self.broker.now,
            SessionOptions(
                max_queued_messages=options.max_queued_messages,
                max_queued_bytes=options.max_queued_bytes,
                policy=Policy(options.queued_policy.value),
            ),
        )
        self.retained = await Retained.open(self.broker.shard)
        self.limits = RateLimits(setup.rates, self.clock)
        self.topics = Topics(self.broker, sessions, self.retained, setup.topics)
        self.gateway = MqttGateway(self.broker, self.access, self.topics, self.limits, options)
        await self.gateway.start()
        facts = ListenerFacts("mqtt", setup.is_loopback)
        self._server = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self._server.setblocking(False)
        self._loop.add_reader(self._server.fileno(), self._accept, facts)
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

    def restart(self) -> None:
        """The same data, as another process would find it. Clients of before are cut off."""
        for client in self._clients:
            client.close()
        self.wait(self._close())
        self.address = self.wait(self._open())

    def close(self) -> None:
        for client in self._clients:
            with suppress(OSError):
                client.close()
        try:
            self.wait(self._close())
        finally:
            super().close()

    # Clients

    def opened(self, name: str, version: Version = V5) -> MqttClient:
        """A network connection, and no CONNECT yet."""
        client = MqttClient(self.address, version, name)
        self._clients.append(client)
        return client

    def client(
        self,
        name: str = "c",
        version: Version = V5,
        *,
        clean: bool = True,
        keep_alive_s: int = 0,
        will: Will | None = None,
        properties: Properties = NO_PROPERTIES,
        username: str | None = None,
        password: bytes | None = None,
    ) -> MqttClient:
        """Connected and accepted."""
        client = self.opened(name, version)
        answer = client.connect(
            clean=clean,
            keep_alive_s=keep_alive_s,
            will=will,
            properties=properties,
            username=username,
            password=password,
        )
        assert answer.reason is ReasonCode.SUCCESS, answer
        return client

    def lasting(
        self, name: str = "s", version: Version = V5, *, clean: bool = False, receive_maximum: int | None = None
    ) -> MqttClient:
        """With a session that stays when the connection ends."""
        if version is V3:
            return self.client(name, version, clean=clean)
        properties = Properties(session_expiry_interval_s=LONG_S, receive_maximum=receive_maximum)
        return self.client(name, version, clean=clean, properties=properties)

    # The broker

    def declare(self, name: str = "q", **settings: object) -> Queue:
        """With one partition unless they say otherwise."""
        return self.wait(self.broker.declare({"name": name, "partitions": 1} | settings))

    def messages_in(self, queue: str) -> int:
        """How many it has, settled or not; 0 if there is no such queue."""
        found = [each for each in self.broker.queues if each.name == queue]
        return sum(unit.data.end - unit.data.start for each in found for unit in each.units.values())

    def unsettled(self, queue: str = "q", group: str = "g") -> int:
        [found] = [each for each in self.broker.queue(queue).groups.values() if each.key.name == group]
        return self.call(found.depth)

    def groups(self, queue: str = "q") -> set[str]:
        return {str(key) for key in self.broker.queue(queue).groups}


BY_ANSWER = user(consumer_group="g", ack_mode="puback")
EXPLICIT = user(consumer_group="g")


def publish(mqtt: RunningGateway, *payloads: bytes, topic: str = "$queue/q") -> MqttClient:
    publisher = mqtt.client("p")
    for payload in payloads:
        publisher.publish(topic, payload, 1)
    return publisher


def consumer(
    mqtt: RunningGateway,
    name: str = "c",
    properties: Properties = BY_ANSWER,
    *,
    qos: int = 1,
    version: Version = V5,
    filter: str = "$queue/q",
    receive_maximum: int | None = None,
    maximum_packet_bytes: int | None = None,
) -> MqttClient:
    limits = Properties(receive_maximum=receive_maximum, maximum_packet_bytes=maximum_packet_bytes)
    client = mqtt.client(name, version, properties=limits if version is V5 else NO_PROPERTIES)
    [reason] = client.subscribe(filter, qos=qos, properties=properties if version is V5 else NO_PROPERTIES)
    assert not reason.is_refusal, reason
    return client


@contextmanager
def running(directory: Path, setup: Setup | None = None) -> Iterator[RunningGateway]:
    made = RunningGateway(directory, setup or Setup())
    try:
        yield made
    finally:
        made.close()
