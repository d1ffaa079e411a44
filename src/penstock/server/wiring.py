"""From a configuration to everything that runs behind the listeners."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.options import Policy, SessionOptions
from penstock.broker.sessions.sessions import Sessions
from penstock.gateways.flight.gateway import FlightGateway
from penstock.gateways.http.gateway import HttpGateway
from penstock.gateways.http.metrics.sources import MetricOptions
from penstock.gateways.http.ports import Operations, Ports
from penstock.gateways.mqtt.gateway import MqttGateway
from penstock.server.config import Config
from penstock.server.config_listeners import LISTENER_NAMES
from penstock.server.doors import Gateways
from penstock.server.flight import flight_gateway
from penstock.server.looping import pace_of

if TYPE_CHECKING:
    from penstock.gateways.http.metrics.otlp import OtlpExporter


class ServerWorks:
    """`server.Works`: broker, logins, limits, sessions and retained messages, and the gateways on top."""

    def __init__(
        self,
        mqtt: MqttGateway,
        http: HttpGateway,
        ports: Ports,
        exporter: OtlpExporter | None = None,
        flight: FlightGateway | None = None,
    ) -> None:
        self.broker, self.mqtt, self.http, self.ports = ports.broker, mqtt, http, ports
        self._exporter, self._flight = exporter, flight

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        return {} if self._flight is None else {"flight": self._flight.address}

    @property
    def not_accepting(self) -> list[str]:
        return ["flight"] if self._flight is not None and not self._flight.is_accepting else []

    @property
    def gateways(self) -> Gateways:
        return {name: self.http if name == "http" else self.mqtt for name in LISTENER_NAMES}

    @property
    def connection_count(self) -> int:
        return self.mqtt.connection_count + self.http.connection_count

    async def bootstrap(self) -> str | None:
        return await self.ports.access.users.bootstrap()

    def may_connect(self, peer: str) -> bool:
        return self.ports.limits.admit(peer, is_loopback=False)

    async def apply(self, config: Config) -> None:
        # The only one that can refuse comes first.
        self.ports.access.reload(config.auth.options())
        self.ports.limits.change(config.rate_limit.options())
        self.mqtt.options = config.mqtt.options()
        self.http.apply(config.http.options(config.auth.development_mode))
        self.broker.webhooks.apply([hook.options() for hook in config.webhooks])

    async def drain(self) -> None:
        await asyncio.gather(self.mqtt.drain(), self.http.drain())

    async def close(self) -> None:
        try:
            if self._exporter is not None:
                await self._exporter.stop()
            if self._flight is not None:
                await self._flight.close()
            await self.http.close()
            await self.mqtt.close()
        finally:
            self.ports.retained.close()
            self.ports.access.close()
            await self.broker.close()


async def open_works(config: Config, operations: Operations) -> ServerWorks:
    """DirectoryInUse if another process has the data; what it raises leaves nothing open."""
    async with AsyncExitStack() as opened:
        broker = await Broker.open(Path(config.data_dir), broker_options(config))
        opened.push_async_callback(broker.close)
        access = await _open_access(config, broker)
        opened.callback(access.close)
        limits = RateLimits(config.rate_limit.options(), broker.clock)
        sessions = await Sessions.open(broker.shard, broker.now, session_options(config))
        opened.push_async_callback(sessions.close)
        retained = await Retained.open(broker.shard, broker.now, config.durability)
        opened.callback(retained.close)
        pace = pace_of(asyncio.get_running_loop())
        mqtt = MqttGateway(broker, access, sessions, retained, limits, config.mqtt.options(), pace)
        broker.webhooks.apply([hook.options() for hook in config.webhooks])
        mqtt.start()
        ports = _ports(mqtt, operations)
        http = HttpGateway(ports, config.http.options(config.auth.development_mode))
        flight = flight_gateway(config, broker, access)
        if flight is not None:
            await flight.start()
            opened.push_async_callback(flight.close)
        exporter = _exporter(config, http)
        opened.pop_all()
        return ServerWorks(mqtt, http, ports, exporter, flight)


def _exporter(config: Config, http: HttpGateway) -> OtlpExporter | None:
    if config.otlp is None:
        return None
    options = MetricOptions(max_queues=config.http.max_metric_queues, partitions=config.http.partition_metrics)
    exporter = config.otlp.exporter(http.metrics, options)
    exporter.start()
    return exporter


def _ports(gateway: MqttGateway, operations: Operations) -> Ports:
    broker = gateway.broker
    return Ports(
        broker=broker,
        access=gateway.access,
        limits=gateway.limits,
        retained=gateway.retained,
        sessions=gateway.sessions,
        topics=gateway.bus,
        taps=broker.taps,
        clients=gateway.directory,
        operations=operations,
        webhooks=broker.webhooks,
        protocols={"mqtt": gateway.counters},
        connections=gateway.counters.connections,
    )


def broker_options(config: Config) -> BrokerOptions:
    return BrokerOptions(config.storage.options(), config.broker.auto_create, config.broker.max_auto_queues)


def session_options(config: Config) -> SessionOptions:
    return SessionOptions(
        max_queued_messages=config.mqtt.max_queued_messages,
        max_queued_bytes=config.mqtt.max_queued_size_bytes,
        policy=Policy(config.mqtt.queued_policy.value),
        durability=config.durability,
    )


async def _open_access(config: Config, broker: Broker) -> Access:
    if config.auth.development_mode:
        return Access.open_to_all()
    return await Access.open(broker.shard, config.auth.options(), broker.clock)
