"""Everything that is declared, as RabbitMQ exports and imports it."""

from __future__ import annotations

from penstock.broker.auth.rabbit_rights import permission_of
from penstock.core.errors import NotAuthorised
from penstock.gateways.http.rabbit.asked import Asked, Json, at_vhost, body_of, everywhere, in_namespace
from penstock.gateways.http.rabbit.overview import RABBITMQ_VERSION
from penstock.gateways.http.rabbit.people import permission_told, user_told
from penstock.gateways.http.rabbit.policies import policy_told, require_admin
from penstock.gateways.http.rabbit.reading import Reader
from penstock.gateways.http.rabbit.rows import route
from penstock.gateways.http.rabbit.told import binding_told, declared_as, exchange_told, queue_told
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.queues.names import DEFAULT_NAMESPACE

_QUEUE = ("name", "vhost", "durable", "auto_delete", "arguments", "type")
_EXCHANGE = ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")
_BINDING = ("source", "vhost", "destination", "destination_type", "routing_key", "arguments")


async def export_all(exchange: Exchange) -> Reply:
    """Without passwords: hashes are shown to nobody."""
    spaces = everywhere(exchange)
    found = _of_spaces(exchange, spaces)
    permissions = []
    users = exchange.users.all()
    for at in spaces:
        for user in users:
            rules = [
                each
                for each in exchange.ports.access.users.rules
                if each.user == user.name and each.namespace == at.namespace
            ]
            if (permission := permission_of(rules)) is not None:
                permissions.append(permission_told(user.name, at.namespace, permission))
    return json_reply(
        {
            "rabbit_version": RABBITMQ_VERSION,
            "rabbitmq_version": RABBITMQ_VERSION,
            "product_name": "Penstock",
            "product_version": exchange.ports.operations.version,
            "users": [user_told(user) for user in users],
            "vhosts": [{"name": at.vhost} for at in spaces],
            "permissions": permissions,
            "topic_permissions": [],
            "parameters": [],
            "global_parameters": [],
            **found,
        }
    )


async def export_vhost(exchange: Exchange) -> Reply:
    at = at_vhost(exchange)
    require_admin(at)
    found = _of_spaces(exchange, [at])
    return json_reply({"rabbit_version": RABBITMQ_VERSION, "parameters": [], **found})


def _of_spaces(exchange: Exchange, spaces: list[Asked]) -> Json:
    broker, rates = exchange.ports.broker, exchange.state.rates
    queues, exchanges, bindings, policies = list[Json](), list[Json](), list[Json](), list[Json]()
    for at in spaces:
        mine = [queue for queue in broker.queues if queue.namespace == at.namespace]
        queues += [
            _picked(queue_told(at, queue, rates), _QUEUE) for queue in mine if not declared_as(queue).is_exclusive
        ]
        found = [each for each in broker.exchanges.of(at.namespace) if not each.is_predeclared]
        exchanges += [_picked(exchange_told(at, each), _EXCHANGE) for each in found]
        bindings += [_picked(binding_told(at, each), _BINDING) for each in broker.exchanges.bindings(at.namespace)]
        policies += [policy_told(each) for each in broker.policies.all(at.namespace)]
    return {"policies": policies, "queues": queues, "exchanges": exchanges, "bindings": bindings}


def _picked(item: Json, names: tuple[str, ...]) -> Json:
    return {name: item[name] for name in names}


async def import_all(exchange: Exchange) -> Reply:
    """All of it in one commit, or nothing; `notes` say what has no meaning here."""
    if not exchange.permissions.is_server_admin:
        raise NotAuthorised(f"{exchange.identity.name} does not administer the server")
    return json_reply(await take(exchange, await body_of(exchange), None), 200)


async def import_vhost(exchange: Exchange) -> Reply:
    at = at_vhost(exchange)
    require_admin(in_namespace(exchange, DEFAULT_NAMESPACE) if "users" in await _said(exchange) else at)
    return json_reply(await take(exchange, await _said(exchange), at.namespace), 200)


async def _said(exchange: Exchange) -> Json:
    """Read once."""
    body = exchange.scope.get("penstock.definitions")
    if body is None:
        body = exchange.scope["penstock.definitions"] = await body_of(exchange)
    assert isinstance(body, dict)
    return body


async def take(exchange: Exchange, body: Json, namespace: str | None) -> Json:
    found = Reader(exchange, body, namespace).read()
    wanted = found.wanted
    await exchange.ports.broker.importing.take(wanted, exchange.ports.access.users)
    counts = {
        "vhosts": len(wanted.namespaces),
        "users": len(wanted.users),
        "permissions": len(wanted.rules),
        "policies": len(wanted.policies),
        "exchanges": len(wanted.exchanges),
        "queues": len(wanted.queues),
        "bindings": len(wanted.bindings),
    }
    return {"imported": counts, "notes": found.notes}


ROUTES = (
    route("GET", "/api/definitions", export_all, "Export definitions", Right.SERVER),
    route("POST", "/api/definitions", import_all, "Import definitions", Right.SERVER),
    route("GET", "/api/definitions/{vhost}", export_vhost, "Export definitions of a virtual host"),
    route("POST", "/api/definitions/{vhost}", import_vhost, "Import definitions of a virtual host"),
)
