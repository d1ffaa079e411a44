"""One request and its answer, as handlers see them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qsl

import msgspec

from penstock.broker.auth.administration import UserAdministration
from penstock.broker.auth.identity import Identity
from penstock.broker.auth.permissions import Permissions
from penstock.broker.queues.queue import Queue
from penstock.codecs.http.shapes import Namespace
from penstock.core.errors import Closed, NotAuthorised
from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.ports import Ports
from penstock.gateways.http.server.addresses import written_queue
from penstock.gateways.http.server.cycle import Cycle
from penstock.gateways.http.server.login import Caller, ConnectionFacts
from penstock.gateways.http.server.outlet import Outlet
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import Headers, Reply
from penstock.gateways.http.state import GatewayState
from penstock.queues.names import check_namespace, check_queue_name

# As ASGI has them.
Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Struct = TypeVar("Struct")
Result = TypeVar("Result")

_Fields = dict[str, msgspec.Raw]
# Of a message: bodies.OutgoingMessage.
_AS_WRITTEN = ("json", "value")

_MAX_QUERY_FIELDS = 32
CONNECTION = "penstock.connection"
"""in the state of a scope: the ConnectionFacts"""
TRANSPORT = "penstock.transport"
"""in the state of a scope: a call that gives the connection's transport, if it is still there"""
OUTLET = "penstock.outlet"
"""in the state of a scope: the Outlet of its connection"""


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every query may have."""

    namespace: Namespace | None = None
    """an admin may work in another than its own"""


class Disconnected(Exception):
    """The client is gone: nobody waits for an answer."""


class Exchange:
    """Made for each request, after the client has said who it is."""

    __slots__ = (
        "_cycle",
        "_held_bytes",
        "_receive",
        "_send",
        "connection",
        "extra_headers",
        "header",
        "identity",
        "is_anonymous",
        "is_started",
        "namespace",
        "options",
        "parameters",
        "permissions",
        "ports",
        "request_id",
        "scope",
        "state",
    )

    def __init__(
        self,
        ports: Ports,
        options: HttpOptions,
        state: GatewayState,
        scope: Scope,
        receive: Receive,
        send: Send,
        request_id: str,
        cycle: Cycle | None = None,
    ) -> None:
        """`cycle` has the body and takes the answer, where the request is no WebSocket's."""
        self.ports, self.options, self.state, self.scope, self.request_id = ports, options, state, scope, request_id
        self._receive, self._send, self._cycle = receive, send, cycle
        # Asked for some seven times a request. Of several with one name the first counts, which is put in last.
        headers: dict[bytes, bytes] = dict(scope["headers"][::-1])
        self.header: Callable[[bytes], bytes | None] = headers.get
        """the first of that name, which is written in small letters"""
        self.connection: ConnectionFacts = scope["state"][CONNECTION]
        self._held_bytes = 0
        self.is_started = False
        self.extra_headers: Headers = ()
        """for every answer, whatever it is"""
        self.is_anonymous = True
        self.parameters: Mapping[str, str]
        self.identity: Identity
        self.permissions: Permissions
        self.namespace: str

    def let_in(self, caller: Caller) -> None:
        """NotAuthorised for a namespace that is not the caller's."""
        self.identity, self.permissions = caller.identity, caller.permissions
        self.namespace, self.is_anonymous = caller.identity.namespace, caller.is_anonymous
        if b"namespace=" in self.scope["query_string"]:
            said = dict(parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True))
            wanted = said.get("namespace", self.namespace)
            if wanted != self.namespace and not self.permissions.administers(wanted):
                raise NotAuthorised(f"{self.identity.name} works in namespace {self.namespace!r} only")
            check_namespace(wanted)
            self.namespace = wanted

    # The request

    @property
    def method(self) -> str:
        method: str = self.scope["method"]
        return method

    @property
    def outlet(self) -> Outlet:
        """Of the connection, for an answer that was started and goes on."""
        outlet: Outlet = self.scope["state"][OUTLET]
        return outlet

    @property
    def content_type(self) -> str:
        """Without its parameters; of a body that says nothing, JSON."""
        said = self.header(b"content-type")
        if said is None or said == b"application/json":
            return "application/json"
        return said.decode("latin-1").partition(";")[0].strip().lower()

    async def body(self, limit_bytes: int | None = None) -> bytes | bytearray:
        """All of it. body-too-large before more than the limit was kept."""
        limit = self.options.max_body_bytes if limit_bytes is None else limit_bytes
        if self._cycle is not None and (whole := self._cycle.whole_body()) is not None:
            return whole if len(whole) <= limit else self._too_large(limit)
        self._refuse_length(limit)
        message = await self._next()
        if not message.get("more_body"):
            only: bytes = message.get("body", b"")
            return only if len(only) <= limit else self._too_large(limit)
        # One piece of memory, however small the parts in which it comes.
        whole = bytearray(message["body"])
        self._refuse_crowd()
        while message.get("more_body"):
            self.hold(len(whole))
            message = await self._next()
            if len(whole) + len(message["body"]) > limit:
                self._too_large(limit)
            whole += message["body"]
        return whole

    def hold(self, size_bytes: int) -> None:
        """So much of a body is kept, until let_go(). Refusal if it is more than all requests together may keep."""
        memory = self.state.memory
        if size_bytes - self._held_bytes > memory.incoming.room_bytes:
            self._refuse_for_memory()
        memory.incoming.take(size_bytes - self._held_bytes)
        self._held_bytes = size_bytes

    def let_go(self) -> None:
        """The request is over."""
        if self._held_bytes:
            self.hold(0)

    async def chunk(self) -> bytes | None:
        """What of the body has come, for those who take it as it comes; None at its end. May be empty."""
        if self.scope.get("penstock.is_read"):
            return None
        message = await self._next()
        if not message.get("more_body"):
            self.scope["penstock.is_read"] = True
        body: bytes = message.get("body", b"")
        return body

    async def read(self, kind: type[Struct]) -> Struct:
        """The body as JSON. malformed-body names the field. An empty one is an empty object."""
        if self.content_type not in ("application/json", "text/json"):
            detail = f"{self.content_type!r} is not what this takes: send JSON, with Content-Type: application/json"
            raise Refusal(415, "unsupported-media-type", detail)
        return decoded(await self.body() or b"{}", kind)

    def query(self, kind: type[Struct]) -> Struct:
        """What stands behind the question mark. invalid-argument names the field."""
        text = self.scope["query_string"].decode("latin-1")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS, errors="strict")
            given = dict(pairs)
            if len(given) < len(pairs):
                raise ValueError("a parameter is given twice")
            found = msgspec.convert(given, kind, strict=False)
            if isinstance(found, msgspec.Struct) and "null" in text.lower():
                _refuse_null(found, given)
            return found
        except (ValueError, UnicodeDecodeError) as error:
            detail, field = _explained(error)
            raise Refusal(400, "invalid-argument", f"invalid query: {detail}", field) from None

    # Whom and what it is about

    def queue(self) -> Queue:
        """That of the path. NoSuchQueue."""
        return self.ports.broker.queue(self.queue_name, self.namespace)

    @property
    def queue_name(self) -> str:
        """Of the queue that the path means, whether it is there or not. InvalidArgument where no queue can be."""
        segment = self.parameters["queue"]
        declaring = self.ports.broker.declaring
        if (self.namespace, segment) in declaring.queues:
            return segment
        name = declaring.named(written_queue(segment), self.namespace)
        check_queue_name(name)
        return name

    @property
    def users(self) -> UserAdministration:
        """Those that the caller administers."""
        return UserAdministration(self.ports.access.users, self.namespace, self.permissions.administers)

    def require_publish(self, topic: str) -> None:
        if not self.permissions.may_publish(topic.encode()):
            raise NotAuthorised(f"{self.identity.name} may not publish to {topic!r}")

    def require_consume(self, queue: str) -> None:
        if not self.permissions.may_consume(queue):
            raise NotAuthorised(f"{self.identity.name} may not consume queue {queue!r}")

    def require_browse(self, queue: str) -> None:
        if not self.permissions.may_browse(queue):
            raise NotAuthorised(f"{self.identity.name} may not look at messages of queue {queue!r}")

    def require_subscribe(self, topic_filter: str) -> None:
        if not self.permissions.may_subscribe(topic_filter):
            raise NotAuthorised(f"{self.identity.name} may not subscribe to {topic_filter!r}")

    def take_rate(self, messages: int) -> None:
        """Refusal beyond what one connection may publish."""
        taken = self.connection.rates.messages.take(messages)
        if taken.allowed < messages:
            self.state.counters.throttled["messages"] += 1
            wait_s = max(1, math.ceil(taken.wait_s))
            detail = f"more messages than this connection may send: try again in {wait_s} s, or see rate_limit"
            raise Refusal(429, "too-many-requests", detail, headers=((b"retry-after", b"%d" % wait_s),))

    async def while_connected(self, work: Coroutine[object, None, Result], undo: Callable[[Result], object]) -> Result:
        """Given up when the client goes; what was done by then is undone. To be called after the body was read."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(self.gone())
        draining = asyncio.ensure_future(self.state.is_draining.wait())
        try:
            await asyncio.wait((working, leaving, draining), return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                if working.done() and not working.cancelled() and working.exception() is None:
                    undo(working.result())
                raise Disconnected
            if not working.done():
                raise Closed("the server is stopping: try again when it is back")
            return working.result()
        finally:
            for task in (working, leaving, draining):
                task.cancel()

    # The answer

    def reply(self, reply: Reply) -> Awaitable[None]:
        assert self._cycle is not None
        self.is_started = True
        headers = [*reply.headers, *self.extra_headers] if reply.headers or self.extra_headers else ()
        own = b"penstock-request-id: %b\r\n" % self.request_id.encode()
        if self._cycle.scope["method"] != "HEAD":
            self.state.counters.sent_bytes += len(reply.body)
        return self._cycle.answer(reply.status, headers, reply.body, reply.content_type, own)

    async def start(self, status: int, headers: Headers) -> None:
        """Of an answer that is sent as it comes: then send(), in the end end()."""
        self.is_started = True
        own = (b"penstock-request-id", self.request_id.encode())
        everything = [own, *headers, *self.extra_headers]
        await self._send({"type": "http.response.start", "status": status, "headers": everything})

    async def send(self, data: bytes) -> None:
        """Waits while the client does not read."""
        self.state.counters.sent_bytes += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def abort(self) -> None:
        """The client sees an answer that was cut short."""
        transport = self.scope["state"][TRANSPORT]()
        if transport is not None:
            transport.abort()

    def hang_up(self) -> None:
        """What was written still goes out; what the client sends is not read any more."""
        transport = self.scope["state"][TRANSPORT]()
        if transport is not None:
            transport.close()

    async def gone(self) -> None:
        """Returns when the client is gone. To be waited for after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        return message

    def _refuse_crowd(self) -> None:
        """A body that is not there whole, and for which nothing is left, before more of it is read."""
        said = self.header(b"content-length")
        if said is not None and int(said) > self.state.memory.incoming.room_bytes:
            self._refuse_for_memory()

    def _refuse_for_memory(self) -> NoReturn:
        self.state.memory.note_refusal()
        detail = "the bodies of other requests take all memory for them: try again soon, or raise http.memory_size"
        raise Refusal(503, "out-of-memory", detail, headers=((b"retry-after", b"1"),), closes=True)

    def _refuse_length(self, limit: int) -> None:
        said = self.header(b"content-length")
        if said is not None and int(said) > limit:
            self._too_large(limit)

    def _too_large(self, limit: int) -> bytes:
        detail = f"the body is over {limit} bytes: send it in parts, or raise http.max_body_size"
        raise Refusal(413, "body-too-large", detail, closes=True)


