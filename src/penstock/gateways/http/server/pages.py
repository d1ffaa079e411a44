"""Lists that are given out in parts."""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import msgspec

from penstock.codecs.http.shapes import BASE64_URL, Cursor
from penstock.gateways.http.server.exchange import Query
from penstock.gateways.http.server.problems import Refusal

Item = TypeVar("Item")

MOST = 1000
DEFAULT = 100
_CURSOR = re.compile(BASE64_URL)


class PageQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = DEFAULT
    cursor: Cursor | None = None
    """`next` of the part before"""


def page(items: Sequence[Item], name_of: Callable[[Item], str], query: PageQuery) -> tuple[list[Item], str | None]:
    """Items sorted by their names, which tell them apart: those behind the cursor, and the cursor behind them. Items
    that come and go meanwhile are seen or not, no other is seen twice or missed."""
    first = 0
    if query.cursor is not None:
        first = bisect_right(items, _decoded(query.cursor), key=name_of)
    part = list(items[first : first + query.limit])
    has_more = first + len(part) < len(items)
    return part, _encoded(name_of(part[-1])) if part and has_more else None


def _encoded(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> str:
    """Whatever it names: items that come behind that."""
    if _CURSOR.fullmatch(cursor) is None:
        detail = "the cursor is not known: give back `next` as it came"
        raise Refusal(400, "invalid-argument", detail, "cursor")
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode(errors="replace")
