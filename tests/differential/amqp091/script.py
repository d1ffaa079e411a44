"""What is done to a broker, step by step, as values that can be written to a file and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.differential.amqp091.peer import CAPABILITIES, FRAME_MAX, Login

from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.methods import BY_NAME, Method
from penstock.codecs.amqp091.properties import Properties, properties_bytes
from penstock.codecs.amqp091.wire import field_of, table_of

Plain: TypeAlias = Any
"""what JSON knows"""


@dataclass(frozen=True)
class Connect:
    """`is_bare`: nothing but the script is said on this connection, so its channels may be in any state."""

    on: int = 0
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    mechanism: str = "PLAIN"
    response: str | None = None
    lacks: Sequence[str] = ()
    """capabilities that it does not have"""
    channel_max: int = 0
    frame_max: int = FRAME_MAX
    heartbeat: int = 0
    is_bare: bool = False

    @property
    def login(self) -> Login:
        capabilities = {name: yes for name, yes in CAPABILITIES.items() if name not in self.lacks}
        response = None if self.response is None else self.response.encode("latin-1")
        numbers = self.channel_max, self.frame_max, self.heartbeat
        return Login(self.user, self.password, self.vhost, self.mechanism, response, capabilities, *numbers)


@dataclass(frozen=True)
class Say:
    """A method; values of tables have the type that RabbitMQ's clients take, or are [letter, value]."""

    method: str
    fields: Mapping[str, Plain] = field(default_factory=dict)
    channel: int = 1
    on: int = 0
    properties: Mapping[str, Plain] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True)
class Raw:
    """Bytes, in latin-1, on a bare connection."""

    data: str
    on: int = 0


@dataclass(frozen=True)
class Dial:
    """A connection to which nothing has been said, not even the protocol's header."""

    on: int = 0


@dataclass(frozen=True)
class Drop:
    """The socket is closed without a word."""

    on: int = 0


@dataclass(frozen=True)
class Wait:
    """Until something that takes time has happened."""

    ms: int
    on: int = 0


Step: TypeAlias = Connect | Dial | Say | Raw | Drop | Wait
Script: TypeAlias = Sequence[Step]
KINDS: Mapping[str, type[Step]] = {kind.__name__: kind for kind in (Connect, Dial, Say, Raw, Drop, Wait)}


def say(method: str, channel: int = 1, on: int = 0, **fields: Plain) -> Say:
    return Say(method, fields, channel, on)


def publish(
    exchange: str = "",
    key: str = "",
    body: str = "",
    channel: int = 1,
    on: int = 0,
    properties: Mapping[str, Plain] | None = None,
    **flags: bool,
) -> Say:
    fields = {"exchange": exchange, "routing_key": key, **flags}
    return Say("basic.publish", fields, channel, on, properties or {}, body)


def to_plain(step: Step) -> dict[str, Plain]:
    """Without what is as by default."""
    default = KINDS[type(step).__name__].__dataclass_fields__
    found: dict[str, Plain] = {"do": type(step).__name__}
    for name in default:
        value = getattr(step, name)
        if value != default[name].default and value not in ({}, ()):
            found[name] = value
    return found


def from_plain(plain: Mapping[str, Plain]) -> Step:
    return KINDS[plain["do"]](**{name: value for name, value in plain.items() if name != "do"})


def method_of(step: Say) -> Method:
    """InvalidArgument or TooLarge for what cannot be said."""
    kind = BY_NAME[step.method]
    fields = {name: _field(value) for name, value in step.fields.items()}
    return kind(**fields)


def _field(value: Plain) -> Plain:
    if isinstance(value, Mapping):
        return table_of({name: typed(inner) for name, inner in value.items()})
    if isinstance(value, str) and value.startswith("latin-1:"):
        return value[8:].encode("latin-1")
    return value


def typed(value: Plain) -> Field:
    """[letter, value] is that type; other lists are arrays."""
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str) and len(value[0]) == 1:
        letter, inner = value
        if letter == "A":
            return Field("A", tuple(map(typed, inner)))
        if letter == "F":
            return Field("F", {name: typed(each) for name, each in inner.items()})
        if letter == "x":
            return Field("x", inner.encode("latin-1"))
        return Field(letter, inner)
    if isinstance(value, list | tuple):
        return Field("A", tuple(map(typed, value)))
    if isinstance(value, Mapping):
        return Field("F", {name: typed(inner) for name, inner in value.items()})
    return field_of(value)


def properties_of(step: Say) -> bytes:
    fields = {name: _field(value) for name, value in step.properties.items()}
    return properties_bytes(Properties(**fields))


def runnable(script: Script, what: str) -> str:
    """A program that runs it against both brokers again."""
    lines = "\n".join(f"    {json.dumps(to_plain(step))}," for step in script)
    return (
        f"# {what}\nfrom tests.differential.amqp091.again import run\n\n"
        f"true, false, null = True, False, None\nrun([\n{lines}\n])\n"
    )
