"""Probes and the version: for machines that have no login."""

from __future__ import annotations

import msgspec

from penstock.gateways.http.exchange import Exchange
from penstock.gateways.http.metrics.exposition import exposition
from penstock.gateways.http.metrics.sources import MetricOptions
from penstock.gateways.http.metrics.text import CONTENT_TYPE
from penstock.gateways.http.reply import Reply, json_reply
from penstock.gateways.http.rights import Right
from penstock.gateways.http.routes import Route

_TAG = "Health"


class Health(msgspec.Struct, frozen=True):
    status: str


class Readiness(msgspec.Struct, frozen=True):
    """`problems` is for who has logged in; a probe needs the status only."""

    status: str
    problems: list[str] | None = None


class Version(msgspec.Struct, frozen=True):
    version: str


async def health(_: Exchange) -> Reply:
    return json_reply(Health("ok"))


async def ready(exchange: Exchange) -> Reply:
    problems = exchange.ports.operations.problems()
    said = problems if exchange.permissions.may_read else None
    return json_reply(Readiness("not ready" if problems else "ready", said), 503 if problems else 200)


async def metrics(exchange: Exchange) -> Reply:
    options = exchange.options
    wanted = MetricOptions(max_queues=options.max_metric_queues, partitions=options.partition_metrics)
    page = await exposition(exchange.state.metrics, wanted)
    return Reply(200, page, CONTENT_TYPE.encode())


async def version(exchange: Exchange) -> Reply:
    return json_reply(Version(exchange.ports.operations.version))


ROUTES = (
    Route("GET", "/health", health, Right.PUBLIC, _TAG, "The process answers", answers={200: Health}),
    Route(
        "GET",
        "/ready",
        ready,
        Right.PUBLIC,
        _TAG,
        "Every listener accepts and every shard commits",
        answers={200: Readiness, 503: Readiness},
    ),
    Route(
        "GET",
        "/metrics",
        metrics,
        Right.READ,
        _TAG,
        "Everything in numbers, for Prometheus",
        answer_types=("text/plain",),
    ),
    Route("GET", "/version", version, Right.PUBLIC, _TAG, "The version of the server", answers={200: Version}),
)
