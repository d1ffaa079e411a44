"""From a configuration to everything that runs behind the listeners."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.catalogue.volatile import VolatileOptions
from penstock.broker.clients import Directories
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.options import Policy, SessionOptions
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.topics.topics import Topics
from penstock.gateways.amqp091.gateway import AmqpGateway
from penstock.gateways.http.gateway import HttpGateway
from penstock.gateways.http.ports import Operations, Ports
from penstock.gateways.http.server.routes import RABBIT
from penstock.gateways.mqtt.gateway import MqttGateway
from penstock.gateways.port import Door, StreamDoor
from penstock.server.config import Config, descriptors_of
from penstock.server.config_listeners import LISTENER_NAMES
from penstock.server.descriptors import Descriptors
from penstock.server.doors import Gateways
from penstock.server.flight import flight_gateway
from penstock.telemetry.sources import MetricOptions

if TYPE_CHECKING:
    from penstock.telemetry.otlp import OtlpExporter


class Runtime:
    """`server.Works`: the broker with logins, limits and topics, and its doors, by their names."""

    def __init__(
        self,
        ports: Ports,
        topics: Topics,
        mqtt: MqttGateway,
        amqp: AmqpGateway,
        http: HttpGateway,
        descriptors: Descriptors,
    ) -> None:
        self.broker, self.ports = ports.broker, ports
        self.mqtt, self.amqp, self.http = mqtt, amqp, http
        self.doors: dict[str, Door] = {"mqtt": mqtt, "amqp": amqp, "http": http}
        """opened in this order, closed in the other one"""
        self._topics, self._descriptors = topics, descriptors
        self._exporter: OtlpExporter | None = None

    async def start(self, config: Config) -> None:
        if (flight := flight_gateway(config, self.broker, self.ports.access)) is not None:
            self.doors["flight"] = flight
        self._exporter = _exporter(config, self.http)
        for door in self.doors.values():
            await door.start()

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        return {name: address for door in self.doors.values() for name, address in door.addresses.items()}

    @property
    def not_accepting(self) -> list[str]:
        return [name for door in self.doors.values() for name in door.not_accepting]

    @property
    def gateways(self) -> Gateways:
        of: dict[str, StreamDoor] = {"mqtt": self.mqtt, "amqp": self.amqp, "http": self.http, RABBIT: self.http}
        return {name: next(of[door] for door in of if name.startswith(door)) for name in LISTENER_NAMES}

    @property
    def connection_count(self) -> int:
        return sum([door.connection_count for door in self.doors.values()])

    async def bootstrap(self) -> str | None:
        return await self.ports.access.users.bootstrap()

    def may_connect(self, peer: str) -> bool:
        return self.ports.limits.admit(peer, is_loopback=False)

    def has_room(self, listener: str, descriptor: int, coming: int) -> bool:
        if self._descriptors.has_room(descriptor, self.connection_count + coming, listener == "http"):
            return True
        self.ports.limits.connections_over_limit += 1
        return False

    async def apply(self, config: Config) -> None:
        # The only one that can refuse comes first.
        self.ports.access.reload(config.auth.options())
        await self._topics.sessions.change(config.durability)
        await self._topics.retained.change(config.durability)
        self.ports.limits.change(config.rate_limit.options())
        self._descriptors = descriptors_of(config)
        self._topics.options = config.mqtt.topic_options()
        self.mqtt.options = config.mqtt.options()
        self.amqp.options = config.amqp.options()
        self.http.apply(config.http.options(config.auth.development_mode))
        self.broker.webhooks.apply([hook.options() for hook in config.webhooks])

    async def drain(self) -> None:
        await asyncio.gather(*(door.drain() for door in self.doors.values()))

    async def close(self) -> None:
        try:
            if self._exporter is not None:
                await self._exporter.stop()
            for door in reversed(self.doors.values()):
                await door.close()
        finally:
            await self._topics.close()
            self.ports.access.close()
            await self.broker.close()


async def open_runtime(config: Config, operations: Operations) -> Runtime:
    """DirectoryInUse if another process has the data; what it raises leaves nothing open."""
    async with AsyncExitStack() as opened:
        broker = await Broker.open(Path(config.data_dir), broker_options(config))
        opened.push_async_callback(broker.close)
        access = await _open_access(config, broker)
        opened.callback(access.close)
        limits = RateLimits(config.rate_limit.options(), broker.clock)
        sessions = await Sessions.open(broker.shard, broker.now, session_options(config))
        opened.push_async_callback(sessions.close)
        retained = await Retained.open(broker.shard, config.durability)
        opened.callback(retained.close)
        topics = Topics(broker, sessions, retained, config.mqtt.topic_options())
        broker.webhooks.apply([hook.options() for hook in config.webhooks])
        mqtt = MqttGateway(broker, access, topics, limits, config.mqtt.options())
        amqp = AmqpGateway(broker, access, topics, limits, config.amqp.options())
        ports = _ports(broker, access, limits, topics, mqtt, amqp, operations)
        http = HttpGateway(ports, config.http.options(config.auth.development_mode))
        runtime = Runtime(ports, topics, mqtt, amqp, http, descriptors_of(config))
        opened.pop_all()
    try:
        await runtime.start(config)
    except BaseException:
        await runtime.close()
        raise
    return runtime


def _exporter(config: Config, http: HttpGateway) -> OtlpExporter | None:
    if config.otlp is None:
        return None
    options = MetricOptions(max_queues=config.http.max_metric_queues, partitions=config.http.partition_metrics)
    exporter = config.otlp.exporter(http.metrics, options)
    exporter.start()
    return exporter


def _ports(
    broker: Broker,
    access: Access,
    limits: RateLimits,
    topics: Topics,
    mqtt: MqttGateway,
    amqp: AmqpGateway,
    operations: Operations,
) -> Ports:
    return Ports(
        broker=broker,
        access=access,
        limits=limits,
        retained=topics.retained,
        sessions=topics.sessions,
        topics=topics,
        taps=broker.taps,
        clients=Directories([mqtt.directory, amqp.directory]),
        channels=amqp.directory.channels,
        operations=operations,
        webhooks=broker.webhooks,
        protocols={"mqtt": mqtt.counters, "amqp": amqp.counters},
        connections=lambda: mqtt.counters.connections() | amqp.counters.connections(),
    )


def broker_options(config: Config) -> BrokerOptions:
    storage = config.storage.options()
    keeper = replace(storage.keeper, max_open_files=descriptors_of(config).segment_files)
    queues = config.broker
    volatile = VolatileOptions(queues.volatile_queues, queues.volatile_size_bytes, queues.volatile_queue_size_bytes)
    return BrokerOptions(replace(storage, keeper=keeper), queues.auto_create, queues.max_auto_queues, volatile)


def session_options(config: Config) -> SessionOptions:
    return SessionOptions(
        max_queued_messages=config.mqtt.max_queued_messages,
        max_queued_bytes=config.mqtt.max_queued_size_bytes,
        policy=Policy(config.mqtt.queued_policy.value),
        durability=config.durability,
    )


async def _open_access(config: Config, broker: Broker) -> Access:
    if config.auth.development_mode:
        access = Access.open_to_all()
    else:
        access = await Access.open(broker.shard, config.auth.options(), broker.clock)
    access.working.is_declared = broker.declaring.has_namespace
    return access
