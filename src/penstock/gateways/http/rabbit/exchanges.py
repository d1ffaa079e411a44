"""Exchanges and bindings."""

from __future__ import annotations

from penstock.broker.auth.rules import Action
from penstock.broker.catalogue.exchanging import Bound
from penstock.core.errors import ExchangeDiffers, NoSuchBinding, NoSuchExchange, NoSuchQueue
from penstock.gateways.http.rabbit.asked import (
    Asked,
    Json,
    asked,
    at_vhost,
    bad_request,
    body_of,
    exchange_name,
    flag_of,
    listed,
    not_found,
    queries,
    shown,
    table_in,
    text_of,
)
from penstock.gateways.http.rabbit.queues import CREATED
from penstock.gateways.http.rabbit.rows import route
from penstock.gateways.http.rabbit.told import binding_told, default_binding, exchange_told, properties_key
from penstock.gateways.http.server.exchange import Exchange as Request
from penstock.gateways.http.server.reply import NO_CONTENT, Reply
from penstock.queues.exchange_headers import Value
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import Exchange

_ALTERNATE = "alternate-exchange"
_KINDS = {"q": "queue", "e": "exchange"}


async def list_exchanges(request: Request) -> Reply:
    told = []
    for at in asked(request):
        found = sorted(request.ports.broker.exchanges.of(at.namespace), key=lambda exchange: exchange.name)
        told += [exchange_told(at, each) for each in found if at.may_exchange(each.name)]
    return listed(request, told)


async def show_exchange(request: Request) -> Reply:
    at = at_vhost(request)
    return shown(request, exchange_told(at, _exchange_of(at)))


async def put_exchange(request: Request) -> Reply:
    at, body = at_vhost(request), await body_of(request)
    return CREATED if await declare(at, exchange_in(exchange_name(request), body)) else NO_CONTENT


def exchange_in(name: str, body: Json) -> Exchange:
    arguments: dict[str, Value] = dict(table_in(body, "arguments"))  # type: ignore[arg-type]  # what JSON has
    alternate = arguments.pop(_ALTERNATE, None)
    if alternate is not None and not isinstance(alternate, str):
        raise bad_request(f"{_ALTERNATE} is not text")
    flags = flag_of(body, "durable", True), flag_of(body, "auto_delete"), flag_of(body, "internal")
    return Exchange(name, text_of(body, "type", "direct"), *flags, alternate, arguments)


async def declare(at: Asked, wanted: Exchange) -> bool:
    at.require_exchange(Action.CONFIGURE, wanted.name)
    try:
        return await at.exchange.ports.broker.exchanges.declare(at.namespace, wanted)
    except ExchangeDiffers as error:
        what = "auto_delete" if error.what == "auto_delete" else error.what.replace("alternate", _ALTERNATE)
        raise bad_request(
            f"inequivalent arg '{what}' for exchange '{wanted.name}' in vhost '{at.vhost}': "
            f"received '{_said(error.wanted)}' but current is '{_said(error.current)}'"
        ) from None


async def delete_exchange(request: Request) -> Reply:
    at = at_vhost(request)
    found = _exchange_of(at)
    at.require_exchange(Action.CONFIGURE, found.name)
    if_unused = queries(request).get("if-unused") == "true"
    await request.ports.broker.exchanges.delete(at.namespace, found.name, if_unused=if_unused)
    return NO_CONTENT


async def bindings_from(request: Request) -> Reply:
    at = at_vhost(request)
    name = _exchange_of(at).name
    found = _of_default(at) if not name else request.ports.broker.exchanges.bindings(at.namespace, name)
    return listed(request, [binding_told(at, each) for each in found])


async def bindings_to(request: Request) -> Reply:
    at = at_vhost(request)
    name = _exchange_of(at).name
    found = request.ports.broker.exchanges.bindings(at.namespace, None, Destination("exchange", name))
    return listed(request, [binding_told(at, each) for each in found])


async def list_bindings(request: Request) -> Reply:
    told = []
    for at in asked(request):
        found = [*_of_default(at), *request.ports.broker.exchanges.bindings(at.namespace)]
        told += [binding_told(at, each) for each in found if _may_see(at, each.destination)]
    return listed(request, told)


async def bindings_between(request: Request) -> Reply:
    at = at_vhost(request)
    return listed(request, [binding_told(at, each) for each in _between(at)])


