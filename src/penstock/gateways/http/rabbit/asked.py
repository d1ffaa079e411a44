"""What a request to RabbitMQ's API asks for: a virtual host, a body, a part of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec

from penstock.broker.auth.identity import Identity
from penstock.broker.auth.permissions import Permissions
from penstock.broker.auth.rules import Action
from penstock.core.errors import InvalidArgument, NamespaceRefused, NoSuchNamespace, NotAuthorised
from penstock.core.regexes import regex_of
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import Reply, json_reply
from penstock.queues.names import DEFAULT_NAMESPACE
from penstock.queues.vhosts import namespace_of_vhost, vhost_of_namespace

Json = dict[str, object]
Item = TypeVar("Item")

DEFAULT_EXCHANGE_NAME = "amq.default"
"""how the default exchange is written in paths"""
_MAX_PAGE = 500


class AnyQuery(msgspec.Struct, frozen=True):
    """Whatever is said: what is not known is passed over, as RabbitMQ does."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks, in a virtual host."""

    exchange: Exchange
    namespace: str
    identity: Identity
    permissions: Permissions

    @property
    def vhost(self) -> str:
        return vhost_of_namespace(self.namespace)

    def may(self, queue: str) -> bool:
        """See that a queue is there: whoever may look at everything, or do something with it."""
        allowed = self.permissions
        return allowed.may_read or any(allowed.may_with_queue(action, queue) for action in _ACTIONS)

    def may_exchange(self, name: str) -> bool:
        allowed = self.permissions
        return allowed.may_read or any(allowed.may_with_exchange(action, name) for action in _ACTIONS)

    def require_queue(self, action: Action, queue: str) -> None:
        if not self.permissions.may_with_queue(action, queue):
            raise NotAuthorised(f"access to queue '{queue}' in vhost '{self.vhost}' for user '{self.identity.name}'")

    def require_exchange(self, action: Action, name: str, key: bytes = b"") -> None:
        if not self.permissions.may_with_exchange(action, name, key):
            raise NotAuthorised(f"access to exchange '{name}' in vhost '{self.vhost}' for user '{self.identity.name}'")


_ACTIONS = (Action.CONFIGURE, Action.PUBLISH, Action.CONSUME)


def in_namespace(exchange: Exchange, namespace: str) -> Asked:
    """NoSuchNamespace, NamespaceRefused."""
    access = exchange.ports.access
    identity = access.enter(exchange.identity, namespace)
    return Asked(exchange, namespace, identity, access.permissions(identity, identity.name))


def at_vhost(exchange: Exchange) -> Asked:
    """That of the path."""
    try:
        return in_namespace(exchange, namespace_of_vhost(exchange.parameters["vhost"]))
    except (NoSuchNamespace, NamespaceRefused, InvalidArgument):
        raise not_found() from None


def everywhere(exchange: Exchange) -> list[Asked]:
    """Each virtual host where the caller works."""
    found = exchange.ports.access.namespaces(exchange.identity, known_namespaces(exchange))
    return [in_namespace(exchange, namespace) for namespace in found]


def asked(exchange: Exchange) -> list[Asked]:
    """The virtual host of the path, or all."""
    return [at_vhost(exchange)] if "vhost" in exchange.parameters else everywhere(exchange)


def known_namespaces(exchange: Exchange) -> list[str]:
    declaring, users = exchange.ports.broker.declaring, exchange.ports.access.users
    found = {DEFAULT_NAMESPACE, *declaring.namespaces, *users.namespaces(), *(space for space, _ in declaring.queues)}
    found |= {space for space in declaring.exchanges.spaces if declaring.exchanges.has_some(space)}
    return sorted(found)


def exchange_name(exchange: Exchange, parameter: str = "exchange") -> str:
    name = exchange.parameters[parameter]
    return "" if name == DEFAULT_EXCHANGE_NAME else name


def not_found() -> Refusal:
    return Refusal(404, "not-found", "Not Found")


def bad_request(reason: str) -> Refusal:
    return Refusal(400, "bad-request", reason)


