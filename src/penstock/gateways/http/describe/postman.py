"""A Postman collection (format 2.1) made from the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

Json = dict[str, Any]

_SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"


def collection(document: Mapping[str, Any]) -> Json:
    """A folder for each tag. `baseUrl` and `token` are its variables."""
    folders: dict[str, list[Json]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            folders[operation["tags"][0]].append(_item(document, path, method, operation))
    return {
        "info": {
            "name": document["info"]["title"],
            "description": document["info"]["description"],
            "schema": _SCHEMA,
        },
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{token}}", "type": "string"}]},
        "variable": [{"key": "baseUrl", "value": "http://127.0.0.1:8080"}, {"key": "token", "value": ""}],
        "item": [{"name": name, "item": items} for name, items in folders.items()],
    }


def _item(document: Mapping[str, Any], path: str, method: str, operation: Json) -> Json:
    request: Json = {
        "method": method.upper(),
        "description": operation["description"],
        "url": _url(path, operation.get("parameters", [])),
        "header": [],
    }
    if operation.get("security") == []:
        request["auth"] = {"type": "noauth"}
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        request["header"] = [{"key": "Content-Type", "value": "application/json"}]
        example = _example(document, content["application/json"]["schema"], 0)
        request["body"] = {"mode": "raw", "raw": _pretty(example), "options": {"raw": {"language": "json"}}}
    return {"name": operation["summary"], "request": request, "response": []}


def _url(path: str, parameters: list[Json]) -> Json:
    query = [
        {"key": each["name"], "value": "", "description": each.get("description", ""), "disabled": True}
        for each in parameters
        if each["in"] == "query"
    ]
    variables = [{"key": each["name"], "value": each["name"]} for each in parameters if each["in"] == "path"]
    spelled = re.sub(r"\{(\w+)\}", r":\1", path)
    raw = "{{baseUrl}}" + spelled
    return {
        "raw": raw,
        "host": ["{{baseUrl}}"],
        "path": spelled.strip("/").split("/"),
        "query": query,
        "variable": variables,
    }


def _example(document: Mapping[str, Any], schema: Json, depth: int) -> object:
    """Something of that shape: what must be there, and nothing else."""
    if "$ref" in schema:
        return _example(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], depth)
    if "enum" in schema:
        return schema["enum"][0]
    if "allOf" in schema:
        return _example(document, schema["allOf"][0], depth)
    if schema.get("type") == "object" and depth < 3:
        properties = schema.get("properties", {})
        needed = [*schema.get("required", []), *schema.get("oneOf", [{}])[0].get("required", [])]
        return {name: _example(document, properties[name], depth + 1) for name in needed}
    if schema.get("type") == "array":
        return [_example(document, schema.get("items", {}), depth + 1)]
    return {"string": "text", "integer": 0, "number": 0, "boolean": False}.get(schema.get("type", ""), {})


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
