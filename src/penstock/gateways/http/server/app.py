"""The gateway as an ASGI application: finds the route, asks who calls, calls the handler, and says what went wrong."""

from __future__ import annotations

import itertools
import logging
import re
import secrets
from collections.abc import Awaitable
from typing import cast

from penstock.core.errors import NotAuthorised, PenstockError
from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.ports import Ports
from penstock.gateways.http.rabbit.problems import rabbit_problem
from penstock.gateways.http.server.cross_origin import CrossOrigin
from penstock.gateways.http.server.cycle import Cycle
from penstock.gateways.http.server.exchange import CONNECTION, Disconnected, Exchange, Query, Receive, Scope, Send
from penstock.gateways.http.server.login import Caller, Logins
from penstock.gateways.http.server.problems import Refusal, problem_reply
from penstock.gateways.http.server.reply import Reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import RABBIT, RouteTable
from penstock.gateways.http.server.sockets import WebSocketExchange
from penstock.gateways.http.state import GatewayState

logger = logging.getLogger("penstock.http")

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# Ids of requests: a word for this process, and a number. To ask the system for randomness each time costs more than the
# rest of a small request.
_WORD, _numbers = secrets.token_hex(4), itertools.count(1)


class App:
    def __init__(self, ports: Ports, options: HttpOptions, table: RouteTable) -> None:
        self._ports, self._options, self._table = ports, options, table
        self._logins = Logins(ports.access, ports.broker.clock)
        self._cross_origin = CrossOrigin(options)
        self.state = GatewayState(ports.broker, ports.clients, options)

    def apply(self, options: HttpOptions) -> None:
        self._options, self._cross_origin = options, CrossOrigin(options)
        self.state.memory.apply(options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Of a WebSocket: the request that opens it, and all that follows."""
        await self._serve(
            WebSocketExchange(self._ports, self._options, self.state, scope, receive, send, _request_id(scope))
        )

    def answer(self, cycle: Cycle) -> Awaitable[None]:
        """Of any other request."""
        scope = cast(Scope, cycle.scope)
        receive, send = cast(Receive, cycle.receive), cast(Send, cycle.send)
        return self._serve(
            Exchange(self._ports, self._options, self.state, scope, receive, send, _request_id(scope), cycle)
        )

    async def _serve(self, exchange: Exchange) -> None:
        try:
            await self._answer(exchange)
        except Disconnected:
            pass
        except (PenstockError, Refusal) as error:
            await self._refuse(exchange, error)
        except Exception:
            self.state.counters.failures += 1
            facts = exchange.method, exchange.scope["path"], exchange.request_id
            logger.exception("request failed method=%s path=%r id=%s", *facts)
            detail = f"an error in the server: look for {exchange.request_id} in its log"
            await self._refuse(exchange, Refusal(500, "internal", detail))
        finally:
            exchange.let_go()

    async def _answer(self, exchange: Exchange) -> None:
        exchange.extra_headers = self._cross_origin.check(exchange)
        scope, method, header = exchange.scope, exchange.method, exchange.header
        if method == "OPTIONS" and await self._is_told(exchange):
            return
        path = scope["raw_path"]
        if _listener_of(exchange) == RABBIT:
            path = path.rstrip(b"/")  # Flower asks for queues// where it means those of the virtual host /
        route, exchange.parameters = self._table.find(method, path)
        if route.listener != _listener_of(exchange):
            raise Refusal(404, "not-found", f"there is nothing at {scope['path']!r} on this listener")
        said = header(b"authorization"), header(b"x-api-key"), scope["state"][CONNECTION]
        caller = self._logins.known(*said) or await self._logins.caller(*said)
        exchange.let_in(caller)
        _require(route.right, caller)
        if scope["query_string"] and route.query is None and route.right is not Right.PUBLIC:
            # What is not understood must not be passed over: it could say that nothing is to be changed.
            exchange.query(Query)
        reply = await route.handler(exchange)
        if reply is not None:
            await exchange.reply(reply)

    async def _is_told(self, exchange: Exchange) -> bool:
        """What may be asked for at a path, and by a page of another origin."""
        allowed = self._table.allowed(exchange.scope["raw_path"])
        if allowed:
            headers = self._cross_origin.preflight(exchange, allowed) or [(b"allow", allowed.encode())]
            await exchange.reply(Reply(204, headers=headers))
        return bool(allowed)

    async def _refuse(self, exchange: Exchange, error: PenstockError | Refusal) -> None:
        reply = problem_reply(error, exchange.request_id, exchange.is_anonymous)
        if _listener_of(exchange) == RABBIT:
            reply = rabbit_problem(error, exchange.is_anonymous)
        code = error.code if isinstance(error, Refusal) else error.code.value
        self.state.counters.refused[code] += 1
        if exchange.is_started:
            # Half an answer is on its way: all that can be said is that it ends here.
            await exchange.abort()
        else:
            await exchange.reply(reply)


def _listener_of(exchange: Exchange) -> str | None:
    return RABBIT if exchange.connection.listener.name == RABBIT else None


def _require(right: Right, caller: Caller) -> None:
    permissions, name = caller.permissions, caller.identity.name
    if right is not Right.PUBLIC and not caller.is_admitted:
        raise NotAuthorised("this needs a login: send a token, an API key, or a name and a password")
    if right is Right.READ and not permissions.may_read:
        raise NotAuthorised(f"{name} may not look at this: it needs the role read-only or admin")
    if right is Right.NUMBERS and not (permissions.may_read or permissions.may_monitor):
        raise NotAuthorised(f"{name} may not look at this: it needs the role monitor, read-only or admin")
    if right is Right.SERVER and not permissions.is_server_admin:
        raise NotAuthorised(f"{name} may not do this: it needs the role admin in the namespace 'default'")
    if right is Right.ADMIN and not permissions.is_admin:
        raise NotAuthorised(f"{name} may not do this: it needs the role admin")


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value.decode())
    return f"{_WORD}-{next(_numbers)}"