async def body_of(exchange: Exchange) -> Json:
    """An object, whatever it is called: tools send JSON as a form."""
    data = bytes(await exchange.body())
    try:
        found = msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad_request("the request body is not valid JSON") from None
    if not isinstance(found, dict):
        raise bad_request("the request body is not a JSON object")
    return found


def text_of(body: Mapping[str, object], key: str, default: str | None = None) -> str:
    found = body.get(key, default)
    if not isinstance(found, str):
        raise bad_request(f"{key} is missing, or is not text")
    return found


def flag_of(body: Mapping[str, object], key: str, default: bool = False) -> bool:
    """Tools send `true` as text too."""
    found = body.get(key, default)
    if found in ("true", "false"):
        return found == "true"
    if not isinstance(found, bool):
        raise bad_request(f"{key} is neither true nor false")
    return found


def table_in(body: Mapping[str, object], key: str) -> Json:
    found = body.get(key) or {}
    if not isinstance(found, dict):
        raise bad_request(f"{key} is not a JSON object")
    return found


def queries(exchange: Exchange) -> dict[str, str]:
    text = exchange.scope["query_string"].decode("latin-1")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=100))
    except ValueError:
        raise bad_request("the query string has too many fields, or is not text") from None


def listed(exchange: Exchange, items: Sequence[Json]) -> Reply:
    """All of a list, or what of it is asked for: `name`, `use_regex`, `sort`, `sort_reverse`, `columns`, `page`,
    `page_size`."""
    said = queries(exchange)
    found = _named(said, items)
    if (sort := said.get("sort")) is not None:
        found.sort(key=lambda item: _sort_key(_reached(item, sort)))
        if said.get("sort_reverse") == "true":
            found.reverse()
    if "page" not in said:
        return json_reply([_with_columns(said, item) for item in found])
    number, size = _count(said, "page", 1), _count(said, "page_size", 100)
    if size > _MAX_PAGE:
        raise bad_request(f"invalid page size: the limit is {_MAX_PAGE}")
    pages = max(1, -(-len(found) // size))
    if number > pages:
        raise bad_request(f"page_out_of_range,{number},{pages}")
    part = [_with_columns(said, item) for item in found[(number - 1) * size : number * size]]
    facts = {"total_count": len(items), "filtered_count": len(found), "item_count": len(part), "page": number}
    return json_reply({**facts, "page_size": size, "page_count": pages, "items": part})


def shown(exchange: Exchange, item: Json) -> Reply:
    return json_reply(_with_columns(queries(exchange), item))


def _named(said: Mapping[str, str], items: Iterable[Json]) -> list[Json]:
    name = said.get("name")
    if not name:
        return list(items)
    holds: Callable[[str], bool] = lambda text: name.lower() in text.lower()  # noqa: E731
    if said.get("use_regex") == "true":
        try:
            pattern = regex_of(name)
        except InvalidArgument as error:
            raise bad_request(str(error)) from None
        holds = lambda text: pattern.search(text) is not None  # noqa: E731
    return [item for item in items if holds(str(item.get("name", "")))]


def _with_columns(said: Mapping[str, str], item: Json) -> Json:
    """`columns`: paths with dots, joined by commas."""
    if not (columns := said.get("columns")):
        return item
    found: Json = {}
    for path in columns.split(","):
        value = _reached(item, path)
        into = found
        *above, last = path.split(".")
        for part in above:
            below = into.setdefault(part, {})
            if not isinstance(below, dict):
                break
            into = below
        if value is not None:
            into[last] = value
    return found


def _reached(item: object, path: str) -> object:
    for part in path.split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return item


def _sort_key(value: object) -> tuple[int, float, str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return (0, 0.0, "") if value is None else (2, 0.0, str(value))
    return 1, float(value), ""


def _count(said: Mapping[str, str], key: str, default: int) -> int:
    text = said.get(key, str(default))
    if not text.isdecimal() or not int(text[:9]) > 0 or len(text) > 9:
        raise bad_request(f"{key} is not the number of a page: {text[:40]!r}")
    return int(text)
