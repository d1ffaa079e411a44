"""The description of the API, made from the table of routes."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import get_args

import msgspec

from penstock.codecs.http.shapes import PARAMETERS, RULES
from penstock.gateways.http.server.exchange import Query
from penstock.gateways.http.server.problems import Problem
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import WEBSOCKET, Route
from penstock.version import VERSION

Json = dict[str, object]

_PARAMETERS = {
    "queue": "The queue's name, percent-encoded (`shop%2Forders`), or as `$queue$shop$orders`; `$dlq$orders` are the "
    "dead letters of orders.",
    "group": "The consumer group's name.",
    "id": "The id, as shown in lists.",
    "topic": "The topic, percent-encoded.",
    "exchange": "The exchange's name, percent-encoded; `amq.default` is the default exchange.",
    "name": "The name, percent-encoded.",
}
_SECURITY: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A JSON Web Token or an API key"},
    "basic": {"type": "http", "scheme": "basic"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
_LINES = "application/x-ndjson"
_LINES_SAID = "Lines of JSON; `x-line-schema` describes a line"
_SAID = {
    Right.PUBLIC: "Needs no login.",
    Right.LOGIN: "Needs a right on the queue, topic or exchange.",
    Right.NUMBERS: "Needs the role monitor, read-only or admin.",
    Right.READ: "Needs the role read-only or admin.",
    Right.ADMIN: "Needs the role admin.",
    Right.SERVER: "Needs the role admin in the namespace `default`.",
}


def document(routes: Sequence[Route]) -> Json:
    """OpenAPI 3.1. WebSockets, for which it has no words, are listed in its description."""
    spoken = [route for route in routes if route.method != WEBSOCKET]
    schemas = _Schemas(spoken)
    paths: dict[str, Json] = {}
    for route in spoken:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": VERSION, "description": _introduction(routes)},
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in spoken)],
        "paths": paths,
        "components": {"schemas": schemas.components, "securitySchemes": _SECURITY},
        "security": [{name: []} for name in _SECURITY],
    }


class _Schemas:
    """The JSON schemas of everything that routes take and give, by the kind they describe."""

    def __init__(self, routes: Iterable[Route]) -> None:
        kinds: dict[object, None] = {Problem: None}
        for route in routes:
            for kind in (route.body, *route.answers.values(), *route.line_answers.values(), *route.events.values()):
                kinds.update(dict.fromkeys(_alternatives(kind)))
        schemas, components = msgspec.json.schema_components(
            list(kinds), schema_hook=_anything, ref_template="#/components/schemas/{name}"
        )
        self._by_kind = dict(zip(kinds, schemas, strict=True))
        self.components: Json = {name: _merged(each, RULES.get(name, {})) for name, each in components.items()}

    def of(self, kind: object) -> Json:
        schemas = [dict(self._by_kind[each]) for each in _alternatives(kind)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _merged(schema: Mapping[str, object], rules: Mapping[str, object]) -> Json:
    """Of a struct, and what concerns several of its fields."""
    if not rules:
        return dict(schema)
    fields, more = schema.get("properties"), rules.get("properties")
    merged: Json = {**schema, **rules}
    if isinstance(fields, dict) and isinstance(more, dict):
        merged["properties"] = {**fields, **more}
    return merged


def _anything(kind: type) -> Json:
    """Of `object`."""
    return {"description": "anything"}


def _alternatives(kind: object) -> list[object]:
    if kind is None:
        return []
    return list(get_args(kind)) if isinstance(kind, types.UnionType) else [kind]


def _operation(route: Route, schemas: _Schemas) -> Json:
    operation: Json = {
        "operationId": _operation_id(route),
        "tags": [route.tag],
        "summary": route.summary,
        "description": " ".join(filter(None, (route.description, _SAID[route.right]))),
        "responses": _responses(route, schemas),
    }
    if parameters := [*_path_parameters(route), *_query_parameters(route)]:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = _request_body(route, schemas)
    if route.right is Right.PUBLIC:
        operation["security"] = []
    return operation


def _operation_id(route: Route) -> str:
    parts = re.findall(r"[a-z0-9_]+", route.path.removeprefix("/api/v1").replace(".", "_"))
    return "_".join([route.method.lower(), *parts])


def _path_parameters(route: Route) -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PARAMETERS.get(name, ""),
            "schema": PARAMETERS.get(name, {"type": "string", "minLength": 1}),
        }
        for name in route.parameters
    ]


def _query_parameters(route: Route) -> list[Json]:
    if route.right is Right.PUBLIC:
        return []
    kind = route.query or Query
    components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")[1]
    described = components[kind.__name__]
    required = described.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _said(_inlined(field, components))}
        for name, field in described["properties"].items()
    ]


def _said(schema: object) -> object:
    """A query cannot say null, only nothing."""
    if not isinstance(schema, dict) or "anyOf" not in schema:
        return schema
    kinds = [kind for kind in schema["anyOf"] if kind != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf" and (name, value) != ("default", None)}
    return {**rest, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})}


def _inlined(schema: object, components: Mapping[str, object]) -> object:
    """Parameters of a query are plain: what they refer to is written out."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(components[str(schema["$ref"]).rpartition("/")[2]], components)
        return {name: _inlined(value, components) for name, value in schema.items()}
    return [_inlined(value, components) for value in schema] if isinstance(schema, list) else schema


