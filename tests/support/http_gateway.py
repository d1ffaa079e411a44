"""The HTTP gateway on a free loopback port, over a real broker in a directory, on a loop in a thread: tests send it
requests through blocking clients, and reach into its loop where they must."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.support.access import access_to
from tests.support.broker import LARGE
from tests.support.clock import FakeClock
from tests.support.event_reader import EventReader
from tests.support.loop_thread import LoopThread
from tests.support.operations import FakeOperations
from websockets.sync.client import ClientConnection, connect

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.auth.options import AuthOptions, RateLimitOptions
from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.queues.queue import Queue
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.topics.topics import Topics
from penstock.gateways.http.gateway import HttpGateway
from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.ports import Ports
from penstock.gateways.mqtt.gateway import MqttGateway
from penstock.gateways.mqtt.options import MqttOptions
from penstock.gateways.wire.listener import ListenerFacts
from penstock.log.columns import Columns
from penstock.log.options import ShardOptions

T = TypeVar("T")
API = "/api/v1"
DEADLINE_S = 20.0


@dataclass(frozen=True, slots=True)
class HttpSetup:
    options: HttpOptions = field(default_factory=HttpOptions)
    auth: AuthOptions | None = None
    """None: everyone may do everything"""
    rates: RateLimitOptions = field(default_factory=RateLimitOptions)
    shard: ShardOptions = LARGE
    port: int = 0
    heartbeat_s: float | None = None
    """of event streams, where a test cannot wait for the product's"""
    listener: str = "http"
    """as which it is reached"""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RunningHttp(LoopThread):
    """`gateway` and what is below it belong to the loop of the thread: use `call` and `wait`."""

    gateway: HttpGateway
    mqtt: MqttGateway
    """without a listener: what is published by topic goes through it"""
    broker: Broker
    access: Access

    def __init__(self, directory: Path, setup: HttpSetup) -> None:
        super().__init__()
        self._directory, self._setup, self.port = directory, setup, setup.port
        self.clock = FakeClock()
        self.operations = FakeOperations()
        self._readers: list[EventReader] = []
        try:
            self.wait(self._open())
        except BaseException:
            super().close()
            raise

    # Opening and closing

    async def _open(self) -> None:
        setup = self._setup
        self.broker = await Broker.open(self._directory, BrokerOptions(setup.shard), self.clock)
        self.access = await access_to(self.broker.shard, self._setup.auth, self.clock)
        self.access.working.is_declared = self.broker.declaring.has_namespace
        limits, shard, now = RateLimits(setup.rates, self.clock), self.broker.shard, self.broker.now
        self._sessions, self._retained = await Sessions.open(shard, now), await Retained.open(shard)
        self._topics = Topics(self.broker, self._sessions, self._retained)
        self.mqtt = MqttGateway(self.broker, self.access, self._topics, limits, MqttOptions(sys_interval_s=0))
        await self.mqtt.start()
        self.gateway = HttpGateway(self._ports(limits), setup.options)
        if setup.heartbeat_s is not None:
            self.gateway.app.state.streams._heartbeat_s = setup.heartbeat_s
        facts = ListenerFacts(setup.listener, True)
        self._server = await self._loop.create_server(lambda: self.gateway.protocol(facts), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def _ports(self, limits: RateLimits) -> Ports:
        broker, mqtt = self.broker, self.mqtt
        return Ports(
            broker=broker,
            access=self.access,
            limits=limits,
            retained=self._retained,
            sessions=self._sessions,
            topics=self._topics,
            taps=broker.taps,
            clients=mqtt.directory,
            operations=self.operations,
            webhooks=broker.webhooks,
            protocols={"mqtt": mqtt.counters},
            connections=mqtt.counters.connections,
        )

    async def _close(self) -> None:
        self._server.close()
        await self.gateway.drain()
        await self.gateway.close()
        await self.mqtt.close()
        await self._topics.close()
        self.access.close()
        await self.broker.close()

    def restart(self) -> None:
        """The same data at the same port, as another process would find it."""
        self.stop()
        self.start()

    def stop(self) -> None:
        self.wait(self._close())

    def start(self) -> None:
        self.wait(self._open())

    def close(self) -> None:
        for reader in self._readers:
            with suppress(OSError):
                reader.close()
        try:
            self.wait(self._close())
        finally:
            super().close()

    # Clients

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        is_raw: bool = False,
    ) -> Answer:
        """On a connection of its own. A body is sent as JSON, bytes as they are if `is_raw`; a path without a version
        is below /api/v1."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            data = body if is_raw or body is None else json.dumps(body)
            connection.request(method, _full(path), data, {**({} if headers is None else headers)})  # type: ignore[arg-type]  # as said
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("GET", path, None, headers)

    def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("POST", path, body, headers)

    def events(
        self, path: str, headers: Mapping[str, str] | None = None, receive_buffer_bytes: int | None = None
    ) -> EventReader:
        """A stream that was accepted."""
        reader = EventReader(("127.0.0.1", self.port), _full(path), headers or {}, DEADLINE_S, receive_buffer_bytes)
        self._readers.append(reader)
        return reader

    def websocket(self, path: str, headers: Mapping[str, str] | None = None) -> ClientConnection:
        return connect(f"ws://127.0.0.1:{self.port}{_full(path)}", additional_headers=headers, open_timeout=DEADLINE_S)

    # The broker

    def declare(self, name: str = "q", **settings: object) -> Queue:
        """With one partition unless they say otherwise."""
        return self.wait(self.broker.declare({"name": name, "partitions": 1} | settings))

    def put(
        self,
        queue: str,
        *messages: bytes,
        keys: Sequence[bytes] | None = None,
        topics: Sequence[bytes] | None = None,
        partition: int | None = None,
    ) -> None:
        """In one batch, committed."""

        async def run() -> None:
            columns = Columns.of(messages, keys=keys, topics=topics)
            broker = self.broker
            await broker.publishing.put(broker.queue(queue), columns, broker.publisher(), partition)

        self.wait(run())

    def unsettled(self, queue: str = "q", group: str = "g") -> int:
        [found] = [each for each in self.broker.queue(queue).groups.values() if each.key.name == group]
        return self.call(found.depth)


def _full(path: str) -> str:
    return path if path.startswith("/api/") else API + path


@contextmanager
def running_http(directory: Path, setup: HttpSetup | None = None) -> Iterator[RunningHttp]:
    made = RunningHttp(directory, setup or HttpSetup())
    try:
        yield made
    finally:
        made.close()
