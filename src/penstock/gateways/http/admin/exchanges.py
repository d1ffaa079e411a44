"""Exchanges and bindings: declared, listed, deleted."""

from __future__ import annotations

import msgspec

from penstock.broker.catalogue.exchanging import Bound
from penstock.codecs.http.exchanges import (
    BindingDescription,
    Bindings,
    ExchangeDescription,
    Exchanges,
    NewBinding,
    NewExchange,
)
from penstock.core.errors import NotAuthorised
from penstock.core.queue_paths import queue_topic
from penstock.gateways.http.server.exchange import Exchange as Request
from penstock.gateways.http.server.exchange import Query
from penstock.gateways.http.server.pages import PageQuery, page
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import NO_CONTENT, Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.queues.exchange_topics import DEFAULT_EXCHANGE, exchange_topic
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import Exchange

_TAG = "Exchanges"
_PATH = f"{API}/exchanges/{{exchange}}"
DEFAULT_NAME = "amq.default"
"""of the default exchange, which has none, in paths"""


class DeleteQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    if_unused: bool = False
    """refuse if it has bindings"""


class BindingsQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str | None = None
    queue: str | None = None
    exchange: str | None = None
    """that messages are passed on to"""


def exchange_name(request: Request) -> str:
    """That of the path."""
    name = request.parameters["exchange"]
    return DEFAULT_EXCHANGE if name == DEFAULT_NAME else name


async def list_exchanges(request: Request) -> Reply:
    """Those that the caller may see."""
    query, space = request.query(PageQuery), request.ports.broker.exchanges.of(request.namespace)
    found = sorted([each for each in space if _may_look(request, each.name)], key=_name)
    part, following = page(found, _name, query)
    return json_reply(Exchanges([_described(request, each) for each in part], following))


async def describe(request: Request) -> Reply:
    name = exchange_name(request)
    if not _may_look(request, name):
        raise NotAuthorised(f"{request.identity.name} may not look at exchange {name!r}")
    found = request.ports.broker.exchanges.of(request.namespace).find(name)
    return json_reply(_described(request, found))


async def declare(request: Request) -> Reply:
    wanted = await request.read(NewExchange)
    _require_configure(request, _address(wanted.name))
    made = Exchange(
        wanted.name,
        wanted.type,
        wanted.durable,
        wanted.auto_delete,
        wanted.internal,
        wanted.alternate,
        wanted.arguments,
    )
    is_new = await request.ports.broker.exchanges.declare(request.namespace, made)
    return json_reply(_described(request, made), 201 if is_new else 200)


async def delete(request: Request) -> Reply:
    name, query = exchange_name(request), request.query(DeleteQuery)
    _require_configure(request, _address(name))
    await request.ports.broker.exchanges.delete(request.namespace, name, if_unused=query.if_unused)
    return NO_CONTENT


async def list_bindings(request: Request) -> Reply:
    """Those of exchanges that the caller may see."""
    query = request.query(BindingsQuery)
    told: list[Bound] = []
    if query.queue is None or query.exchange is None:  # a binding leads to one of them
        told = request.ports.broker.exchanges.bindings(request.namespace, query.source, _destination(request, query))
    found = sorted([each for each in map(_binding, told) if _may_look(request, each.source)], key=_identity)
    part, following = page(found, _identity, query)
    return json_reply(Bindings(part, following))


async def bind(request: Request) -> Reply:
    wanted = await request.read(NewBinding)
    destination = _ends(request, wanted)
    book = request.ports.broker.exchanges
    is_new = await book.bind(request.namespace, wanted.source, destination, wanted.key, wanted.arguments)
    told = Bound(wanted.source, destination, wanted.key, wanted.arguments)
    return json_reply(_binding(told), 201 if is_new else 200)


async def unbind(request: Request) -> Reply:
    wanted = await request.read(NewBinding)
    destination = _ends(request, wanted)
    book = request.ports.broker.exchanges
    await book.unbind(request.namespace, wanted.source, destination, wanted.key, wanted.arguments)
    return NO_CONTENT


