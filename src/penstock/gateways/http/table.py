"""All routes there are."""

from __future__ import annotations

from penstock.gateways.http import (
    browse,
    claim,
    clients,
    dead_letters,
    description,
    groups,
    health,
    metrics_stream,
    operations,
    publish,
    queue_events,
    queues,
    receive,
    settle,
    stream,
    templates,
    topic_events,
    topics,
    users,
)
from penstock.gateways.http.routes import Route

ROUTES: tuple[Route, ...] = (
    *publish.ROUTES,
    *receive.ROUTES,
    *claim.ROUTES,
    *settle.ROUTES,
    *browse.ROUTES,
    *queue_events.ROUTES,
    *topic_events.ROUTES,
    *stream.ROUTES,
    *topics.ROUTES,
    *queues.ROUTES,
    *templates.ROUTES,
    *groups.ROUTES,
    *dead_letters.ROUTES,
    *clients.ROUTES,
    *users.ROUTES,
    *operations.ROUTES,
    *metrics_stream.ROUTES,
    *health.ROUTES,
    *description.ROUTES,
)
