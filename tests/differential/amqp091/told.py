"""What a server said, as values that can be compared and written to a file: without what is different each time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from tests.differential.amqp091.peer import Said

from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.methods import ConnectionStart, ConnectionTune, Method
from penstock.codecs.amqp091.properties import read_properties

Told: TypeAlias = dict[str, Any]

_GENERATED = re.compile(r"amq\.(?:(gen)-[\w-]+|(ctag)-[\w-]+|rabbitmq\.(reply)-to\.[\w.=+/-]+)")
_LONG_BODY = 200


class Names:
    """Names that a server makes, numbered in the order in which they were seen; of one run."""

    def __init__(self) -> None:
        self._numbered: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def hide(self, text: str) -> str:
        return _GENERATED.sub(lambda found: self._name(found), text)

    def real(self, text: str) -> str:
        """The other way: what the script calls <gen:0>. It stays as it is if there is none."""
        return re.sub(r"<\w+:\d+>", lambda found: self._real.get(found[0], found[0]), text)

    def _name(self, found: re.Match[str]) -> str:
        if found[0] not in self._numbered:
            kind = next(group for group in found.groups() if group)
            number = self._counts.get(kind, 0)
            self._counts[kind] = number + 1
            self._numbered[found[0]] = f"<{kind}:{number}>"
            self._real[f"<{kind}:{number}>"] = found[0]
        return self._numbered[found[0]]


def told(said: Said, names: Names) -> Told:
    found: Told = {"channel": said.channel, "method": said.method.name, **_fields(said.method, names)}
    if said.method.has_content:
        found["properties"] = _properties(said.properties, names)
        found["body"] = names.hide(_body(said.body))
    return found


def _fields(method: Method, names: Names) -> Told:
    found: Told = {}
    if isinstance(method, ConnectionStart):
        capabilities = method.server_properties.get("capabilities", Field("F", {})).value
        assert isinstance(capabilities, Mapping)
        return {"mechanisms": method.mechanisms.decode(), "capabilities": sorted(capabilities)}
    for name in method.__struct_fields__:
        value = getattr(method, name)
        found[name] = names.hide(value) if isinstance(value, str) else _plain(value, names)
    if isinstance(method, ConnectionTune):
        del found["heartbeat"]
    return found


def _properties(data: bytes, names: Names) -> Told:
    read = read_properties(data)
    found: Told = {}
    for name in read.__struct_fields__:
        value = getattr(read, name)
        if value is None:
            continue
        found[name] = names.hide(value) if isinstance(value, str) else _plain(value, names)
    return found


def _plain(value: object, names: Names) -> object:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Mapping):
        return [[name, *_field(name, inner, names)] for name, inner in value.items()]
    return value


def _field(name: str, field: Field, names: Names) -> list[object]:
    kind, value = field
    if kind == "T" and name == "time":
        return [kind, "<time>"]
    if isinstance(value, tuple):
        return [kind, [_field("", inner, names) for inner in value]]
    if isinstance(value, Decimal):
        return [kind, str(value)]
    if isinstance(value, str):
        return [kind, names.hide(value)]
    return [kind, _plain(value, names)]


def _body(body: bytes) -> str:
    text = body.decode("latin-1")
    return text if len(text) <= _LONG_BODY else f"{text[:_LONG_BODY]}... {len(text)} bytes"
