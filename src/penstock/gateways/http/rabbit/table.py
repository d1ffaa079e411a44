"""All routes of RabbitMQ's API."""

from __future__ import annotations

from penstock.gateways.http.rabbit import definitions, exchanges, messages, overview, people, policies, queues
from penstock.gateways.http.server.routes import Route

RABBIT_ROUTES: tuple[Route, ...] = (
    *overview.ROUTES,
    *queues.ROUTES,
    *exchanges.ROUTES,
    *messages.ROUTES,
    *people.ROUTES,
    *policies.ROUTES,
    *definitions.ROUTES,
)
