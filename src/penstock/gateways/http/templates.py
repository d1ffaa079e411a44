"""Templates: settings for queues whose name matches a pattern."""

from __future__ import annotations

import msgspec

from penstock.core.errors import InvalidArgument
from penstock.gateways.http.exchange import Exchange
from penstock.gateways.http.problems import Refusal
from penstock.gateways.http.reply import NO_CONTENT, Reply, json_reply
from penstock.gateways.http.rights import Right
from penstock.gateways.http.routes import API, Route

_TAG = "Queues"
_PATH = f"{API}/templates/{{pattern}}"


class TemplateDescription(msgspec.Struct, frozen=True):
    match: str
    settings: dict[str, object]


class Templates(msgspec.Struct, frozen=True):
    items: list[TemplateDescription]


async def list_templates(exchange: Exchange) -> Reply:
    templates = exchange.ports.broker.declaring.templates.items()
    return json_reply(Templates([TemplateDescription(match, dict(found.settings)) for match, found in templates]))


async def put_template(exchange: Exchange) -> Reply:
    settings, match = await exchange.read(dict[str, object]), exchange.parameters["pattern"]
    if not settings:
        raise InvalidArgument('a template without settings does nothing: give some, like {"partitions": 2}')
    declaring = exchange.ports.broker.declaring
    await declaring.put_template(match, settings)
    return json_reply(TemplateDescription(match, dict(declaring.templates[match].settings)))


async def drop_template(exchange: Exchange) -> Reply:
    declaring, match = exchange.ports.broker.declaring, exchange.parameters["pattern"]
    if match not in declaring.templates:
        raise Refusal(404, "not-found", f"no template for {match!r}: GET {API}/templates lists those there are")
    await declaring.drop_template(match)
    return NO_CONTENT


ROUTES = (
    Route(
        "GET",
        f"{API}/templates",
        list_templates,
        Right.READ,
        _TAG,
        "List templates, in the order in which they apply",
        answers={200: Templates},
    ),
    Route(
        "PUT",
        _PATH,
        put_template,
        Right.ADMIN,
        _TAG,
        "Add a template, or replace that of the pattern",
        "They count when a queue is declared. `*` stands for any text, `?` for one character.",
        body=dict[str, object],
        answers={200: TemplateDescription},
    ),
    Route("DELETE", _PATH, drop_template, Right.ADMIN, _TAG, "Drop a template; queues stay", answers={204: None}),
)
