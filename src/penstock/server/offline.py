"""A data directory that no server has, asked as a server is: the HTTP gateway in this process, and nothing listens."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.auth.options import RateLimitOptions
from penstock.broker.broker import Broker
from penstock.broker.clients import ClientDescription, ClientTally, SubscriptionDescription
from penstock.broker.retained.retained import Retained
from penstock.core.errors import InvalidArgument
from penstock.core.metrics import ReloadMetrics
from penstock.gateways.http.gateway import HttpGateway
from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.ports import BackupReport, Change, Ports, ReloadReport
from penstock.gateways.wire.listener import ListenerFacts
from penstock.version import VERSION

Connect = Callable[[asyncio.Protocol], Awaitable[None]]

_FACTS = ListenerFacts("directory", is_loopback=True)
_NO_SERVER = "this is a directory and no server: start one with `penstock serve`, then ask it"


@asynccontextmanager
async def open_directory(directory: Path) -> AsyncIterator[Connect]:
    """What connects a client to it, as an admin. DirectoryInUse if another process has it. Sessions of MQTT are left
    alone: to whoever looks at queues they are as the last server left them."""
    async with AsyncExitStack() as opened:
        broker = await Broker.open(directory)
        opened.push_async_callback(broker.close)
        access = await Access.open_to_operator(broker.shard, broker.clock)
        opened.callback(access.close)
        retained = await Retained.open(broker.shard, None)
        opened.callback(retained.close)
        gateway = HttpGateway(_ports(broker, access, retained), HttpOptions())
        opened.push_async_callback(gateway.close)
        yield lambda protocol: _connect(gateway, protocol)


async def _connect(gateway: HttpGateway, protocol: asyncio.Protocol) -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    await loop.connect_accepted_socket(lambda: gateway.protocol(_FACTS), theirs)
    await loop.create_connection(lambda: protocol, sock=ours)


def _ports(broker: Broker, access: Access, retained: Retained) -> Ports:
    return Ports(
        broker=broker,
        access=access,
        limits=RateLimits(RateLimitOptions(), broker.clock),
        retained=retained,
        sessions=None,
        topics=_NoTopics(),
        taps=broker.taps,
        clients=_NoClients(),
        operations=_DirectoryOperations(broker),
        webhooks=broker.webhooks,
        protocols={},
        connections=dict,
    )


class _NoTopics:
    async def send(self, *request: object, **terms: object) -> int:
        raise InvalidArgument(_NO_SERVER)


class _NoClients:
    def clients(self) -> Iterator[ClientDescription]:
        return iter(())

    def tallies(self) -> Iterator[ClientTally]:
        return iter(())

    def client(self, namespace: str, client_id: str) -> ClientDescription | None:
        return None

    async def disconnect(self, namespace: str, client_id: str, reason: str) -> bool:
        return False

    def subscriptions(self) -> Iterator[SubscriptionDescription]:
        return iter(())


class _DirectoryOperations:
    """`gateways.http.ports.Operations`, as far as it can be said of a directory."""

    log_level = "warning"

    def __init__(self, broker: Broker) -> None:
        self.version, self.started_ms, self.reload_metrics = VERSION, broker.wall(), ReloadMetrics()

    def addresses(self) -> dict[str, tuple[str, int]]:
        return {}

    def problems(self) -> list[str]:
        return []

    def broken_logs(self) -> list[str]:
        return []

    def failure(self) -> str | None:
        return None

    def warnings(self) -> list[str]:
        return []

    def config(self) -> dict[str, object]:
        raise InvalidArgument(_NO_SERVER)

    async def check_reload(self) -> list[Change]:
        raise InvalidArgument(_NO_SERVER)

    async def reload(self) -> ReloadReport:
        raise InvalidArgument(_NO_SERVER)

    async def backup(self, target: str) -> BackupReport:
        raise InvalidArgument("copy a directory with `penstock backup DIR TARGET`")