def _ends(request: Request, wanted: NewBinding) -> Destination:
    """Both may be configured by the caller."""
    destination = _destination(request, wanted)
    if destination is None or (wanted.queue is not None and wanted.exchange is not None):
        raise Refusal(400, "malformed-body", "queue or exchange: give one of them to bind to", "queue")
    _require_configure(request, _address(wanted.source))
    other = queue_topic(destination.name) if destination.kind == "queue" else _address(destination.name)
    _require_configure(request, other)
    return destination


def _destination(request: Request, wanted: NewBinding | BindingsQuery) -> Destination | None:
    if wanted.queue is not None:
        return Destination("queue", request.ports.broker.declaring.named(wanted.queue, request.namespace))
    return None if wanted.exchange is None else Destination("exchange", wanted.exchange)


def _require_configure(request: Request, address: str) -> None:
    allowed = request.permissions
    if not (allowed.administers(request.namespace) or allowed.may_configure(address)):
        raise NotAuthorised(f"{request.identity.name} may not configure {address!r}")


def _may_look(request: Request, name: str) -> bool:
    allowed, address = request.permissions, _address(name)
    return allowed.may_read or allowed.may_configure(address) or allowed.may_publish(address.encode())


def _address(name: str) -> str:
    return exchange_topic(name, b"").decode()


def _described(request: Request, exchange: Exchange) -> ExchangeDescription:
    space = request.ports.broker.exchanges.of(request.namespace)
    return ExchangeDescription(
        exchange.name,
        exchange.type,
        exchange.is_durable,
        exchange.auto_delete,
        exchange.internal,
        exchange.alternate,
        dict(exchange.arguments),
        exchange.is_predeclared,
        len(space.bindings_of(exchange.name)),
    )


def _binding(bound: Bound) -> BindingDescription:
    kind, name = bound.destination
    queue, exchange = (name, None) if kind == "queue" else (None, name)
    return BindingDescription(bound.source, queue, exchange, bound.key, dict(bound.arguments))


def _name(exchange: Exchange) -> str:
    return exchange.name


def _identity(binding: BindingDescription) -> str:
    return msgspec.json.encode(binding, order="deterministic").decode()


ROUTES = (
    Route(
        "GET",
        f"{API}/exchanges",
        list_exchanges,
        Right.LOGIN,
        _TAG,
        "List exchanges",
        query=PageQuery,
        answers={200: Exchanges},
    ),
    Route(
        "POST",
        f"{API}/exchanges",
        declare,
        Right.LOGIN,
        _TAG,
        "Declare an exchange",
        "Succeeds if there is one that is the same in everything.",
        body=NewExchange,
        answers={201: ExchangeDescription, 200: ExchangeDescription},
    ),
    Route("GET", _PATH, describe, Right.LOGIN, _TAG, "Describe an exchange", answers={200: ExchangeDescription}),
    Route(
        "DELETE",
        _PATH,
        delete,
        Right.LOGIN,
        _TAG,
        "Delete an exchange with its bindings",
        query=DeleteQuery,
        answers={204: None},
    ),
    Route(
        "GET",
        f"{API}/bindings",
        list_bindings,
        Right.LOGIN,
        _TAG,
        "List bindings",
        "The topics of queues are bindings of amq.topic. Those of the default exchange, which every queue has by its "
        "name, are not listed.",
        query=BindingsQuery,
        answers={200: Bindings},
    ),
    Route(
        "POST",
        f"{API}/bindings",
        bind,
        Right.LOGIN,
        _TAG,
        "Bind a queue or an exchange to an exchange",
        body=NewBinding,
        answers={201: BindingDescription, 200: BindingDescription},
    ),
    Route(
        "DELETE",
        f"{API}/bindings",
        unbind,
        Right.LOGIN,
        _TAG,
        "Remove a binding",
        body=NewBinding,
        answers={204: None},
    ),
)
