"""All routes there are."""

from __future__ import annotations

from penstock.gateways.http import dead_letters, groups, health, publish, queues, receive, settle
from penstock.gateways.http.routes import Route

ROUTES: tuple[Route, ...] = (
    *publish.ROUTES,
    *receive.ROUTES,
    *settle.ROUTES,
    *queues.ROUTES,
    *groups.ROUTES,
    *dead_letters.ROUTES,
    *health.ROUTES,
)