def _request_body(route: Route, schemas: _Schemas) -> Json:
    schema = schemas.of(route.body)
    if route.body_schema is not None:
        schema = dict(route.body_schema) if "$ref" not in schema else {"allOf": [schema, route.body_schema]}
    content = {
        kind: {"schema": schema if kind == "application/json" else {"type": "string"}} for kind in route.body_types
    }
    return {"required": not _may_be_left_out(route), "content": content}


def _may_be_left_out(route: Route) -> bool:
    """No body is an empty object, which will do where nothing is needed."""
    kind = route.body
    fields = msgspec.structs.fields(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else ()
    has_rules = isinstance(kind, type) and kind.__name__ in RULES
    has_needs = not {"required", "minProperties"}.isdisjoint(route.body_schema or {})
    is_needed = has_rules or has_needs or any(field.required for field in fields)
    return route.body_types == ("application/json",) and not is_needed


def _responses(route: Route, schemas: _Schemas) -> Json:
    responses: Json = {}
    for status, kind in route.answers.items():
        content: Json = {}
        if kind is not None:
            content["application/json"] = {"schema": schemas.of(kind)}
        if status == 200:
            others = [each for each in route.answer_types if each != "application/json"]
            content.update({each: {"schema": _stream(route, schemas) or {"type": "string"}} for each in others})
        if (line := route.line_answers.get(status)) is not None:
            content[_LINES] = {
                "schema": {"type": "string", "description": _LINES_SAID},
                "x-line-schema": schemas.of(line),
            }
        responses[str(status)] = {"description": HTTPStatus(status).phrase, **({"content": content} if content else {})}
    problem = {"application/problem+json": {"schema": schemas.of(Problem)}}
    responses["default"] = {"description": "What went wrong, and what to do", "content": problem}
    return responses


def _stream(route: Route, schemas: _Schemas) -> Json | None:
    """Of an event stream: its events in turn, as a parser of server-sent events gives them."""
    events = [
        {
            "type": "object",
            "properties": {
                "event": {"const": name},
                "id": {"type": "string", "description": "where to go on: send it back as Last-Event-ID"},
                "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": schemas.of(kind)},
            },
            "required": ["data"] if name == "message" else ["event", "data"],
        }
        for name, kind in route.events.items()
    ]
    said = "Server-sent events without an end: each `data` is JSON. An event without a name is a message."
    return {"type": "array", "items": {"oneOf": events}, "description": said} if events else None


def _introduction(routes: Iterable[Route]) -> str:
    sockets = [
        f"- `{route.path}`: {route.summary}. {route.description}" for route in routes if route.method == WEBSOCKET
    ]
    text = "Publish, receive, settle, browse and administer. Errors are problem documents (RFC 9457) with stable codes."
    return text + ("\n\nWebSockets:\n" + "\n".join(sockets) if sockets else "")
