"""From a configuration to everything that runs behind the listeners."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.options import Policy, SessionOptions
from penstock.broker.sessions.sessions import Sessions
from penstock.gateways.http.ports import Operations, Ports
from penstock.gateways.mqtt.gateway import MqttGateway
from penstock.server.config import Config


class MqttWorks:
    """`server.Works`: broker, logins, limits, sessions and retained messages, and the MQTT gateway on top."""

    def __init__(self, gateway: MqttGateway, ports: Ports) -> None:
        self.broker, self.gateway, self.ports = ports.broker, gateway, ports

    async def bootstrap(self) -> str | None:
        return await self.ports.access.users.bootstrap()

    def may_connect(self, peer: str) -> bool:
        return self.ports.limits.admit(peer, is_loopback=False)

    async def apply(self, config: Config) -> None:
        # The only one that can refuse comes first.
        self.ports.access.reload(config.auth.options())
        self.ports.limits.change(config.rate_limit.options())
        self.gateway.options = config.mqtt.options()
        self.broker.webhooks.apply([hook.options() for hook in config.webhooks])

    async def close(self) -> None:
        try:
            await self.gateway.close()
        finally:
            self.ports.retained.close()
            self.ports.access.close()
            await self.broker.close()


async def open_works(config: Config, operations: Operations) -> MqttWorks:
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
        gateway = MqttGateway(broker, access, sessions, retained, limits, config.mqtt.options())
        broker.webhooks.apply([hook.options() for hook in config.webhooks])
        gateway.start()
        opened.pop_all()
        return MqttWorks(gateway, _ports(gateway, operations))


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
