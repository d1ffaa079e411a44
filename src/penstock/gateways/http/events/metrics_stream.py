"""The server at a glance, once a second, for dashboards."""

from __future__ import annotations

import asyncio

import msgspec

from penstock.core.errors import NotAuthorised
from penstock.gateways.http.admin.operations import Overview, overview_of
from penstock.gateways.http.server.exchange import Disconnected, Exchange, Query
from penstock.gateways.http.server.reply import Reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, WEBSOCKET, Route
from penstock.gateways.http.server.sockets import GOING_AWAY, POLICY, WebSocketExchange

_INTERVAL_S = 1.0


async def metrics_stream(exchange: Exchange) -> Reply | None:
    assert isinstance(exchange, WebSocketExchange)
    exchange.query(Query)
    with exchange.state.streams.counted(exchange.options.max_streams):
        await exchange.accept()
        listening = asyncio.ensure_future(_until_gone(exchange))
        try:
            await _tell(exchange, listening)
        except Disconnected:
            return None
        except NotAuthorised as error:
            await exchange.close(POLICY, str(error))
            return None
        finally:
            listening.cancel()
        if not listening.done():
            await exchange.close(GOING_AWAY, "the server is stopping")
    return None


async def _tell(exchange: WebSocketExchange, listening: asyncio.Future[None]) -> None:
    """Until the client is gone or the server ends."""
    draining = asyncio.ensure_future(exchange.state.is_draining.wait())
    try:
        while not listening.done() and not draining.done():
            if not (exchange.permissions.may_read or exchange.permissions.may_monitor):
                raise NotAuthorised(f"{exchange.identity.name} may not look at this any more")
            numbers = await exchange.state.glances.recent(exchange.namespace)
            await exchange.send_text(msgspec.json.encode(overview_of(exchange, numbers)).decode())
            await asyncio.wait((listening, draining), timeout=_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        draining.cancel()


async def _until_gone(exchange: WebSocketExchange) -> None:
    """Nothing that a client says here means anything."""
    try:
        while True:
            await exchange.receive_text()
    except Disconnected:
        return


ROUTES = (
    Route(
        WEBSOCKET,
        f"{API}/metrics/stream",
        metrics_stream,
        Right.NUMBERS,
        "Server",
        "Overview of the server once a second, over a WebSocket",
        query=Query,
        answers={101: Overview},
    ),
)
