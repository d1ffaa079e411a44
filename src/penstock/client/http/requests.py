"""Requests, sent again where that is safe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from penstock.client.backoff import backoff_s
from penstock.client.errors import ConnectionLost
from penstock.client.http.connection import HttpConnection, Lost, Response
from penstock.client.http.errors import PROBLEM, HttpRefused, refusal
from penstock.client.http.options import API, HttpOptions, Retries, header_line
from penstock.client.http.pool import Pool
from penstock.core.errors import PenstockError

T = TypeVar("T")

_SAFE_METHODS = frozenset({"GET", "PUT", "DELETE"})
_THROTTLED = 429
# Of a proxy that lost the server, or a server that ended: what was asked for may have been done or not.
_PERHAPS_DONE = frozenset({502, 503, 504})
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """A request and the kind of its answer. `is_repeatable`: done twice it does no more than once; so for those methods
    of which HTTP says so, whatever is said here."""

    method: str
    path: str
    """below the URL"""
    answer: type[T]
    """bytes: the body as it is; NoneType: nothing is expected"""
    query: Mapping[str, object] = field(default_factory=dict)
    """None is left out"""
    body: bytes | None = field(default=None, repr=False)
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = False
    wait_s: float = 0.0
    """so long the server was asked to wait"""

    @property
    def may_repeat(self) -> bool:
        return self.is_repeatable or self.method in _SAFE_METHODS

    def target(self, namespace: str | None) -> str:
        """In a namespace that a client works in, if it is not its own."""
        asked = {"namespace": namespace if self.path.startswith(API) else None, **self.query}
        pairs = {name: _written(value) for name, value in asked.items() if value is not None}
        return f"{self.path}?{urlencode(pairs)}" if pairs else self.path


def ask(
    method: str,
    path: str,
    answer: type[T],
    body: object = None,
    *,
    query: Mapping[str, object] | None = None,
    is_repeatable: bool = False,
) -> Ask[T]:
    """Below the API; `body` is sent as JSON."""
    data = None if body is None else _encode(body)
    return Ask(method, f"{API}{path}", answer, query or {}, data, is_repeatable=is_repeatable)


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Requests:
    """Used from one loop."""

    def __init__(self, options: HttpOptions) -> None:
        self.options = options
        self._pool = Pool(options)
        self._head, self._base_path = options.head(), options.base_path

    def close(self) -> None:
        """Requests under way fail with ConnectionLost, later ones with Closed."""
        self._pool.close()

    async def send(self, ask: Ask[T]) -> T:
        """HttpRefused by the server, ConnectionLost by the network: then it may have been done or not."""
        response = await self._send(ask)
        return self._decoded(ask, response)

    @asynccontextmanager
    async def stream(self, ask: Ask[bytes]) -> AsyncIterator[HttpConnection]:
        """The answer's body, to be read piece by piece, by a connection of its own. Tried once; Lost while reading."""
        connection = await self._pool.open()
        try:
            async with asyncio.timeout(self.options.timeout_s):
                connection.begin(self._bytes(ask), is_streaming=True)
                response = await connection.head()
            if response.status >= 400:
                response = await connection.answer()
                raise refusal(self._what(ask), response.status, response.headers, response.body)
            yield connection
        except (Lost, TimeoutError) as error:
            raise self._lost(ask, str(error) or "no answer in time") from None
        finally:
            self._pool.drop(connection)

    async def _send(self, ask: Ask[T]) -> Response:
        retries, attempt = self.options.retries, 0
        while True:
            try:
                response = await self._try(ask)
                if retries.notice is not None:
                    retries.notice(None)
                return response
            except _NotSent as error:
                failure: PenstockError = error.reason
                delay_s: float | None = 0.0
            except ConnectionLost as error:
                failure, delay_s = error, 0.0 if ask.may_repeat else None
            except HttpRefused as error:
                failure, delay_s = error, _asked_delay_s(ask, error, retries)
            if delay_s is None or attempt >= retries.attempts:
                raise failure
            if retries.notice is not None:
                retries.notice(failure)
            await asyncio.sleep(max(delay_s, backoff_s(retries.first_delay_s, retries.longest_delay_s, attempt)))
            attempt += 1

    async def _try(self, ask: Ask[T]) -> Response:
        try:
            lent = await self._pool.lend()
        except ConnectionLost as error:
            raise _NotSent(error) from None
        try:
            return await self._exchange(ask, lent.connection)
        except Lost as error:
            # An idle connection that the server closed while the request was on its way.
            if not lent.is_reused or error.is_begun or not ask.may_repeat:
                raise self._lost(ask, str(error)) from None
        finally:
            self._pool.give_back(lent)
        return await self._try_fresh(ask)

    async def _try_fresh(self, ask: Ask[T]) -> Response:
        lent = await self._pool.lend(is_fresh=True)
        try:
            return await self._exchange(ask, lent.connection)
        except Lost as error:
            raise self._lost(ask, str(error)) from None
        finally:
            self._pool.give_back(lent)

    async def _exchange(self, ask: Ask[T], connection: HttpConnection) -> Response:
        timeout_s = self.options.timeout_s + ask.wait_s
        try:
            async with asyncio.timeout(timeout_s):
                connection.begin(self._bytes(ask))
                response = await connection.answer()
        except TimeoutError:
            raise self._lost(ask, f"no answer within {timeout_s:g} s") from None
        # A settlement of which nothing came is told as a conflict, and is no problem.
        if response.status >= 400 and not _is_report(response):
            raise refusal(self._what(ask), response.status, response.headers, response.body)
        return response

    def _bytes(self, ask: Ask[T]) -> bytes:
        target = f"{self._base_path}{ask.target(self.options.namespace)}"
        lines = [f"{ask.method} {target} HTTP/1.1\r\n".encode(), self._head]
        lines += [header_line(name, value) for name, value in ask.headers.items()]
        if ask.body is not None:
            lines.append(header_line("Content-Type", ask.content_type))
        if ask.body is not None or ask.method != "GET":
            lines.append(b"Content-Length: %d\r\n" % len(ask.body or b""))
        return b"".join([*lines, b"\r\n", ask.body or b""])

    def _decoded(self, ask: Ask[T], response: Response) -> T:
        if ask.answer is bytes:
            return response.body  # type: ignore[return-value]  # T is bytes
        if ask.answer is type(None):
            return None
        try:
            return msgspec.json.decode(response.body, type=ask.answer)
        except msgspec.DecodeError as error:
            raise ConnectionLost(
                f"the answer to {self._what(ask)} cannot be read ({error}): is there a Penstock server at that URL, "
                f"and of a version that this client knows?"
            ) from None

    def _what(self, ask: Ask[T]) -> str:
        return f"{ask.method} {self.options.url.rstrip('/')}{ask.path}"

    def _lost(self, ask: Ask[T], reason: str) -> ConnectionLost:
        usual = "see whether the server runs and the URL is right (https:// where it has TLS), and try again"
        advice = usual if ask.may_repeat else "it may have been done or not"
        return ConnectionLost(f"{self._what(ask)} got no answer: {reason}; {advice}")


class _NotSent(Exception):
    """There was no connection: whatever it was, it can be tried again."""

    def __init__(self, reason: ConnectionLost) -> None:
        self.reason = reason


def _is_report(response: Response) -> bool:
    kind = response.headers.get("content-type", "")
    return response.status == 409 and kind.startswith("application/json") and not kind.startswith(PROBLEM)


def _asked_delay_s(ask: Ask[T], refused: HttpRefused, retries: Retries) -> float | None:
    """None if it must not be sent again, or not so soon."""
    if refused.status != _THROTTLED and not (refused.status in _PERHAPS_DONE and ask.may_repeat):
        return None
    asked_s = refused.retry_after_s or 0.0
    return asked_s if asked_s <= retries.longest_asked_s else None
