"""HTTP on connections that the server accepts."""

from __future__ import annotations

import asyncio
import logging

from uvicorn.config import Config
from uvicorn.server import ServerState

from penstock.gateways.http.counters import HttpCounters
from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.ports import Ports
from penstock.gateways.http.rabbit.table import RABBIT_ROUTES
from penstock.gateways.http.server.app import App
from penstock.gateways.http.server.protocol import HttpProtocol
from penstock.gateways.http.server.routes import RouteTable
from penstock.gateways.http.table import ROUTES
from penstock.gateways.port import InThisProcess
from penstock.gateways.wire.listener import ListenerFacts
from penstock.log.upkeep.faults import Telling
from penstock.telemetry.sources import MetricSources

logger = logging.getLogger("penstock.http")

_MAX_WEBSOCKET_MESSAGE_BYTES = 1 << 20
_DRAIN_S = 5.0


class HttpGateway(InThisProcess):
    """Used from the loop. protocol() for each connection; in the end drain() and close()."""

    def __init__(self, ports: Ports, options: HttpOptions) -> None:
        self._ports, self._options = ports, options
        self.app = App(ports, options, RouteTable((*ROUTES, *RABBIT_ROUTES)))
        self._state = ServerState()
        self._telling = Telling(logger)
        self.metrics = self.app.state.metrics = _sources(ports, self.app.state.counters)
        self._config = _uvicorn(self.app, options)

    @property
    def handshake_timeout_s(self) -> float:
        return self._options.head_timeout_s

    @property
    def max_message_bytes(self) -> int:
        return self._options.max_body_bytes

    @property
    def spoken(self) -> None:
        """Its WebSockets are requests."""
        return None

    @property
    def connection_count(self) -> int:
        return len(self._state.connections)

    async def start(self) -> None:
        """It is there from the beginning."""

    def apply(self, options: HttpOptions) -> None:
        """For requests and connections to come."""
        self._options = options
        self._config.timeout_keep_alive = round(options.keep_alive_s)
        self.app.apply(options)

    def protocol(self, listener: ListenerFacts) -> asyncio.Protocol:
        rates = self._ports.limits.client(listener.is_loopback)
        publisher, counters = self._ports.broker.publisher(), self.app.state.counters
        memory = self.app.state.memory
        app, options = self.app.answer, self._options
        return HttpProtocol(self._config, self._state, app, options, listener, rates, publisher, counters, memory)

    def refused(self, peer: str, reason: str) -> None:
        """By a layer in front of HTTP: once a minute, with how often."""
        self._telling.warn("refused", "connection refused peer=%s reason=%s", peer, reason)

    async def drain(self) -> None:
        """Requests under way are answered, streams end; connections are closed."""
        self.app.state.is_draining.set()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=_DRAIN_S)

    async def close(self) -> None:
        for task in list(self._state.tasks):
            task.cancel()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks))
        for connection in list(self._state.connections):
            connection.transport.close()


def _sources(ports: Ports, counters: HttpCounters) -> MetricSources:
    return MetricSources(
        broker=ports.broker,
        access=ports.access,
        limits=ports.limits,
        sessions=ports.sessions,
        retained=ports.retained,
        connections=lambda: {**ports.connections(), "http": counters.connections},
        protocols={**ports.protocols, "http": counters},
        reloads=ports.operations.reload_metrics,
        started_ms=ports.operations.started_ms,
    )


def _uvicorn(app: App, options: HttpOptions) -> Config:
    # It says what is wrong with requests line by line, and whatever the application raises, which is ours to say.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    config = Config(
        app,
        http="httptools",
        ws="websockets-sansio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=round(options.keep_alive_s),
        ws_max_size=_MAX_WEBSOCKET_MESSAGE_BYTES,
        interface="asgi3",
    )
    config.load()
    return config
