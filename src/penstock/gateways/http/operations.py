"""The server as a whole: what it is like, how it is configured, and what operators do with it."""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock.gateways.http.exchange import Exchange
from penstock.gateways.http.ports import BackupReport, Change, ReloadReport
from penstock.gateways.http.reply import Reply, json_reply
from penstock.gateways.http.rights import Right
from penstock.gateways.http.routes import API, Route

_TAG = "Server"


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int


class Overview(msgspec.Struct, frozen=True):
    version: str
    started_ms: int
    uptime_s: float
    is_ready: bool
    problems: list[str]
    warnings: list[str]
    listeners: dict[str, Address]
    queues: int
    groups: int
    messages: int
    """in all queues"""
    published: int
    """since the start"""
    clients: int
    """sessions, connected or not"""
    connected: int
    subscriptions: int
    retained: int
    streams: int
    """event streams and WebSockets over HTTP"""
    journal_syncs: int
    journal_bytes: int


class Config(msgspec.Struct, frozen=True):
    settings: dict[str, object]


class Diff(msgspec.Struct, frozen=True):
    changes: list[Change]


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: Literal["debug", "info", "warning", "error", "critical"]


class Backup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    target: str
    """an absolute path on the server's machine, of a directory that is empty or absent"""


class Node(msgspec.Struct, frozen=True):
    id: str
    version: str
    listeners: dict[str, Address]
    is_leader: bool


class Nodes(msgspec.Struct, frozen=True):
    items: list[Node]


class ClusterStatus(msgspec.Struct, frozen=True):
    status: str
    nodes: int
    mode: str


def overview_of(exchange: Exchange) -> Overview:
    ports = exchange.ports
    broker, operations = ports.broker, ports.operations
    queues = [queue for queue in broker.queues if queue.namespace == exchange.namespace]
    clients = [client for client in ports.clients.clients() if client.namespace == exchange.namespace]
    problems, metrics = operations.problems(), broker.shard.metrics
    return Overview(
        version=operations.version,
        started_ms=operations.started_ms,
        uptime_s=max(broker.now() - operations.started_ms, 0) / 1000,
        is_ready=not problems,
        problems=problems,
        warnings=operations.warnings(),
        listeners=_listeners(exchange),
        queues=len(queues),
        groups=sum([len(queue.groups) for queue in queues]),
        messages=sum([unit.end - unit.start for queue in queues for unit in queue.units.values()]),
        published=sum([queue.published for queue in queues]),
        clients=len(clients),
        connected=sum([client.is_connected for client in clients]),
        subscriptions=sum([client.subscriptions for client in clients]),
        retained=ports.retained.count,
        streams=exchange.state.streams.count,
        journal_syncs=metrics.journal_syncs,
        journal_bytes=metrics.journal_bytes,
    )


async def overview(exchange: Exchange) -> Reply:
    return json_reply(overview_of(exchange))


async def config(exchange: Exchange) -> Reply:
    return json_reply(Config(exchange.ports.operations.config()))


async def config_diff(exchange: Exchange) -> Reply:
    return json_reply(Diff(await exchange.ports.operations.check_reload()))


async def reload(exchange: Exchange) -> Reply:
    return json_reply(await exchange.ports.operations.reload())


async def log_level(exchange: Exchange) -> Reply:
    return json_reply({"level": exchange.ports.operations.log_level})


async def set_log_level(exchange: Exchange) -> Reply:
    exchange.ports.operations.log_level = (await exchange.read(Level)).level
    return await log_level(exchange)


async def backup(exchange: Exchange) -> Reply:
    return json_reply(await exchange.ports.operations.backup((await exchange.read(Backup)).target), 201)


async def nodes(exchange: Exchange) -> Reply:
    node = Node("1", exchange.ports.operations.version, _listeners(exchange), True)
    return json_reply(Nodes([node]))


async def cluster(exchange: Exchange) -> Reply:
    status = "degraded" if exchange.ports.operations.problems() else "healthy"
    return json_reply(ClusterStatus(status, 1, "single node"))


def _listeners(exchange: Exchange) -> dict[str, Address]:
    return {name: Address(*address) for name, address in exchange.ports.operations.addresses().items()}


ROUTES = (
    Route("GET", f"{API}/overview", overview, Right.READ, _TAG, "The server at a glance", answers={200: Overview}),
    Route(
        "GET", f"{API}/config", config, Right.READ, _TAG, "The configuration, without secrets", answers={200: Config}
    ),
    Route(
        "GET", f"{API}/config/diff", config_diff, Right.READ, _TAG, "What a reload would change", answers={200: Diff}
    ),
    Route(
        "POST",
        f"{API}/config/reload",
        reload,
        Right.ADMIN,
        _TAG,
        "Read the configuration again",
        "All of it is checked first; what needs a restart is named.",
        answers={200: ReloadReport},
    ),
    Route("GET", f"{API}/log/level", log_level, Right.READ, _TAG, "Which log lines are written", answers={200: Level}),
    Route(
        "PUT",
        f"{API}/log/level",
        set_log_level,
        Right.ADMIN,
        _TAG,
        "Change which log lines are written",
        body=Level,
        answers={200: Level},
    ),
    Route(
        "POST",
        f"{API}/backup",
        backup,
        Right.ADMIN,
        _TAG,
        "Copy the data while the server goes on",
        body=Backup,
        answers={201: BackupReport},
    ),
    Route("GET", f"{API}/cluster/nodes", nodes, Right.READ, _TAG, "The nodes: this one", answers={200: Nodes}),
    Route(
        "GET",
        f"{API}/cluster/status",
        cluster,
        Right.READ,
        _TAG,
        "Whether they are well: one node",
        answers={200: ClusterStatus},
    ),
)
