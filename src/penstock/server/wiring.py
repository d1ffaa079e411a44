"""From a configuration to everything that runs behind the listeners."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.options import Policy, SessionOptions
from penstock.broker.sessions.sessions import Sessions
from penstock.gateways.mqtt.gateway import MqttGateway
from penstock.server.config import Config
from penstock.server.looping import pace_of


class MqttWorks:
    """`server.Works`: broker, logins, limits, sessions and retained messages, and the MQTT gateway on top."""

    def __init__(
        self, broker: Broker, access: Access, limits: RateLimits, retained: Retained, gateway: MqttGateway
    ) -> None:
        self.broker, self.gateway = broker, gateway
        self._access, self._limits, self._retained = access, limits, retained

    async def bootstrap(self) -> str | None:
        return await self._access.users.bootstrap()

    def may_connect(self, peer: str) -> bool:
        return self._limits.admit(peer, is_loopback=False)

    async def apply(self, config: Config) -> None:
        self._access.reload(config.auth.options())
        self._limits.change(config.rate_limit.options())

    async def close(self) -> None:
        try:
            await self.gateway.close()
        finally:
            self._retained.close()
            self._access.close()
            await self.broker.close()


async def open_works(config: Config) -> MqttWorks:
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
        gateway = MqttGateway(broker, access, sessions, retained, limits, config.mqtt.options(), pace)
        gateway.start()
        opened.pop_all()
        return MqttWorks(broker, access, limits, retained, gateway)


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
