"""The API described: as OpenAPI, as a page, as a Postman collection. Made once, when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, cached_property
from importlib.resources import files

import msgspec

from penstock.gateways.http.describe.openapi import document
from penstock.gateways.http.describe.postman import collection
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import HTML, JSON, Reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import Route

_TAG = "Description"
# The page loads nothing but what is in it and the description, and runs no script but its own.
_POLICY = b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"


class Description:
    """Of these routes, and of its own."""

    def __init__(self, routes: Iterable[Route]) -> None:
        public, html = Right.PUBLIC, ("text/html",)
        own = (
            Route("GET", "/", root, public, _TAG, "Redirect to /docs", answers={302: None}, answer_types=html),
            Route(
                "GET",
                "/openapi.json",
                self.openapi,
                public,
                _TAG,
                "OpenAPI description",
                answers={200: dict[str, object]},
            ),
            Route(
                "GET",
                "/postman.json",
                self.postman,
                public,
                _TAG,
                "Postman collection",
                answers={200: dict[str, object]},
            ),
            Route("GET", "/docs", docs, public, _TAG, "API documentation page", answers={200: None}, answer_types=html),
        )
        self.routes = (*routes, *own)

    @cached_property
    def _openapi(self) -> bytes:
        return msgspec.json.encode(document(self.routes))

    @cached_property
    def _postman(self) -> bytes:
        return msgspec.json.encode(collection(msgspec.json.decode(self._openapi)))

    async def openapi(self, _: Exchange) -> Reply:
        return Reply(200, self._openapi, JSON)

    async def postman(self, _: Exchange) -> Reply:
        disposition = b'attachment; filename="penstock.postman.json"'
        return Reply(200, self._postman, JSON, [(b"content-disposition", disposition)])


@cache
def _page() -> bytes:
    return files("penstock.gateways.http").joinpath("docs.html").read_bytes()


async def root(_: Exchange) -> Reply:
    """By a relative address, for who is behind a proxy that serves it below a path."""
    return Reply(302, b"", HTML, [(b"location", b"docs")])


async def docs(_: Exchange) -> Reply:
    headers = [(b"content-security-policy", _POLICY), (b"x-content-type-options", b"nosniff")]
    return Reply(200, _page(), HTML, headers)
