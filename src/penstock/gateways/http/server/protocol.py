"""One HTTP connection: uvicorn's protocol, with bounds on what a client may leave unfinished."""

from __future__ import annotations

import asyncio
import math
import socket
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sized
from functools import lru_cache
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from penstock.broker.auth.limits import ClientRates
from penstock.broker.publish.publisher import Publisher
from penstock.gateways.http.counters import HttpCounters
from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.server.cycle import Cycle
from penstock.gateways.http.server.exchange import CONNECTION, OUTLET, TRANSPORT
from penstock.gateways.http.server.heads import SPOKEN, check_head
from penstock.gateways.http.server.login import ConnectionFacts
from penstock.gateways.http.server.memory import HttpMemory
from penstock.gateways.http.server.outlet import Outlet
from penstock.gateways.http.server.problems import Refusal, problem_reply
from penstock.gateways.wire.listener import ListenerFacts

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, HTTPScope

# What the parser says of a request line that is right but for its version.
_OTHER_VERSION = ("Invalid HTTP version", "Pause on PRI/Upgrade")
# What a request that waits for the answer to one before it takes beside its bytes: 2,670 were measured.
_REQUEST_BYTES = 2_700
# Of targets that were split; longer ones are rare, and would fill memory.
_KNOWN_TARGETS, _KNOWN_TARGET_BYTES = 4096, 512
_UNCHANGED_S = -1.0


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
        answer: Callable[[Cycle], Awaitable[None]],
        options: HttpOptions,
        listener: ListenerFacts,
        rates: ClientRates,
        publisher: Publisher,
        counters: HttpCounters,
        memory: HttpMemory,
    ) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self._answer = answer
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
        self._is_upgrade = False
        """the request is one for a WebSocket"""
        self._served: Cycle | None = None
        """the request that is being answered, or was last"""
        self._is_idle = False
        """all that was asked is answered"""
        self._patience_s = _UNCHANGED_S
        """what came says how long the client has for what follows"""
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
        self._expect(self._options.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._counters.connections -= 1
        super().connection_lost(exc)
        self._tell_served()
        self.pipeline.clear()
        self._claim_ahead(0)
        self._memory.take(self)
        self._outlet.lose()

    def _tell_served(self) -> None:
        """Of requests that were sent ahead uvicorn tells the last one only that the client is gone, which is not the
        one that waits for a message."""
        if (served := self._served) is not None and not served.response_complete:
            served.disconnected = True
            served.message_event.set()

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
        size = len(data)
        self._counters.received_bytes += size
        self._chunk_bytes, self._has_ended, self._patience_s = size, False, _UNCHANGED_S
        if self._is_in_head:
            self._head_bytes += size
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("")
            return
        except httptools.HttpParserUpgrade:
            if self._is_upgrade:
                self.handle_websocket_upgrade()
        if self._patience_s != _UNCHANGED_S:
            self._expect(self._patience_s)
        if (cycle := self.cycle) is not None and cycle.more_body and cycle.body:
            cycle.message_event.set()
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
        if not self.transport.is_closing():
            if self.flow.read_paused:
                self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
            elif self._late_at_s == math.inf:
                self._is_idle = True
                self._expect(self.timeout_keep_alive)
        if self._heads_ahead:
            self._answered()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        assert isinstance(cycle, Cycle)
        self._served = cycle
        # As create_task() does it, which is four calls more.
        self.tasks.add(asyncio.Task(cycle.serve(self._answer, self.tasks), loop=self.loop))

    def _answered(self) -> None:
        """The next of those that waited has begun, and may have been the last."""
        while len(self._heads_ahead) > len(self.pipeline):
            self._heads_ahead.pop()
        if not self.pipeline:
            self._claim_ahead(0)
            if not self.transport.is_closing():
                self.flow.resume_reading()

    def on_message_begin(self) -> None:
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._is_in_head, self._is_behind_another = True, self._has_ended
        self._is_upgrade = self._is_idle = False
        self._head_bytes = 0 if self._has_ended else self._chunk_bytes
        self._patience_s = self._options.head_timeout_s

    def on_headers_complete(self) -> None:
        most, parser = self._options.max_head_bytes, self.parser
        if (self._is_behind_another or self._head_bytes > most) and self._head_size() > most:
            self._refuse_head()
            raise ValueError("the head is too large")
        version = parser.get_http_version()
        try:
            self.url = check_head(version, self.url, self.headers)
        except Refusal as refusal:
            self._refuse(refusal.status, refusal.code, refusal.detail)
            raise
        self._is_in_head, self._head_bytes = False, 0
        self._patience_s = self._options.stall_timeout_s
        self.scope = scope = self._scope(version)
        if parser.should_upgrade() and self._should_upgrade():
            self._is_upgrade = True
            return
        before, keep_alive = self.cycle, version != "1.0" and parser.should_keep_alive()
        self.cycle = cycle = Cycle(
            scope, self.transport, self.flow, keep_alive, self.expect_100_continue, self.on_response_complete
        )
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
            return
        self.flow.pause_reading()
        self.pipeline.appendleft((cycle, self.app))
        self._heads_ahead.appendleft(self._head_size())

    def _scope(self, version: str) -> HTTPScope:
        """What an application is told of the request."""
        split = _split_target if len(self.url) <= _KNOWN_TARGET_BYTES else _split_target.__wrapped__
        path, raw_path, query = split(self.url)
        scope = {
            "type": "http",
            "http_version": version,
            "method": self.parser.get_method().decode("ascii"),
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self.headers,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "state": self.app_state,
        }
        return cast("HTTPScope", scope)

    def _head_size(self) -> int:
        return len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])

    def on_body(self, body: bytes) -> None:
        """What comes in one piece is handed on as it is; of several, one is made in place."""
        self._patience_s = self._options.stall_timeout_s
        cycle = self.cycle
        if self._is_upgrade or cycle.response_complete:  # a request for a WebSocket may have a body, and begins none
            return
        kept: bytes | bytearray = cycle.body
        if not kept:
            kept = body
        elif isinstance(kept, bytes):
            kept = bytearray(kept) + body
        else:
            kept += body
        cycle.body = kept  # type: ignore[assignment]  # see Cycle
        if len(kept) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        self._has_ended = True
        self._patience_s = math.inf
        cycle = self.cycle
        if self._is_upgrade:
            return
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()
        elif not self.pipeline:
            self._is_idle, self._patience_s = True, self.timeout_keep_alive

    def handle_websocket_upgrade(self) -> None:
        self._expect(math.inf)
        self._patience_s = _UNCHANGED_S
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        if str(sys.exception()) in _OTHER_VERSION:
            self._refuse(505, "http-version", SPOKEN)
        else:
            self._refuse(400, "malformed-request", "these bytes are no HTTP request")

    def _expect(self, within_s: float) -> None:
        """The client has so long for what comes next. A timer that runs already is left alone, and looks again when its
        time has come: mostly, nothing is due then."""
        if within_s == math.inf:
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
        if self._is_idle or (self._is_in_head and not self._head_bytes and self.cycle is None):
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


@lru_cache(_KNOWN_TARGETS)
def _split_target(target: bytes) -> tuple[str, bytes, bytes]:
    """The path, decoded and as it was sent, and the query. HttpParserInvalidURLError, UnicodeDecodeError."""
    url = httptools.parse_url(target)
    path = url.path.decode("ascii")
    return unquote(path) if "%" in path else path, url.path, url.query or b""
