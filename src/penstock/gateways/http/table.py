"""All routes there are."""

from __future__ import annotations

from penstock.gateways.http import health, publish, receive, settle
from penstock.gateways.http.routes import Route

ROUTES: tuple[Route, ...] = (*publish.ROUTES, *receive.ROUTES, *settle.ROUTES, *health.ROUTES)
