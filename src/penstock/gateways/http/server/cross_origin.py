"""Pages in browsers: which may call, and which must not, even where everybody else needs no login."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.wire.origins import Origins, is_same, is_this_machine

if TYPE_CHECKING:
    from penstock.gateways.http.server.exchange import Exchange

_PREFLIGHT_S = b"600"
_HEADERS_SHOWN = b"Penstock-Request-Id, ETag, Retry-After"

Headers = list[tuple[bytes, bytes]]


class CrossOrigin:
    """A browser sends a page's requests to any server and tells the page's origin. One that is neither that of this
    server nor configured is refused: it could write without ever reading an answer. In development mode, where there
    is no login, a name that is not this machine's is refused too, as a page can make its own name point here."""

    def __init__(self, options: HttpOptions) -> None:
        self._origins = Origins(options.cors_origins)
        self._is_local = options.is_development

    def check(self, exchange: Exchange) -> Headers:
        """What goes into the answer. Refusal."""
        host = (exchange.header(b"host") or b"").decode("latin-1")
        if self._is_local and not is_this_machine(host):
            raise Refusal(421, "wrong-host", "in development mode the server answers to localhost only")
        origin = exchange.header(b"origin")
        if origin is None:
            return []
        page = origin.decode("latin-1")
        if self._origins.is_listed(page):
            return [
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", _HEADERS_SHOWN),
                (b"vary", b"Origin"),
            ]
        if is_same(page, host):
            return []
        raise Refusal(
            403,
            "not-authorised",
            "requests from pages of other origins are refused: allow the origin in http.cors_origins",
        )

    def preflight(self, exchange: Exchange, allowed: str) -> Headers:
        """Of a page that may call; nothing for everybody else."""
        if exchange.header(b"access-control-request-method") is None or not exchange.extra_headers:
            return []
        wanted = exchange.header(b"access-control-request-headers") or b""
        return [
            (b"access-control-allow-methods", allowed.encode()),
            (b"access-control-allow-headers", wanted),
            (b"access-control-max-age", _PREFLIGHT_S),
        ]
