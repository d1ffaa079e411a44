"""What an exchange of a type, and a binding to it, cannot have, in the words of RabbitMQ."""

from __future__ import annotations

from penstock.codecs.amqp091.errors import AmqpError, Fault, printed, type_name
from penstock.codecs.amqp091.kinds import Table
from penstock.queues.exchange_headers import MATCH, MATCHES
from penstock.queues.exchange_types import HASH_HEADER, HASH_TYPE

At = tuple[int, int]
_HASH_PROPERTY = "hash-property"
_HASHED_PROPERTIES = ("correlation_id", "message_id", "timestamp")


def check_arguments(type: str, arguments: Table, channel: int, at: At) -> None:
    """Of a declaration."""
    if type != HASH_TYPE or (wanted := arguments.get(_HASH_PROPERTY)) is None:
        return
    if HASH_HEADER in arguments:
        raise AmqpError(Fault.HASH_BOTH, channel, at)
    if wanted.value not in _HASHED_PROPERTIES:
        raise AmqpError(Fault.HASH_PROPERTY, channel, at, property=wanted.value)
    detail = f"{_HASH_PROPERTY} is not supported: use {HASH_HEADER}, or the routing key"
    raise AmqpError(Fault.PRECONDITION, channel, at, detail=detail)


def check_binding(type: str, key: str, arguments: Table, channel: int, at: At) -> None:
    """Whose source is of this type."""
    if type == "headers":
        _check_match(arguments, channel, at)
    elif type == HASH_TYPE:
        _check_weight(key, channel, at)


def _check_match(arguments: Table, channel: int, at: At) -> None:
    field = arguments.get(MATCH)
    if field is None:
        return
    if field.kind != "S":
        raise AmqpError(Fault.X_MATCH_TYPE, channel, at, type=type_name(field), value=printed(field))
    if field.value not in MATCHES:
        raise AmqpError(Fault.X_MATCH, channel, at, value=field.value)


def _check_weight(key: str, channel: int, at: At) -> None:
    digits = key.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise AmqpError(Fault.HASH_KEY, channel, at, key=key)
    if int(key) < 1:
        raise AmqpError(Fault.HASH_WEIGHT, channel, at)
