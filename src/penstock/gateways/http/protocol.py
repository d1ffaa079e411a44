"""One HTTP connection: uvicorn's protocol, with bounds on what a client may leave unfinished."""

from __future__ import annotations

import asyncio
import socket

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from penstock.broker.auth.limits import ClientRates
from penstock.broker.publisher import Publisher
from penstock.gateways.http.exchange import CONNECTION, OUTLET, TRANSPORT
from penstock.gateways.http.login import ConnectionFacts
from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.outlet import Outlet
from penstock.gateways.http.problems import Refusal, problem_reply
from penstock.gateways.listener import ListenerFacts


class HttpProtocol(HttpToolsProtocol):
    """Given by the gateway to the server, which gives it a connection."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        options: HttpOptions,
        listener: ListenerFacts,
        rates: ClientRates,
        publisher: Publisher,
    ) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self.access_log = False
        self._options, self._listener, self._rates, self._publisher = options, listener, rates, publisher
        self._head_bytes = 0
        self._is_in_head = True
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Head and body of an answer are two writes: the second must not wait for the first one's TCP acknowledgement,
        # which takes 40 ms.
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = self.client[0] if self.client else ""
        certificate = transport.get_extra_info("peercert") or None
        self.app_state[CONNECTION] = ConnectionFacts(self._listener, peer, certificate, self._rates, self._publisher)
        self.app_state[TRANSPORT] = self._live_transport
        self._outlet = self.app_state[OUTLET] = Outlet(transport, self.flow)
        self._expect(self._options.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)
        self._outlet.lose()

    def data_received(self, data: bytes) -> None:
        if self._is_in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_bytes > self._options.max_head_bytes and not self.transport.is_closing():
            self._refuse(431, "headers-too-large", f"over {self._options.max_head_bytes} bytes of headers")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._expect(self._options.head_timeout_s)

    def on_headers_complete(self) -> None:
        self._is_in_head, self._head_bytes = False, 0
        self._expect(self._options.stall_timeout_s)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._expect(self._options.stall_timeout_s)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._expect(None)
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._expect(None)
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "malformed-request", "these bytes are no HTTP request")

    def _expect(self, within_s: float | None) -> None:
        """The client has so long for what comes next."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if within_s is None else self.loop.call_later(within_s, self._too_late)

    def _too_late(self) -> None:
        """While the broker is what the client waits for, nothing is late: reading may be paused then."""
        if self.transport.is_closing():
            return
        if self._is_in_head and not self._head_bytes and self.cycle is None:
            self.transport.close()
        elif not self.flow.read_paused:
            self._refuse(408, "timeout", "the request did not come in time")

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Without an application: there is no request to speak of."""
        if self.cycle is None or self.cycle.response_complete or self._is_in_head:
            reply = problem_reply(Refusal(status, code, detail, closes=True), "")
            lines = [STATUS_LINE[status], b"content-length: %d\r\n" % len(reply.body)]
            lines += [b"content-type: ", reply.content_type, b"\r\nconnection: close\r\n\r\n", reply.body]
            self.transport.write(b"".join(lines))
        self.transport.close()

    def _live_transport(self) -> asyncio.Transport | None:
        return None if self.transport.is_closing() else self.transport
