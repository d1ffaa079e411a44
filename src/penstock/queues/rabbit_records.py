"""What a queue was declared with, as its record has it: the types of arguments are kept, to be compared with."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from penstock.codecs.amqp091.kinds import Field, FieldValue, Table
from penstock.queues.rabbit_arguments import Declared


def record_of(declared: Declared) -> dict[str, Any]:
    return {
        "durable": declared.is_durable,
        "exclusive": declared.is_exclusive,
        "auto_delete": declared.auto_delete,
        "arguments": _stored_table(declared.arguments),
    }


def declared_of(record: Mapping[str, Any] | None) -> Declared | None:
    """None of a queue that another protocol has declared."""
    if record is None:
        return None
    return Declared(record["durable"], record["exclusive"], record["auto_delete"], _table(record["arguments"]))


def _stored_table(table: Table) -> dict[str, Any]:
    return {name: _stored(field) for name, field in table.items()}


def _stored(field: Field) -> list[Any]:
    """The letter of its type, and what JSON can say. Text that is not UTF-8 is in hexadecimal."""
    value: Any = field.value
    if isinstance(value, Mapping):
        value = _stored_table(value)
    elif isinstance(value, tuple):
        value = [_stored(inner) for inner in value]
    elif isinstance(value, bytes):
        value = b64encode(value).decode()
    elif isinstance(value, Decimal):
        value = str(value)
    elif isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape").hex() if not value.isprintable() else "=" + value
    return [field.kind, value]


def _table(stored: Mapping[str, Sequence[Any]]) -> dict[str, Field]:
    return {name: _field(*found) for name, found in stored.items()}


def _field(kind: str, stored: Any) -> Field:
    value: FieldValue = stored
    if kind == "F":
        value = _table(stored)
    elif kind == "A":
        value = tuple([_field(*inner) for inner in stored])
    elif kind == "x":
        value = b64decode(stored)
    elif kind == "D":
        value = Decimal(stored)
    elif kind == "S":
        value = stored[1:] if stored.startswith("=") else bytes.fromhex(stored).decode("utf-8", "surrogateescape")
    return Field(kind, value)
