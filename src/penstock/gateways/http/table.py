"""All routes there are."""

from __future__ import annotations

from penstock.gateways.http import (
    browse,
    dead_letters,
    groups,
    health,
    publish,
    queue_events,
    queues,
    receive,
    settle,
    stream,
    topic_events,
)
from penstock.gateways.http.routes import Route

ROUTES: tuple[Route, ...] = (
    *publish.ROUTES,
    *receive.ROUTES,
    *settle.ROUTES,
    *browse.ROUTES,
    *queue_events.ROUTES,
    *topic_events.ROUTES,
    *stream.ROUTES,
    *queues.ROUTES,
    *groups.ROUTES,
    *dead_letters.ROUTES,
    *health.ROUTES,
)
