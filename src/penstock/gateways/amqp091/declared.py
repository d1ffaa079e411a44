"""What a queue was declared with, as AMQP says it: kept with the queue, to be compared when it is declared again."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from penstock.broker.queues.queue import Queue
from penstock.codecs.amqp091.errors import AmqpError, Fault, inequivalent, named
from penstock.codecs.amqp091.kinds import Field, FieldValue, Table
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.connection import Connection

DECLARE = (50, 10)
# In the order in which RabbitMQ looks at them: the first difference is told.
COMPARED = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-type",
    "x-quorum-initial-group-size",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-delivery-limit",
)
_CLASSIC = Field("S", "classic")
_INTEGERS = "bBsuIilL"


class Declared(NamedTuple):
    is_durable: bool
    is_exclusive: bool
    auto_delete: bool
    arguments: Table

    @property
    def is_stream(self) -> bool:
        found = self.arguments.get("x-queue-type")
        return found is not None and found.value == "stream"

    def record(self) -> dict[str, Any]:
        """As the record of a queue has it."""
        return {
            "durable": self.is_durable,
            "exclusive": self.is_exclusive,
            "auto_delete": self.auto_delete,
            "arguments": _plain_table(self.arguments),
        }


def declared_of(queue: Queue) -> Declared:
    """Of one that another door has declared: as if it had been durable, without arguments."""
    found = queue.record.declared
    if found is None:
        return Declared(True, False, False, {})
    return Declared(found["durable"], found["exclusive"], found["auto_delete"], _table(found["arguments"]))


def refuse_difference(connection: Connection, channel: Channel, queue: Queue, mine: Declared, wanted: Declared) -> None:
    """AmqpError where it was declared with something else."""
    what = named("queue", queue.name, connection.vhost)
    if mine.is_exclusive != wanted.is_exclusive:
        raise AmqpError(Fault.LOCKED, channel.number, DECLARE, what=what)
    pairs = [("durable", mine.is_durable, wanted.is_durable), ("auto_delete", mine.auto_delete, wanted.auto_delete)]
    for name, current, received in pairs:
        if current != received and not (name == "durable" and mine.is_exclusive):
            raise inequivalent(name, what, Field("t", received), Field("t", current), channel.number, DECLARE)
    for name in COMPARED:
        current_field, received_field = mine.arguments.get(name), wanted.arguments.get(name)
        if name == "x-queue-type" and received_field in (None, _CLASSIC) and current_field in (None, _CLASSIC):
            continue
        if name == "x-queue-type" and received_field is None:
            continue
        if not _is_same(current_field, received_field):
            raise inequivalent(name, what, received_field, current_field, channel.number, DECLARE)


def _is_same(one: Field | None, other: Field | None) -> bool:
    """Whole numbers are alike whatever their width."""
    if one is None or other is None:
        return one is other
    if one.kind in _INTEGERS and other.kind in _INTEGERS:
        return one.value == other.value
    return one == other


def _plain_table(table: Table) -> dict[str, Any]:
    return {name: _plain(field) for name, field in table.items()}


def _plain(field: Field) -> list[Any]:
    value: Any = field.value
    if isinstance(value, Mapping):
        value = _plain_table(value)
    elif isinstance(value, tuple):
        value = [_plain(inner) for inner in value]
    elif isinstance(value, bytes):
        value = b64encode(value).decode()
    elif isinstance(value, Decimal):
        value = str(value)
    elif isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape").hex() if not value.isprintable() else "=" + value
    return [field.kind, value]


def _table(plain: Mapping[str, Sequence[Any]]) -> Table:
    return {name: _field(*found) for name, found in plain.items()}


def _field(kind: str, plain: Any) -> Field:
    value: FieldValue = plain
    if kind == "F":
        value = _table(plain)
    elif kind == "A":
        value = tuple(_field(*inner) for inner in plain)
    elif kind == "x":
        value = b64decode(plain)
    elif kind == "D":
        value = Decimal(plain)
    elif kind == "S":
        is_text = plain.startswith("=")
        value = plain[1:] if is_text else bytes.fromhex(plain).decode("utf-8", "surrogateescape")
    return Field(kind, value)
