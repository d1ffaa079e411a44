"""Prometheus' pages by RabbitMQ's names, beside /metrics."""

from __future__ import annotations

from urllib.parse import parse_qsl

from penstock.broker.queues.queue import Queue
from penstock.gateways.http.rabbit.asked import AnyQuery
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import Reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import Route
from penstock.queues.vhosts import vhost_of_namespace
from penstock.telemetry.rabbit import DETAILED, FAMILIES, PER_OBJECT, rabbit_exposition
from penstock.telemetry.text import CONTENT_TYPE

_TAG = "Health"
_MOST_FIELDS = 200


async def detailed(exchange: Exchange) -> Reply:
    """`family`: one or more, by commas or again; `vhost`: only these."""
    text = exchange.scope["query_string"].decode("latin-1")
    said = parse_qsl(text, max_num_fields=_MOST_FIELDS)
    families = [name for key, value in said if key == "family" for name in value.split(",")]
    vhosts = {value for key, value in said if key == "vhost"}
    queues = [each for each in _queues(exchange) if not vhosts or vhost_of_namespace(each.namespace) in vhosts]
    page = await rabbit_exposition(exchange.state.metrics, queues, families, DETAILED)
    return Reply(200, page, CONTENT_TYPE.encode())


async def per_object(exchange: Exchange) -> Reply:
    page = await rabbit_exposition(exchange.state.metrics, _queues(exchange), FAMILIES, PER_OBJECT)
    return Reply(200, page, CONTENT_TYPE.encode())


def _queues(exchange: Exchange) -> list[Queue]:
    """Of the caller's namespace, or of all."""
    sees_all, found = exchange.permissions.may_monitor, exchange.ports.broker.queues
    return [queue for queue in found if sees_all or queue.namespace == exchange.namespace]


ROUTES = (
    Route(
        "GET",
        "/metrics/detailed",
        detailed,
        Right.NUMBERS,
        _TAG,
        "Metrics of queues for Prometheus, named as RabbitMQ's detailed ones",
        "`family` chooses: " + ", ".join(FAMILIES) + ". `vhost` leaves others out.",
        query=AnyQuery,
        answer_types=("text/plain",),
    ),
    Route(
        "GET",
        "/metrics/per-object",
        per_object,
        Right.NUMBERS,
        _TAG,
        "Metrics of queues for Prometheus, named as RabbitMQ's",
        answer_types=("text/plain",),
    ),
)
