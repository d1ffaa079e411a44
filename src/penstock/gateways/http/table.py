"""All routes there are."""

from __future__ import annotations

from penstock.gateways.http.admin import (
    clients,
    dead_letters,
    exchanges,
    groups,
    health,
    operations,
    policies,
    queues,
    templates,
    users,
)
from penstock.gateways.http.describe.description import Description
from penstock.gateways.http.events import metrics_stream, queue_events, stream, topic_events
from penstock.gateways.http.messages import browse, claim, publish, receive, settle, topics
from penstock.gateways.http.messages import exchanges as exchange_messages
from penstock.gateways.http.rabbit import metrics as rabbit_metrics
from penstock.gateways.http.server.routes import Route

_API = (
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
    *exchanges.ROUTES,
    *policies.ROUTES,
    *exchange_messages.ROUTES,
    *groups.ROUTES,
    *dead_letters.ROUTES,
    *clients.ROUTES,
    *users.ROUTES,
    *operations.ROUTES,
    *metrics_stream.ROUTES,
    *health.ROUTES,
    *rabbit_metrics.ROUTES,
)
ROUTES: tuple[Route, ...] = Description(_API).routes