async def bind(request: Request) -> Reply:
    at, body = at_vhost(request), await body_of(request)
    arguments: dict[str, Value] = dict(table_in(body, "arguments"))  # type: ignore[arg-type]  # what JSON has
    key, destination = text_of(body, "routing_key", ""), _destination(request)
    await bind_to(at, exchange_name(request), destination, key, arguments)
    location = properties_key(key, arguments).encode()
    return Reply(201, headers=((b"location", location),))


async def bind_to(at: Asked, source: str, destination: Destination, key: str, arguments: dict[str, Value]) -> None:
    """A binding needs the right to write to its destination and to read its source."""
    _require_ends(at, source, destination)
    try:
        await at.exchange.ports.broker.exchanges.bind(at.namespace, source, destination, key, arguments)
    except (NoSuchExchange, NoSuchQueue):
        raise not_found() from None


async def show_binding(request: Request) -> Reply:
    at = at_vhost(request)
    return shown(request, binding_told(at, _named_binding(at)))


async def unbind(request: Request) -> Reply:
    at = at_vhost(request)
    found = _named_binding(at)
    _require_ends(at, found.source, found.destination)
    try:
        await request.ports.broker.exchanges.unbind(
            at.namespace, found.source, found.destination, found.key, found.arguments
        )
    except NoSuchBinding:
        raise not_found() from None
    return NO_CONTENT


def _require_ends(at: Asked, source: str, destination: Destination) -> None:
    if destination.kind == "queue":
        at.require_queue(Action.PUBLISH, destination.name)
    else:
        at.require_exchange(Action.PUBLISH, destination.name)
    at.require_exchange(Action.CONSUME, source)


def _named_binding(at: Asked) -> Bound:
    wanted = at.exchange.parameters["properties"]
    for each in _between(at):
        if properties_key(each.key, each.arguments) in (wanted, wanted.replace("%2F", "/")):
            return each
        if not each.arguments and each.key == wanted:
            return each
    raise not_found()


def _between(at: Asked) -> list[Bound]:
    """AMQP's default exchange has one binding for each queue."""
    source, destination = exchange_name(at.exchange), _destination(at.exchange)
    if not _may_see(at, destination):
        raise not_found()
    if not source:
        return [default_binding(destination.name)] if destination.kind == "queue" else []
    return at.exchange.ports.broker.exchanges.bindings(at.namespace, source, destination)


def _destination(request: Request) -> Destination:
    kind, name = request.parameters["kind"], exchange_name(request, "destination")
    if kind not in _KINDS:
        raise not_found()
    return Destination("queue", name) if kind == "q" else Destination("exchange", name)


def _may_see(at: Asked, destination: Destination) -> bool:
    return at.may(destination.name) if destination.kind == "queue" else at.may_exchange(destination.name)


def _of_default(at: Asked) -> list[Bound]:
    queues = at.exchange.ports.broker.declaring.queues
    return [default_binding(name) for namespace, name in sorted(queues) if namespace == at.namespace and at.may(name)]


def _exchange_of(at: Asked) -> Exchange:
    name = exchange_name(at.exchange)
    space = at.exchange.ports.broker.exchanges.of(at.namespace)
    if name not in space or not at.may_exchange(name):
        raise not_found()
    return space.find(name)


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_E, _B = "/api/exchanges/{vhost}/{exchange}", "/api/bindings/{vhost}/e/{exchange}/{kind}/{destination}"
ROUTES = (
    route("GET", "/api/exchanges", list_exchanges, "List exchanges"),
    route("GET", "/api/exchanges/{vhost}", list_exchanges, "List exchanges of a virtual host"),
    route("GET", _E, show_exchange, "Show an exchange"),
    route("PUT", _E, put_exchange, "Declare an exchange"),
    route("DELETE", _E, delete_exchange, "Delete an exchange"),
    route("GET", f"{_E}/bindings/source", bindings_from, "List bindings from an exchange"),
    route("GET", f"{_E}/bindings/destination", bindings_to, "List bindings to an exchange"),
    route("GET", "/api/bindings", list_bindings, "List bindings"),
    route("GET", "/api/bindings/{vhost}", list_bindings, "List bindings of a virtual host"),
    route("GET", _B, bindings_between, "List bindings between two"),
    route("POST", _B, bind, "Bind"),
    route("GET", f"{_B}/{{properties}}", show_binding, "Show a binding"),
    route("DELETE", f"{_B}/{{properties}}", unbind, "Unbind"),
)
