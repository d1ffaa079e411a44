"""Who is connected, and to what they subscribe."""

from __future__ import annotations

import msgspec

from penstock.broker.clients import ClientDescription, SubscriptionDescription
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.pages import PageQuery, page
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import NO_CONTENT, Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route

_TAG = "Clients"


class ClientsQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    connected: bool | None = None
    """only those that are, or that are not and have a session"""


class Clients(msgspec.Struct, frozen=True):
    items: list[ClientDescription]
    next: str | None


class Subscriptions(msgspec.Struct, frozen=True):
    items: list[SubscriptionDescription]
    next: str | None


class TopicDescription(msgspec.Struct, frozen=True):
    """A topic filter that has subscribers."""

    name: str
    subscribers: int
    groups: list[str]


class Topics(msgspec.Struct, frozen=True):
    items: list[TopicDescription]
    next: str | None


async def list_clients(exchange: Exchange) -> Reply:
    query = exchange.query(ClientsQuery)
    found = [
        client
        for client in exchange.ports.clients.clients()
        if client.namespace == exchange.namespace and query.connected in (None, client.is_connected)
    ]
    found.sort(key=_client)
    part, following = page(found, _client, query)
    return json_reply(Clients(part, following))


async def describe(exchange: Exchange) -> Reply:
    found = exchange.ports.clients.client(exchange.namespace, exchange.parameters["id"])
    if found is None:
        raise _unknown(exchange)
    return json_reply(found)


async def disconnect(exchange: Exchange) -> Reply:
    reason = f"disconnected by {exchange.identity.name}"
    if not await exchange.ports.clients.disconnect(exchange.namespace, exchange.parameters["id"], reason):
        raise _unknown(exchange)
    return NO_CONTENT


async def list_subscriptions(exchange: Exchange) -> Reply:
    found = sorted(_subscriptions(exchange), key=_subscription)
    part, following = page(found, _subscription, exchange.query(PageQuery))
    return json_reply(Subscriptions(part, following))


async def list_topics(exchange: Exchange) -> Reply:
    found = sorted(_topics(exchange).values(), key=_topic)
    part, following = page(found, _topic, exchange.query(PageQuery))
    return json_reply(Topics(part, following))


async def describe_topic(exchange: Exchange) -> Reply:
    name = exchange.parameters["topic"]
    found = _topics(exchange).get(name)
    if found is None:
        raise Refusal(404, "not-found", f"no subscribers of {name!r}: GET {API}/topics lists subscribed filters")
    return json_reply(found)


def _subscriptions(exchange: Exchange) -> list[SubscriptionDescription]:
    return [each for each in exchange.ports.clients.subscriptions() if each.namespace == exchange.namespace]


def _topics(exchange: Exchange) -> dict[str, TopicDescription]:
    by_filter: dict[str, list[SubscriptionDescription]] = {}
    for subscription in _subscriptions(exchange):
        by_filter.setdefault(subscription.filter, []).append(subscription)
    return {
        name: TopicDescription(name, len(some), sorted({each.group or each.share or "" for each in some} - {""}))
        for name, some in by_filter.items()
    }


def _unknown(exchange: Exchange) -> Refusal:
    return Refusal(404, "not-found", f"no client {exchange.parameters['id']!r}: GET {API}/clients lists them")


def _client(client: ClientDescription) -> str:
    return client.client_id


def _subscription(subscription: SubscriptionDescription) -> str:
    return f"{subscription.filter}\0{subscription.client_id}"


def _topic(topic: TopicDescription) -> str:
    return topic.name


ROUTES = (
    Route(
        "GET",
        f"{API}/clients",
        list_clients,
        Right.READ,
        _TAG,
        "List clients",
        query=ClientsQuery,
        answers={200: Clients},
    ),
    Route(
        "GET",
        f"{API}/clients/{{id}}",
        describe,
        Right.READ,
        _TAG,
        "Describe a client",
        answers={200: ClientDescription},
    ),
    Route(
        "DELETE",
        f"{API}/clients/{{id}}",
        disconnect,
        Right.ADMIN,
        _TAG,
        "Disconnect a client",
        "The session is kept, and the client can connect again.",
        answers={204: None},
    ),
    Route(
        "GET",
        f"{API}/subscriptions",
        list_subscriptions,
        Right.READ,
        _TAG,
        "List subscriptions",
        query=PageQuery,
        answers={200: Subscriptions},
    ),
    Route(
        "GET",
        f"{API}/topics",
        list_topics,
        Right.READ,
        "Topics",
        "List subscribed topic filters",
        query=PageQuery,
        answers={200: Topics},
    ),
    Route(
        "GET",
        f"{API}/topics/{{topic}}",
        describe_topic,
        Right.READ,
        "Topics",
        "List subscribers of a topic filter",
        answers={200: TopicDescription},
    ),
)
