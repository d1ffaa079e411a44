"""Exchanges and bindings as they are listed and declared, and messages for exchanges."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from penstock.codecs.http.messages import TWO_KEYS, VALUES, OutgoingMessage, one_or_many
from penstock.codecs.http.shapes import QueueName, described, one_of
from penstock.core.settings.kind import Json

_NAME = {"minLength": 1, "maxLength": 255, "pattern": r"^[^\x00-\x1f\x7f]+$"}
ExchangeName = Annotated[str, msgspec.Meta(extra_json_schema=_NAME)]
# And x-delayed-message, which needs an argument.
_TYPES = ["direct", "fanout", "topic", "headers", "x-consistent-hash"]
ExchangeType = Annotated[str, msgspec.Meta(extra_json_schema={"enum": _TYPES})]
RoutingKey = Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": 255})]


class NewExchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    name: ExchangeName
    type: ExchangeType = "direct"
    """direct, fanout, topic, headers, x-consistent-hash or x-delayed-message"""
    durable: bool = True
    """false: it is gone after a restart"""
    auto_delete: bool = False
    """it goes with the last of its bindings"""
    internal: bool = False
    """nobody publishes to it: messages come by bindings of other exchanges"""
    alternate: ExchangeName | None = None
    """the exchange that gets what none of the bindings takes"""
    arguments: dict[str, Any] = {}


class ExchangeDescription(msgspec.Struct, frozen=True):
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    alternate: str | None
    arguments: dict[str, Any]
    predeclared: bool
    bindings: int
    """from it, without the topics of queues, which are bindings of amq.topic"""


class Exchanges(msgspec.Struct, frozen=True):
    items: list[ExchangeDescription]
    next: str | None


def _one_end(given: str, other: str) -> Json:
    return {"required": [given], "properties": {given: {"type": "string"}, other: {"type": "null"}}}


@described({"oneOf": [_one_end("queue", "exchange"), _one_end("exchange", "queue")]})
class NewBinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """From an exchange to a queue, or to another exchange."""

    source: ExchangeName
    queue: QueueName | None = None
    exchange: ExchangeName | None = None
    key: RoutingKey = ""
    arguments: dict[str, Any] = {}
    """for a headers exchange: `x-match` (all, any, all-with-x, any-with-x) and the headers"""


class BindingDescription(msgspec.Struct, frozen=True):
    source: str
    queue: str | None
    exchange: str | None
    key: str
    arguments: dict[str, Any]


class Bindings(msgspec.Struct, frozen=True):
    items: list[BindingDescription]
    next: str | None


_NOT_HERE = {"partition": {"type": "null"}, "topic": {"type": "null"}}


@described({"oneOf": one_of(VALUES), "not": TWO_KEYS, "properties": _NOT_HERE})
class ExchangeMessage(OutgoingMessage, frozen=True, forbid_unknown_fields=True, kw_only=True):
    routing_key: str = ""
    """by which the exchange decides; `key` is that of the message, by which queues keep order"""


@described({**one_or_many(), "properties": _NOT_HERE})
class ExchangePublish(ExchangeMessage, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One message, or `messages`: all of them are taken, or none."""

    messages: list[ExchangeMessage] | UnsetType = UNSET


class ExchangeReport(msgspec.Struct, frozen=True):
    accepted: int
    routed: int
    """messages that a queue or a subscriber gets"""
