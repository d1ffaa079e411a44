"""Rows of the table of routes that only the listener of RabbitMQ's API has."""

from __future__ import annotations

from penstock.gateways.http.rabbit.asked import AnyQuery
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import RABBIT, Handler, Route


def route(method: str, path: str, handler: Handler, summary: str, right: Right = Right.LOGIN) -> Route:
    return Route(method, path, handler, right, "RabbitMQ", summary, query=AnyQuery, listener=RABBIT)
