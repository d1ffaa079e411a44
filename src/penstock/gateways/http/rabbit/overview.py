"""The server as a whole: overview, nodes, virtual hosts, connections, channels, consumers."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.broker.clients import ClientDescription
from penstock.broker.descriptions import ready_and_held
from penstock.core.errors import InvalidArgument
from penstock.gateways.http.rabbit.asked import (
    Asked,
    Json,
    asked,
    at_vhost,
    bad_request,
    body_of,
    everywhere,
    known_namespaces,
    listed,
    not_found,
    shown,
    text_of,
)
from penstock.gateways.http.rabbit.people import tags_in
from penstock.gateways.http.rabbit.policies import require_admin
from penstock.gateways.http.rabbit.queues import CREATED
from penstock.gateways.http.rabbit.rows import route
from penstock.gateways.http.rabbit.told import NODE, tally_of
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import NO_CONTENT, Reply
from penstock.gateways.http.server.rights import Right
from penstock.queues.declared import NamespaceRecord
from penstock.queues.exchange_types import TYPES
from penstock.queues.names import DEFAULT_NAMESPACE
from penstock.queues.vhosts import namespace_of_vhost, vhost_of_namespace

RABBITMQ_VERSION = "3.13.7"
"""the one whose protocol and API are spoken: tools decide by it"""


async def overview(exchange: Exchange) -> Reply:
    ports, spaces = exchange.ports, everywhere(exchange)
    queues = [queue for at in spaces for queue in ports.broker.queues if queue.namespace == at.namespace]
    counts = [ready_and_held(queue) for queue in queues]
    ready, unacknowledged = sum([each[0] for each in counts]), sum([each[1] for each in counts])
    clients = [client for at in spaces for client in _connected(at)]
    tallies = [tally_of(queue) for queue in queues]
    addresses = ports.operations.addresses() if exchange.permissions.is_of_server else {}
    return shown(
        exchange,
        {
            "management_version": RABBITMQ_VERSION,
            "rates_mode": "basic",
            "rabbitmq_version": RABBITMQ_VERSION,
            "product_name": "Penstock",
            "product_version": ports.operations.version,
            "erlang_version": "none",
            "cluster_name": NODE,
            "node": NODE,
            "statistics_db_event_queue": 0,
            "exchange_types": [{"name": name, "description": "", "enabled": True} for name in TYPES],
            "sample_retention_policies": {"global": [], "basic": [], "detailed": []},
            "message_stats": {
                "publish": sum([queue.published for queue in queues]),
                "deliver_get": sum([tally.delivered for tally in tallies]),
                "ack": sum([tally.acked for tally in tallies]),
            },
            "churn_rates": {},
            "queue_totals": {
                "messages": ready + unacknowledged,
                "messages_ready": ready,
                "messages_unacknowledged": unacknowledged,
            },
            "object_totals": {
                "queues": len(queues),
                "exchanges": sum([len(list(ports.broker.exchanges.of(at.namespace))) for at in spaces]),
                "connections": len(clients),
                "channels": len(list(_channels(exchange, spaces))),
                "consumers": sum([client.subscriptions for client in clients]),
            },
            "listeners": [
                {"node": NODE, "protocol": name, "ip_address": host, "port": port, "socket_opts": {}}
                for name, (host, port) in addresses.items()
            ],
            "contexts": [],
        },
    )


def _node(exchange: Exchange) -> Json:
    broker = exchange.ports.broker
    return {
        "name": NODE,
        "type": "disc",
        "running": exchange.ports.operations.failure() is None,
        "uptime": max(broker.wall() - exchange.ports.operations.started_ms, 0),
        "mem_alarm": False,
        "disk_free_alarm": broker.shard.disk_low is not None,
        "mem_used": 0,
        "mem_limit": 0,
        "fd_used": 0,
        "sockets_used": sum(exchange.ports.connections().values()),
        "partitions": [],
        "applications": [],
        "enabled_plugins": ["rabbitmq_management"],
        "rates_mode": "basic",
    }


async def list_nodes(exchange: Exchange) -> Reply:
    return listed(exchange, [_node(exchange)])


async def show_node(exchange: Exchange) -> Reply:
    return shown(exchange, _node(exchange))


async def cluster_name(exchange: Exchange) -> Reply:
    return shown(exchange, {"name": NODE})


async def alive(exchange: Exchange) -> Reply:
    at_vhost(exchange)
    if (failure := exchange.ports.operations.failure()) is not None:
        raise InvalidArgument(failure)
    return shown(exchange, {"status": "ok"})


async def healthy(exchange: Exchange) -> Reply:
    if problems := exchange.ports.operations.problems():
        raise InvalidArgument(problems[0])
    return shown(exchange, {"status": "ok"})


# Virtual hosts


def vhost_told(exchange: Exchange, namespace: str) -> Json:
    declaring = exchange.ports.broker.declaring
    record = declaring.namespaces.get(namespace, NamespaceRecord(namespace))
    counts = [ready_and_held(queue) for queue in exchange.ports.broker.queues if queue.namespace == namespace]
    ready, unacknowledged = sum([each[0] for each in counts]), sum([each[1] for each in counts])
    return {
        "name": vhost_of_namespace(namespace),
        "description": record.description or ("Default virtual host" if namespace == DEFAULT_NAMESPACE else ""),
        "tags": list(record.tags),
        "default_queue_type": "classic",
        "metadata": {"description": record.description, "tags": list(record.tags)},
        "tracing": False,
        "cluster_state": {NODE: "running"},
        "messages": ready + unacknowledged,
        "messages_ready": ready,
        "messages_unacknowledged": unacknowledged,
    }


async def list_vhosts(exchange: Exchange) -> Reply:
    return listed(exchange, [vhost_told(exchange, at.namespace) for at in everywhere(exchange)])


async def show_vhost(exchange: Exchange) -> Reply:
    return shown(exchange, vhost_told(exchange, at_vhost(exchange).namespace))


async def put_vhost(exchange: Exchange) -> Reply:
    body, namespace = await body_of(exchange), namespace_of_vhost(exchange.parameters["vhost"])
    record = NamespaceRecord(namespace, text_of(body, "description", ""), tuple(tags_in(body)))
    is_new = namespace not in known_namespaces(exchange)
    await exchange.ports.broker.policies.put_namespace(record)
    return CREATED if is_new else NO_CONTENT


async def delete_vhost(exchange: Exchange) -> Reply:
    """Only when it is empty: what is in it is deleted by who means it."""
    namespace = namespace_of_vhost(exchange.parameters["vhost"])
    if namespace not in known_namespaces(exchange):
        raise not_found()
    declaring = exchange.ports.broker.declaring
    if namespace == DEFAULT_NAMESPACE or any(space == namespace for space, _ in declaring.queues):
        raise bad_request(f"vhost '{vhost_of_namespace(namespace)}' has queues, or is the default one")
    for found in list(exchange.ports.broker.exchanges.of(namespace)):
        if not found.is_predeclared:
            await exchange.ports.broker.exchanges.delete(namespace, found.name)
    for policy in exchange.ports.broker.policies.all(namespace):
        await exchange.ports.broker.policies.remove(namespace, policy.name)
    await exchange.ports.access.users.remove_rules_in(namespace)
    await exchange.ports.broker.policies.remove_namespace(namespace)
    return NO_CONTENT


# Connections


def _connected(at: Asked) -> Iterator[ClientDescription]:
    """Its own, for who may not look at everything."""
    for client in at.exchange.ports.clients.clients():
        is_mine = at.permissions.may_read or client.user == at.identity.name
        if client.namespace == at.namespace and client.is_connected and is_mine:
            yield client


def _connection_told(at: Asked, client: ClientDescription) -> Json:
    name = client.client_id
    return {
        "name": name,
        "vhost": at.vhost,
        "user": client.user,
        "user_provided_name": name,
        "node": NODE,
        "state": "running",
        "type": "network",
        "protocol": client.protocol or "",
        "peer_host": client.peer or "",
        "peer_port": 0,
        "host": "",
        "port": 0,
        "ssl": False,
        "channels": sum(1 for each in at.exchange.ports.channels() if each.connection == name),
        "connected_at": client.connected_ms,
        "timeout": client.keep_alive_s or 0,
        "client_properties": {},
        "recv_cnt": client.received,
        "send_cnt": client.sent,
        "recv_oct": 0,
        "send_oct": 0,
    }


async def list_connections(exchange: Exchange) -> Reply:
    return listed(exchange, [_connection_told(at, each) for at in asked(exchange) for each in _connected(at)])


async def show_connection(exchange: Exchange) -> Reply:
    at, client = _connection(exchange)
    return shown(exchange, _connection_told(at, client))


async def close_connection(exchange: Exchange) -> Reply:
    at, client = _connection(exchange)
    if client.user != at.identity.name:
        require_admin(at)
    said = exchange.header(b"x-reason")
    reason = "Closed via management plugin" if said is None else said.decode("latin-1")
    if not await exchange.ports.clients.disconnect(at.namespace, client.client_id, reason):
        raise not_found()
    return NO_CONTENT


def _connection(exchange: Exchange) -> tuple[Asked, ClientDescription]:
    for at in everywhere(exchange):
        for client in _connected(at):
            if client.client_id == exchange.parameters["name"]:
                return at, client
    raise not_found()


def _channels(exchange: Exchange, spaces: list[Asked]) -> Iterator[Json]:
    mine = {at.namespace: {client.client_id for client in _connected(at)} for at in spaces}
    for channel in exchange.ports.channels():
        if channel.connection in mine.get(channel.namespace, ()):
            yield {
                "name": f"{channel.connection} ({channel.number})",
                "number": channel.number,
                "vhost": vhost_of_namespace(channel.namespace),
                "user": channel.user,
                "node": NODE,
                "state": "running",
                "connection_details": {"name": channel.connection},
                "consumer_count": channel.consumers,
                "messages_unacknowledged": channel.unacknowledged,
                "messages_unconfirmed": channel.unconfirmed,
                "messages_uncommitted": 0,
                "prefetch_count": channel.prefetch,
                "confirm": channel.is_confirming,
                "transactional": channel.is_transactional,
            }


async def list_channels(exchange: Exchange) -> Reply:
    return listed(exchange, list(_channels(exchange, asked(exchange))))


async def channels_of_connection(exchange: Exchange) -> Reply:
    at, client = _connection(exchange)
    found = [each for each in _channels(exchange, [at]) if each["connection_details"] == {"name": client.client_id}]
    return listed(exchange, found)


async def show_channel(exchange: Exchange) -> Reply:
    for each in _channels(exchange, everywhere(exchange)):
        if each["name"] == exchange.parameters["name"]:
            return shown(exchange, each)
    raise not_found()


async def list_consumers(exchange: Exchange) -> Reply:
    told: list[Json] = []
    spaces = {at.namespace: at for at in asked(exchange)}
    for each in exchange.ports.clients.subscriptions():
        at = spaces.get(each.namespace)
        if at is None or each.queue is None or not at.may(each.queue):
            continue
        told.append(
            {
                "consumer_tag": each.filter,
                "queue": {"name": each.queue, "vhost": at.vhost},
                "channel_details": {"connection_name": each.client_id, "name": each.client_id, "node": NODE},
                "ack_required": each.qos > 0,
                "active": True,
                "activity_status": "up",
                "exclusive": False,
                "arguments": {} if each.group is None else {"x-consumer-group": each.group},
                "prefetch_count": 0,
            }
        )
    return listed(exchange, told)


ROUTES = (
    route("GET", "/api/overview", overview, "Overview"),
    route("GET", "/api/cluster-name", cluster_name, "Name of the cluster"),
    route("GET", "/api/nodes", list_nodes, "List nodes: this one", Right.NUMBERS),
    route("GET", "/api/nodes/{name}", show_node, "Show a node: this one", Right.NUMBERS),
    route("GET", "/api/aliveness-test/{vhost}", alive, "Whether it works"),
    route("GET", "/api/health/checks/alarms", healthy, "Whether it works"),
    route("GET", "/api/health/checks/local-alarms", healthy, "Whether it works"),
    route("GET", "/api/vhosts", list_vhosts, "List virtual hosts"),
    route("GET", "/api/vhosts/{vhost}", show_vhost, "Show a virtual host"),
    route("PUT", "/api/vhosts/{vhost}", put_vhost, "Declare a virtual host", Right.SERVER),
    route("DELETE", "/api/vhosts/{vhost}", delete_vhost, "Delete a virtual host that is empty", Right.SERVER),
    route("GET", "/api/connections", list_connections, "List connections"),
    route("GET", "/api/vhosts/{vhost}/connections", list_connections, "List connections of a virtual host"),
    route("GET", "/api/connections/{name}", show_connection, "Show a connection"),
    route("DELETE", "/api/connections/{name}", close_connection, "Close a connection"),
    route("GET", "/api/connections/{name}/channels", channels_of_connection, "List channels of a connection"),
    route("GET", "/api/channels", list_channels, "List channels"),
    route("GET", "/api/vhosts/{vhost}/channels", list_channels, "List channels of a virtual host"),
    route("GET", "/api/channels/{name}", show_channel, "Show a channel"),
    route("GET", "/api/consumers", list_consumers, "List consumers"),
    route("GET", "/api/consumers/{vhost}", list_consumers, "List consumers of a virtual host"),
)
