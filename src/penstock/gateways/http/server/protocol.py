"""One HTTP connection: uvicorn's protocol, with bounds on what a client may leave unfinished."""

from __future__ import annotations

import asyncio
import math
import socket
import sys
from collections import deque
from collections.abc import Sized

from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from penstock.broker.auth.limits import ClientRates
from penstock.broker.publish.publisher import Publisher
from penstock.gateways.http.counters import HttpCounters
from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.server.answer_transport import AnswerTransport
from penstock.gateways.http.server.exchange import ANSWERS, CONNECTION, OUTLET, TRANSPORT
from penstock.gateways.http.server.heads import SPOKEN, check_head
from penstock.gateways.http.server.login import ConnectionFacts
from penstock.gateways.http.server.memory import HttpMemory
from penstock.gateways.http.server.outlet import Outlet
from penstock.gateways.http.server.problems import Refusal, problem_reply
from penstock.gateways.wire.listener import ListenerFacts

# What the parser says of a request line that is right but for its version.
_OTHER_VERSION = ("Invalid HTTP version", "Pause on PRI/Upgrade")
# What a request that waits for the answer to one before it takes beside its bytes: 2,670 were measured.
_REQUEST_BYTES = 2_700


class _Flow(FlowControl):
    """Nothing more is read while requests wait for the answer to one before them."""

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


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
        counters: HttpCounters,
        memory: HttpMemory,
    ) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self.access_log = False
        self._options, self._listener, self._rates, self._publisher = options, listener, rates, publisher
        self._counters, self._memory = counters, memory
        self._head_bytes = self._chunk_bytes = 0
        self._is_behind_another = self._has_ended = False
        """whether the request began in a chunk with the end of another: how much of that is its head, is not known"""
        self._heads_ahead: deque[int] = deque()
        """sizes of the heads of those requests that wait for the answer to one before them"""
        self._claimed_bytes = 0
        """for those"""
        self._is_in_head = True
        self._timer: asyncio.TimerHandle | None = None
        self._late_at_s = math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._counters.accepted += 1
        self._counters.connections += 1
        # Head and body of a long answer are two writes: the second must not wait for the first one's TCP
        # acknowledgement, which takes 40 ms.
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = self.client[0] if self.client else ""
        certificate = transport.get_extra_info("peercert") or None
        self.app_state[CONNECTION] = ConnectionFacts(self._listener, peer, certificate, self._rates, self._publisher)
        self.app_state[TRANSPORT] = self._live_transport
        self._outlet = self.app_state[OUTLET] = Outlet(transport, self.flow)
        self._answers = self.app_state[ANSWERS] = AnswerTransport(transport)
        self._expect(self._options.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._counters.connections -= 1
        super().connection_lost(exc)
        self.pipeline.clear()
        self._claim_ahead(0)
        self._memory.take(self)
        self._outlet.lose()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._memory.leave(self, self.transport.get_write_buffer_size())

    def sacrifice(self) -> None:
        """The client would not read a word of why either."""
        self.transport.abort()

    def resume_writing(self) -> None:
        self._memory.take(self)
        super().resume_writing()
        self._outlet.make_room()

    def data_received(self, data: bytes) -> None:
        self._counters.received_bytes += len(data)
        self._chunk_bytes, self._has_ended = len(data), False
        if self._is_in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self.pipeline:
            self._keep_ahead()
        if self._is_in_head and self._head_bytes > self._options.max_head_bytes:
            self._refuse_head()

    def _keep_ahead(self) -> None:
        """A client may send requests ahead while there is room for them. It is cut off where there is none: an answer
        would be taken for that to another request, and who does not read gets none."""
        needed = sum(self._heads_ahead) + sum([len(cycle.body) + _REQUEST_BYTES for cycle, _ in self.pipeline])
        if needed - self._claimed_bytes <= self._memory.incoming.room_bytes:
            self._claim_ahead(needed)
            return
        self._memory.note_refusal()
        self.pipeline.clear()
        self.transport.abort()

    def _claim_ahead(self, needed: int) -> None:
        self._memory.incoming.take(needed - self._claimed_bytes)
        self._claimed_bytes = needed

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._heads_ahead:
            self._answered()

    def _answered(self) -> None:
        """The next of those that waited has begun, and may have been the last."""
        while len(self._heads_ahead) > len(self.pipeline):
            self._heads_ahead.pop()
        if not self.pipeline:
            self._claim_ahead(0)
            if not self.transport.is_closing():
                self.flow.resume_reading()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head, self._is_behind_another = True, self._has_ended
        self._head_bytes = 0 if self._has_ended else self._chunk_bytes
        self._expect(self._options.head_timeout_s)

    def on_headers_complete(self) -> None:
        most = self._options.max_head_bytes
        if (self._is_behind_another or self._head_bytes > most) and self._head_size() > most:
            self._refuse_head()
            raise ValueError("the head is too large")
        try:
            self.url = check_head(self.parser.get_http_version(), self.url, self.headers)
        except Refusal as refusal:
            self._refuse(refusal.status, refusal.code, refusal.detail)
            raise
        self._is_in_head, self._head_bytes = False, 0
        self._expect(self._options.stall_timeout_s)
        super().on_headers_complete()
        if self.cycle is not None:
            self.cycle.transport = self._answers
        if len(self.pipeline) > len(self._heads_ahead):
            self._heads_ahead.appendleft(self._head_size())

    def _head_size(self) -> int:
        return len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])

    def on_body(self, body: bytes) -> None:
        self._expect(self._options.stall_timeout_s)
        if self.cycle is not None:  # a request for a WebSocket may have a body, and begins none
            self._keep_whole(self.cycle)
        super().on_body(body)

    def _keep_whole(self, cycle: RequestResponseCycle) -> None:
        """What comes in one piece is handed on as it is; of several, one is made in place."""
        kept: bytes | bytearray = cycle.body
        if not kept:
            cycle.body = b""  # type: ignore[assignment]  # it is added to, and read as bytes
        elif isinstance(kept, bytes):
            cycle.body = bytearray(kept)

    def on_message_complete(self) -> None:
        self._has_ended = True
        self._expect(None)
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._expect(None)
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        if str(sys.exception()) in _OTHER_VERSION:
            self._refuse(505, "http-version", SPOKEN)
        else:
            self._refuse(400, "malformed-request", "these bytes are no HTTP request")

    def _expect(self, within_s: float | None) -> None:
        """The client has so long for what comes next. This is said several times a request: a timer that runs already
        is left alone, and looks again when its time has come."""
        if within_s is None:
            self._late_at_s = math.inf
            return
        self._late_at_s = self.loop.time() + within_s
        if self._timer is None:
            self._timer = self.loop.call_at(self._late_at_s, self._look)
        elif self._timer.when() > self._late_at_s:
            self._timer.cancel()
            self._timer = self.loop.call_at(self._late_at_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if self.transport.is_closing() or self._late_at_s == math.inf:
            return
        if self._late_at_s > self.loop.time():
            self._timer = self.loop.call_at(self._late_at_s, self._look)
        else:
            self._too_late()

    def _too_late(self) -> None:
        """While the broker is what the client waits for, nothing is late: reading may be paused then."""
        if self._is_in_head and not self._head_bytes and self.cycle is None:
            self.transport.close()
        elif self.flow.read_paused:
            self._expect(self._options.stall_timeout_s)
        else:
            self._refuse(408, "timeout", "the request did not come in time")

    def _refuse_head(self) -> None:
        self._refuse(431, "headers-too-large", f"over {self._options.max_head_bytes} bytes of headers")

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Without an application: there is no request to speak of, or its body is broken. While one before it is not
        answered, nothing is said, as that would be taken for its answer."""
        if self.transport.is_closing():
            return
        self._counters.errors[code] += 1
        if self.cycle is None or self.cycle.response_complete or self._is_in_first_body:
            if self.cycle is not None:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            reply = problem_reply(Refusal(status, code, detail, closes=True), "")
            lines = [STATUS_LINE[status], b"content-length: %d\r\n" % len(reply.body)]
            lines += [b"content-type: ", reply.content_type, b"\r\nconnection: close\r\n\r\n", reply.body]
            self.transport.write(b"".join(lines))
        self.transport.close()

    @property
    def _is_in_first_body(self) -> bool:
        """The body of the only request that is not answered is still coming, and nothing was said to it."""
        return not (self._is_in_head or self.pipeline or self.cycle.response_started) and self.cycle.more_body

    def _live_transport(self) -> asyncio.Transport | None:
        return None if self.transport.is_closing() else self.transport
