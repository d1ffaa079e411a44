"""Policies, and what another broker had declared."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.codecs.http.policies import ImportReport, NewPolicy, PolicyDescription
from penstock.gateways.http.rabbit.asked import body_of
from penstock.gateways.http.rabbit.definitions import take
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.pages import PageQuery, page
from penstock.gateways.http.server.reply import NO_CONTENT, Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.queues.policies import Policy, PolicyRecord

_TAG = "Policies"


class Policies(msgspec.Struct, frozen=True):
    items: list[PolicyDescription]
    next: str | None


class RabbitDefinitions(msgspec.Struct, frozen=True):
    """What `rabbitmqctl export_definitions` writes."""

    vhosts: list[dict[str, Any]] = []
    users: list[dict[str, Any]] = []
    permissions: list[dict[str, Any]] = []
    policies: list[dict[str, Any]] = []
    exchanges: list[dict[str, Any]] = []
    queues: list[dict[str, Any]] = []
    bindings: list[dict[str, Any]] = []


async def list_policies(exchange: Exchange) -> Reply:
    found = exchange.ports.broker.policies.all(exchange.namespace)
    part, following = page(found, lambda policy: policy.name, exchange.query(PageQuery))
    return json_reply(Policies([_described(each) for each in part], following))


async def describe(exchange: Exchange) -> Reply:
    return json_reply(_described(exchange.ports.broker.policies.find(exchange.namespace, exchange.parameters["name"])))


async def put(exchange: Exchange) -> Reply:
    body, policies = await exchange.read(NewPolicy), exchange.ports.broker.policies
    record = PolicyRecord(
        exchange.namespace, exchange.parameters["name"], body.pattern, body.definition, body.apply_to, body.priority
    )
    is_new = await policies.put(record)
    return json_reply(_described(policies.find(exchange.namespace, record.name)), 201 if is_new else 200)


async def remove(exchange: Exchange) -> Reply:
    await exchange.ports.broker.policies.remove(exchange.namespace, exchange.parameters["name"])
    return NO_CONTENT


async def import_rabbitmq(exchange: Exchange) -> Reply:
    return json_reply(await take(exchange, await body_of(exchange), None))


def _described(policy: Policy) -> PolicyDescription:
    record = policy.record
    return PolicyDescription(record.name, record.pattern, record.definition, record.apply_to, record.priority)


ROUTES = (
    Route(
        "GET",
        f"{API}/policies",
        list_policies,
        Right.READ,
        _TAG,
        "List policies",
        query=PageQuery,
        answers={200: Policies},
    ),
    Route(
        "GET",
        f"{API}/policies/{{name}}",
        describe,
        Right.READ,
        _TAG,
        "Show a policy",
        answers={200: PolicyDescription},
    ),
    Route(
        "PUT",
        f"{API}/policies/{{name}}",
        put,
        Right.ADMIN,
        _TAG,
        "Put a policy",
        "Queues that match follow it at once; their own settings stay, and of numbers the lesser counts.",
        body=NewPolicy,
        answers={200: PolicyDescription, 201: PolicyDescription},
    ),
    Route(
        "DELETE",
        f"{API}/policies/{{name}}",
        remove,
        Right.ADMIN,
        _TAG,
        "Remove a policy",
        answers={204: None},
    ),
    Route(
        "POST",
        f"{API}/import/rabbitmq",
        import_rabbitmq,
        Right.SERVER,
        _TAG,
        "Import the definitions of a RabbitMQ",
        "All of it in one commit, or nothing. Messages are not part of definitions.",
        body=RabbitDefinitions,
        answers={200: ImportReport},
    ),
)
