"""The API as it describes itself: OpenAPI 3.1, and a Postman collection made from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from tests.support.http_client import HttpClient

from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import WEBSOCKET
from penstock.gateways.http.table import ROUTES

SPOKEN = [route for route in ROUTES if route.method != WEBSOCKET]


@pytest.fixture
def document(http: HttpClient) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/openapi.json").json
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def everything(part: object) -> Iterator[dict[str, Any]]:
    """Every object in the document."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from everything(each)


def test_every_route_is_described_once(document: dict[str, Any]) -> None:
    found = [(method.upper(), path) for path, method, _ in operations(document)]
    assert sorted(found) == sorted((route.method, route.path) for route in SPOKEN)
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(ids)) == len(ids)


def test_the_document_has_what_openapi_asks_for(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.") and document["info"]["title"] and document["info"]["version"]
    tags = {tag["name"] for tag in document["tags"]}
    for path, _, operation in operations(document):
        assert set(operation["tags"]) <= tags and operation["summary"]
        assert all(response["description"] for response in operation["responses"].values())
        named = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path))
        assert all(each["required"] for each in operation.get("parameters", []) if each["in"] == "path")
        keys = [(each["in"], each["name"]) for each in operation.get("parameters", [])]
        assert len(set(keys)) == len(keys)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    references = [part["$ref"] for part in everything(document) if "$ref" in part]
    assert references
    for reference in references:
        place: Any = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_every_schema_is_one(document: dict[str, Any]) -> None:
    for part in everything(document["paths"]):
        if isinstance(part.get("schema"), dict):
            assert jsonschema_rs.meta.is_valid(part["schema"])
    for name, schema in document["components"]["schemas"].items():
        assert jsonschema_rs.meta.is_valid(schema), name


def test_every_problem_has_its_schema(document: dict[str, Any]) -> None:
    for _, _, operation in operations(document):
        assert "application/problem+json" in operation["responses"]["default"]["content"]


def test_only_public_routes_need_no_login(document: dict[str, Any]) -> None:
    without = {path for path, _, operation in operations(document) if operation.get("security") == []}
    assert without == {route.path for route in SPOKEN if route.right is Right.PUBLIC}
    assert {name for each in document["security"] for name in each} == set(document["components"]["securitySchemes"])


def test_a_real_answer_is_as_described(http: HttpClient, document: dict[str, Any]) -> None:
    for path in ("overview", "queues", "log/level", "config", "cluster/nodes"):
        schema = document["paths"][f"/api/v1/{path}"]["get"]["responses"]["200"]["content"]["application/json"][
            "schema"
        ]
        whole = {**schema, "components": document["components"]}
        assert jsonschema_rs.validator_for(whole).is_valid(http.get(path).json), path


def test_the_postman_collection_has_every_request(http: HttpClient) -> None:
    collection = http.get("/postman.json").json
    assert collection["info"]["schema"] == "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
    requests = [item["request"] for folder in collection["item"] for item in folder["item"]]
    found = sorted((each["method"], each["url"]["raw"].removeprefix("{{baseUrl}}")) for each in requests)
    assert found == sorted((route.method, re.sub(r"\{(\w+)\}", r":\1", route.path)) for route in SPOKEN)
    variables = {each["key"] for each in collection["variable"]}
    assert set(re.findall(r"\{\{(\w+)\}\}", json.dumps(collection))) <= variables
    for request in requests:
        assert {each["key"] for each in request["url"]["variable"]} == {
            part[1:] for part in request["url"]["path"] if part.startswith(":")
        }
        if "body" in request:
            json.loads(request["body"]["raw"])


def test_the_page_loads_nothing_from_elsewhere(http: HttpClient) -> None:
    page = http.get("/docs")
    assert page.content_type == "text/html" and "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(rb"""(src|href)=["'](https?:)?//""", page.body)


def test_an_event_stream_is_described_as_its_events(document: dict[str, Any]) -> None:
    for path, names in (
        ("/api/v1/queues/{queue}/events", ["message", "gap", "end"]),
        ("/api/v1/topics/events", ["message", "lost", "end"]),
    ):
        content = document["paths"][path]["get"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
        events = content["items"]["oneOf"]
        assert content["type"] == "array"
        assert [each["properties"]["event"]["const"] for each in events] == names
        for each in events:
            data = each["properties"]["data"]
            assert data["contentMediaType"] == "application/json" and "$ref" in data["contentSchema"]


def test_a_message_is_described_with_one_value_and_a_body_as_one_message_or_many(document: dict[str, Any]) -> None:
    schema = {"$ref": "#/components/schemas/PublishBody", "components": document["components"]}
    is_valid = jsonschema_rs.validator_for(schema).is_valid
    assert is_valid({"text": "a"}) and is_valid({"messages": [{"json": 1}, {"base64": "YQ=="}], "key": None})
    wrongs: tuple[dict[str, Any], ...] = (
        {},
        {"text": "a", "json": 1},
        {"messages": []},
        {"messages": [{}]},
        {"messages": [{"text": "a"}], "text": "b"},
        {"messages": [{"text": "a"}], "key": "b"},
        {"text": "a", "key": "b", "key_base64": "Yg=="},
        {"base64": "?"},
    )
    for wrong in wrongs:
        assert not is_valid(wrong), wrong