def decoded(body: bytes | bytearray, kind: type[Struct], what: str = "body") -> Struct:
    """JSON from a client, of which this is a part. Refusal: malformed-body names the field."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if "got `float`" in str(error):
            with suppress(msgspec.DecodeError, RecursionError):
                return msgspec.json.decode(msgspec.json.encode(_whole_fields(body)), type=kind)
        detail, field = _explained(error)
        raise Refusal(400, "malformed-body", f"invalid {what}: {detail}", field) from None


def _whole_fields(data: bytes | bytearray | msgspec.Raw) -> dict[str, object]:
    """Those of a body, or of one of its messages: whose value stays as it is written."""
    return {name: _whole_field(name, each) for name, each in msgspec.json.decode(data, type=_Fields).items()}


def _whole_field(name: str, data: msgspec.Raw) -> object:
    if name in _AS_WRITTEN:
        return data
    if name == "messages":
        return [_whole_message(each) for each in msgspec.json.decode(data, type=list[_Fields])]
    return _whole(msgspec.json.decode(data))


def _whole_message(fields: _Fields) -> dict[str, object]:
    return {name: each if name in _AS_WRITTEN else _whole(msgspec.json.decode(each)) for name, each in fields.items()}


def _whole(value: object) -> object:
    """With 1.0 as 1: JSON has one kind of number, and some programs write every one with a point."""
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _refuse_null(query: msgspec.Struct, given: Mapping[str, str]) -> None:
    """msgspec reads the word as nothing, but whoever says it means something else. ValueError."""
    for field in msgspec.structs.fields(query):
        if field.encode_name in given and getattr(query, field.name) is None:
            raise ValueError(f"`null` is not a value - at `$.{field.encode_name}`")


def _explained(error: Exception) -> tuple[str, str | None]:
    """What msgspec says, and the field it says it of: `Expected `int`, got `str` - at `$.max``."""
    text, _, place = str(error).partition(" - at `$")
    field = place.rstrip("`").lstrip(".")
    return (f"{text} in {field}" if field else text), field or None
