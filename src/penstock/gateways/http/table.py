"""All routes there are."""

from __future__ import annotations

from penstock.gateways.http import health
from penstock.gateways.http.routes import Route

ROUTES: tuple[Route, ...] = (*health.ROUTES,)
