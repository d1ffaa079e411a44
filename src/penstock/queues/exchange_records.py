"""Exchanges and bindings as the log of the configuration has them, and the keys of these records."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec


class ExchangeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str
    name: str
    type: str
    auto_delete: bool = False
    internal: bool = False
    alternate: str | None = None
    arguments: dict[str, Any] = {}


class BindingRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """To a queue by its incarnation, so that one declared anew under its name is not bound, or to an exchange."""

    namespace: str
    number: int
    source: str
    queue: int | None = None
    exchange: str | None = None
    key: str = ""
    arguments: dict[str, Any] = {}


def exchange_key(namespace: str, name: str) -> str:
    return f"exchange:{quote(namespace, safe='')}:{quote(name, safe='')}"


def binding_key(namespace: str, number: int) -> str:
    return f"binding:{quote(namespace, safe='')}:{number}"
