"""All routes there are."""

from __future__ import annotations

from penstock.gateways.http import (
    clients,
    dead_letters,
    description,
    groups,
    health,
    operations,
    publish,
    queues,
    receive,
    settle,
    topics,
    users,
)
from penstock.gateways.http.routes import Route

ROUTES: tuple[Route, ...] = (
    *publish.ROUTES,
    *receive.ROUTES,
    *settle.ROUTES,
    *topics.ROUTES,
    *queues.ROUTES,
    *groups.ROUTES,
    *dead_letters.ROUTES,
    *clients.ROUTES,
    *users.ROUTES,
    *operations.ROUTES,
    *health.ROUTES,
    *description.ROUTES,
)
