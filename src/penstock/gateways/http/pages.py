"""Lists that are given out in parts."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import msgspec

from penstock.gateways.http.exchange import Query
from penstock.gateways.http.problems import Refusal

Item = TypeVar("Item")

MOST = 1000
DEFAULT = 100


class PageQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = DEFAULT
    cursor: str | None = None
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
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, ValueError):
        detail = "the cursor is not one of ours: give back `next` as it came"
        raise Refusal(400, "invalid-argument", detail, "cursor") from None
