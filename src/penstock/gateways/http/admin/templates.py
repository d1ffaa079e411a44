"""Templates: settings for queues whose name matches a pattern."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.broker.webhooks.events import without_secrets
from penstock.codecs.http.administration import TemplateDescription, Templates
from penstock.core.errors import InvalidArgument
from penstock.gateways.http.describe.settings_schema import settings_schema
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import NO_CONTENT, Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route

_TAG = "Queues"
_PATH = f"{API}/templates/{{pattern}}"


async def list_templates(exchange: Exchange) -> Reply:
    templates = exchange.ports.broker.declaring.templates.items()
    return json_reply(Templates([_described(match, found.settings) for match, found in templates]))


async def put_template(exchange: Exchange) -> Reply:
    settings, match = await exchange.read(dict[str, object]), exchange.parameters["pattern"]
    if not settings:
        raise InvalidArgument('a template without settings does nothing: give some, like {"partitions": 2}')
    declaring = exchange.ports.broker.declaring
    await declaring.put_template(match, settings)
    return json_reply(_described(match, declaring.templates[match].settings))


def _described(match: str, settings: Mapping[str, object]) -> TemplateDescription:
    shown = without_secrets(settings)
    assert isinstance(shown, dict)
    return TemplateDescription(match, shown)


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
        Right.SERVER,
        _TAG,
        "List templates in the order they apply",
        answers={200: Templates},
    ),
    Route(
        "PUT",
        _PATH,
        put_template,
        Right.SERVER,
        _TAG,
        "Add or replace a template",
        "Templates apply when a queue is created. `*` stands for any text, `?` for one character.",
        body=dict[str, object],
        body_schema={**settings_schema(is_new=False), "minProperties": 1},
        answers={200: TemplateDescription},
    ),
    Route(
        "DELETE",
        _PATH,
        drop_template,
        Right.SERVER,
        _TAG,
        "Delete a template; existing queues do not change",
        answers={204: None},
    ),
)
