"""Probes and the version: for machines that have no login."""

from __future__ import annotations

import msgspec

from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import Route
from penstock.telemetry.exposition import exposition
from penstock.telemetry.sources import MetricOptions
from penstock.telemetry.text import CONTENT_TYPE

_TAG = "Health"
_FAILED = "the journal stopped: nothing is acknowledged until the server is started again"
_BROKEN = "degraded: some logs are damaged or stopped, and a restart does not help"


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """`reason` and `problems` are shown after a login only; a probe needs the status alone."""

    status: str
    reason: str | None = None
    problems: list[str] | None = None


class Readiness(msgspec.Struct, frozen=True):
    """`problems` and `warnings` are shown after a login only; a probe needs the status alone. A server with warnings is
    ready: while a low disk refuses publishes, for example, messages can still be consumed."""

    status: str
    problems: list[str] | None = None
    warnings: list[str] | None = None


class Version(msgspec.Struct, frozen=True):
    version: str


async def health(exchange: Exchange) -> Reply:
    operations = exchange.ports.operations
    failure = operations.failure()
    if failure is not None:
        return json_reply(Health(_FAILED, failure if exchange.permissions.may_read else None), 503)
    broken = operations.broken_logs()
    return json_reply(Health(_BROKEN, problems=_said(exchange, broken)) if broken else Health("ok"))


async def ready(exchange: Exchange) -> Reply:
    problems = exchange.ports.operations.problems()
    warnings = exchange.ports.operations.warnings()
    said = _said(exchange, problems), _said(exchange, warnings)
    return json_reply(Readiness("not ready" if problems else "ready", *said), 503 if problems else 200)


def _said(exchange: Exchange, problems: list[str]) -> list[str] | None:
    permissions = exchange.permissions
    return problems if permissions.is_of_server and (permissions.may_read or permissions.may_monitor) else None


async def metrics(exchange: Exchange) -> Reply:
    options = exchange.options
    wanted = MetricOptions(
        max_queues=options.max_metric_queues,
        partitions=options.partition_metrics,
        namespace=None if exchange.permissions.may_monitor else exchange.namespace,
        server=exchange.permissions.is_of_server,
    )
    page = await exposition(exchange.state.metrics, wanted)
    return Reply(200, page, CONTENT_TYPE.encode())


async def version(exchange: Exchange) -> Reply:
    return json_reply(Version(exchange.ports.operations.version))


ROUTES = (
    Route(
        "GET",
        "/health",
        health,
        Right.PUBLIC,
        _TAG,
        "Liveness: the process works and needs no restart",
        answers={200: Health, 503: Health},
    ),
    Route(
        "GET",
        "/ready",
        ready,
        Right.PUBLIC,
        _TAG,
        "Readiness: all listeners accept, all shards commit, all logs are whole",
        answers={200: Readiness, 503: Readiness},
    ),
    Route(
        "GET",
        "/metrics",
        metrics,
        Right.NUMBERS,
        _TAG,
        "Metrics for Prometheus",
        answer_types=("text/plain",),
    ),
    Route("GET", "/version", version, Right.PUBLIC, _TAG, "The version of the server", answers={200: Version}),
)
