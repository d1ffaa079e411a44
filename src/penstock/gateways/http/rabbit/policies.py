"""Policies, and the parameters that there are none of."""

from __future__ import annotations

from penstock.core.errors import NoSuchPolicy, NotAuthorised
from penstock.gateways.http.rabbit.asked import (
    Asked,
    Json,
    asked,
    at_vhost,
    bad_request,
    body_of,
    listed,
    not_found,
    shown,
    table_in,
    text_of,
)
from penstock.gateways.http.rabbit.queues import CREATED
from penstock.gateways.http.rabbit.rows import route
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import NO_CONTENT, Reply
from penstock.queues.policies import Policy, PolicyRecord
from penstock.queues.vhosts import vhost_of_namespace


def policy_told(found: Policy) -> Json:
    record = found.record
    return {
        "vhost": vhost_of_namespace(record.namespace),
        "name": record.name,
        "pattern": record.pattern,
        "apply-to": record.apply_to,
        "definition": record.definition,
        "priority": record.priority,
    }


def policy_in(namespace: str, name: str, body: Json) -> PolicyRecord:
    priority = body.get("priority", 0)
    if isinstance(priority, str) and priority.removeprefix("-").isdecimal():
        priority = int(priority[:10])
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise bad_request("priority is not a whole number")
    apply_to, pattern = text_of(body, "apply-to", "all"), text_of(body, "pattern")
    return PolicyRecord(namespace, name, pattern, table_in(body, "definition"), apply_to, priority)


async def list_policies(exchange: Exchange) -> Reply:
    found = [each for at in asked(exchange) for each in _visible(at)]
    return listed(exchange, [policy_told(each) for each in found])


async def show_policy(exchange: Exchange) -> Reply:
    at = at_vhost(exchange)
    found = [each for each in _visible(at) if each.name == exchange.parameters["name"]]
    if not found:
        raise not_found()
    return shown(exchange, policy_told(found[0]))


async def put_policy(exchange: Exchange) -> Reply:
    at, body = at_vhost(exchange), await body_of(exchange)
    require_admin(at)
    record = policy_in(at.namespace, exchange.parameters["name"], body)
    return CREATED if await exchange.ports.broker.policies.put(record) else NO_CONTENT


async def delete_policy(exchange: Exchange) -> Reply:
    at = at_vhost(exchange)
    require_admin(at)
    try:
        await exchange.ports.broker.policies.remove(at.namespace, exchange.parameters["name"])
    except NoSuchPolicy:
        raise not_found() from None
    return NO_CONTENT


async def nothing(exchange: Exchange) -> Reply:
    """Parameters, limits, operator policies: there are none, whatever they are about."""
    return listed(exchange, [])


def require_admin(at: Asked) -> None:
    if not at.permissions.administers(at.namespace):
        raise NotAuthorised(f"{at.identity.name} does not administer vhost '{at.vhost}'")


def _visible(at: Asked) -> list[Policy]:
    return at.exchange.ports.broker.policies.all(at.namespace) if at.permissions.may_read else []


ROUTES = (
    route("GET", "/api/policies", list_policies, "List policies"),
    route("GET", "/api/policies/{vhost}", list_policies, "List policies of a virtual host"),
    route("GET", "/api/policies/{vhost}/{name}", show_policy, "Show a policy"),
    route("PUT", "/api/policies/{vhost}/{name}", put_policy, "Put a policy"),
    route("DELETE", "/api/policies/{vhost}/{name}", delete_policy, "Remove a policy"),
    route("GET", "/api/operator-policies", nothing, "List operator policies: none"),
    route("GET", "/api/parameters", nothing, "List parameters: none"),
    route("GET", "/api/parameters/{component}", nothing, "List parameters: none"),
    route("GET", "/api/parameters/{component}/{vhost}", nothing, "List parameters: none"),
    route("GET", "/api/global-parameters", nothing, "List global parameters: none"),
    route("GET", "/api/vhost-limits", nothing, "List limits: none"),
)
