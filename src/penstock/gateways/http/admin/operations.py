"""The server as a whole: what it is like, how it is configured, and what operators do with it."""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock.codecs.http.shapes import AbsolutePath
from penstock.core.types import LogName
from penstock.gateways.http.events.glance import Numbers
from penstock.gateways.http.ports import BackupReport, Change, ReloadReport
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.log.names import log_name

_TAG = "Server"
# Logs of no queue: sessions, retained messages, users.
_OWN_LOGS = log_name("@")


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
    """in all queues of the namespace"""
    published: int
    """since the start"""
    clients: int
    """sessions, connected or not"""
    connected: int
    subscriptions: int
    retained: int
    streams: int
    """event streams and WebSockets over HTTP; this, the journal, problems and warnings are for logins of the namespace
    `default`"""
    journal_syncs: int
    journal_bytes: int


class Config(msgspec.Struct, frozen=True):
    settings: dict[str, object]


class Diff(msgspec.Struct, frozen=True):
    changes: list[Change]


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: Literal["debug", "info", "warning", "error", "critical"]


class Backup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    target: AbsolutePath
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


def overview_of(exchange: Exchange, numbers: Numbers) -> Overview:
    """Of a namespace. What is the server's, its names and its journal, is for those of the server."""
    ports, permissions = exchange.ports, exchange.permissions
    broker, operations = ports.broker, ports.operations
    problems, metrics, is_of_server = operations.problems(), broker.shard.metrics, permissions.is_of_server
    space = ports.retained.spaces.get(exchange.namespace)
    return Overview(
        version=operations.version,
        started_ms=operations.started_ms,
        uptime_s=max(broker.now() - operations.started_ms, 0) / 1000,
        is_ready=not problems,
        problems=problems if is_of_server else [],
        warnings=_warnings(exchange) if is_of_server else [],
        listeners=_listeners(exchange),
        queues=numbers.queues,
        groups=numbers.groups,
        messages=numbers.messages,
        published=numbers.published,
        clients=numbers.clients,
        connected=numbers.connected,
        subscriptions=numbers.subscriptions,
        retained=0 if space is None else space.count,
        streams=exchange.state.streams.count if is_of_server else 0,
        journal_syncs=metrics.journal_syncs if is_of_server else 0,
        journal_bytes=metrics.journal_bytes if is_of_server else 0,
    )


def _warnings(exchange: Exchange) -> list[str]:
    """Without those that name a log of another namespace, unless the caller may know of all."""
    found, shard = exchange.ports.operations.warnings(), exchange.ports.broker.shard
    if exchange.permissions.may_monitor:
        return found
    others = {str(log.fault) for log in shard.faulty_logs if _is_of_another(exchange, log.name)}
    return [warning for warning in found if warning not in others]


def _is_of_another(exchange: Exchange, name: LogName) -> bool:
    namespace = name.partition("/")[0]
    return namespace != log_name(exchange.namespace) and not namespace.startswith(_OWN_LOGS)


async def overview(exchange: Exchange) -> Reply:
    return json_reply(overview_of(exchange, await exchange.state.glances.now(exchange.namespace)))


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
    Route("GET", f"{API}/overview", overview, Right.NUMBERS, _TAG, "Overview of the server", answers={200: Overview}),
    Route(
        "GET",
        f"{API}/config",
        config,
        Right.SERVER,
        _TAG,
        "Get the configuration, without secrets",
        answers={200: Config},
    ),
    Route(
        "GET",
        f"{API}/config/diff",
        config_diff,
        Right.SERVER,
        _TAG,
        "Show what a reload would change",
        answers={200: Diff},
    ),
    Route(
        "POST",
        f"{API}/config/reload",
        reload,
        Right.SERVER,
        _TAG,
        "Reload the configuration",
        "The whole configuration is checked first. The answer lists the settings that need a restart.",
        answers={200: ReloadReport},
    ),
    Route("GET", f"{API}/log/level", log_level, Right.SERVER, _TAG, "Get the log level", answers={200: Level}),
    Route(
        "PUT",
        f"{API}/log/level",
        set_log_level,
        Right.SERVER,
        _TAG,
        "Set the log level",
        body=Level,
        answers={200: Level},
    ),
    Route(
        "POST",
        f"{API}/backup",
        backup,
        Right.SERVER,
        _TAG,
        "Back up the data directory",
        body=Backup,
        answers={201: BackupReport},
    ),
    Route(
        "GET", f"{API}/cluster/nodes", nodes, Right.READ, _TAG, "List the nodes of the cluster", answers={200: Nodes}
    ),
    Route(
        "GET",
        f"{API}/cluster/status",
        cluster,
        Right.READ,
        _TAG,
        "Status of the cluster",
        answers={200: ClusterStatus},
    ),
)
