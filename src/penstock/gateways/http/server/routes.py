"""The table of routes: dispatch, rights, documentation and tests all read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import Reply
from penstock.gateways.http.server.rights import Right

API = "/api/v1"
RABBIT = "rabbitmq_api"
"""the listener that has RabbitMQ's management API, and nothing else"""
WEBSOCKET = "WEBSOCKET"
"""as a route's method"""

# Paths with queue names in them: a handful for most, a bound for those who try all of them.
_CACHED_PATHS = 4096

Handler = Callable[[Exchange], Awaitable[Reply | None]]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. A handler that returns no reply has sent its own."""

    method: str
    path: str
    """parameters in braces, each one segment of the path: /api/v1/queues/{queue}/messages"""
    handler: Handler
    right: Right
    tag: str
    summary: str
    description: str = ""
    query: type | None = None
    """a struct: what may stand behind the question mark"""
    body: type | None = None
    body_types: tuple[str, ...] = ("application/json",)
    body_schema: Mapping[str, object] | None = None
    """what the body's type does not say of it"""
    answers: Mapping[int, object] = field(default_factory=lambda: {200: None})
    """the kind of JSON by status; None: no JSON"""
    answer_types: tuple[str, ...] = ("application/json",)
    events: Mapping[str, object] = field(default_factory=dict)
    """of an event stream: the kind of JSON that each event has, by the event's name"""
    listener: str | None = None
    """the only one that has it; None: all but those that have some of their own"""
    line_answers: Mapping[int, object] = field(default_factory=dict)
    """the kind of JSON of each line, by status, where lines may be asked for"""

    @property
    def parameters(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


class _Node:
    __slots__ = ("below", "parameter", "routes")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.routes: dict[str, Route] = {}


Found = tuple[Route, dict[str, str]]


class RouteTable:
    """Finds the route of a path. A literal segment goes before a parameter."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Node()
        self._known: dict[tuple[str, bytes], Found] = {}
        for route in self.routes:
            node = self._root
            for part in route.path.split("/")[1:]:
                node = _below(node, part)
            assert route.method not in node.routes, f"{route.method} {route.path} is given twice"
            node.routes[route.method] = route

    def find(self, method: str, raw_path: bytes) -> Found:
        """The route and the parameters of its path, decoded. Refusal: not-found, method-not-allowed."""
        known = self._known.get((method, raw_path))
        if known is None:
            known = self._search(method, raw_path)
            if len(self._known) >= _CACHED_PATHS:
                self._known.clear()
            self._known[method, raw_path] = known
        return known

    def _search(self, method: str, raw_path: bytes) -> Found:
        parts = _decoded(raw_path)
        values: list[str] = []
        node = _walk(self._root, parts, 0, values)
        if node is None:
            raise Refusal(404, "not-found", f"there is nothing at {'/' + '/'.join(parts)!r}: GET /docs shows what is")
        route = node.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = _allowed(node)
            detail = f"{method} is not possible here, only {allowed or 'a WebSocket'}"
            raise Refusal(405, "method-not-allowed", detail, headers=((b"allow", allowed.encode()),))
        return route, dict(zip(route.parameters, values, strict=True))

    def allowed(self, raw_path: bytes) -> str:
        """The methods of a path, as the header Allow has them; empty if there is nothing."""
        node = _walk(self._root, _decoded(raw_path), 0, [])
        return "" if node is None else _allowed(node)


def _allowed(node: _Node) -> str:
    return ", ".join(sorted({*node.routes, *(("HEAD",) if "GET" in node.routes else ())} - {WEBSOCKET}))


def _below(node: _Node, part: str) -> _Node:
    if part.startswith("{"):
        if node.parameter is None:
            node.parameter = _Node()
        return node.parameter
    return node.below.setdefault(part, _Node())


def _walk(node: _Node, parts: list[str], at: int, values: list[str]) -> _Node | None:
    if at == len(parts):
        return node if node.routes else None
    literal = node.below.get(parts[at])
    if literal is not None and (found := _walk(literal, parts, at + 1, values)) is not None:
        return found
    if node.parameter is None or not parts[at]:
        return None
    values.append(parts[at])
    found = _walk(node.parameter, parts, at + 1, values)
    if found is None:
        values.pop()
    return found


def _decoded(raw_path: bytes) -> list[str]:
    """The segments: a slash inside of one is written %2F."""
    try:
        return [unquote_to_bytes(part).decode() for part in raw_path.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise Refusal(400, "invalid-argument", "the percent-decoded path is not UTF-8") from None
