"""The headers CC and BCC: further routing keys of a message, and BCC is not told to those who get it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import msgspec

from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.properties import properties_bytes, read_properties
from penstock.gateways.amqp091.messages import Messages
from penstock.kernels import amqp_columns as names
from penstock.kernels import amqp_tables

CC, BCC = "CC", "BCC"
_ARRAY = ord("A")


def rows_with(messages: Messages, name: str) -> Iterator[tuple[int, int]]:
    """Messages with this header, and the letter of its type."""
    if not messages.has & names.HAS_HEADERS:
        return
    kinds, starts, stops = (array("i", bytes(4 * messages.count)) for _ in range(3))
    headers = messages.headers
    source = messages.columns.source
    if not amqp_tables.find(source, headers.starts, headers.ends, name.encode(), kinds, starts, stops):
        return
    for row, kind in enumerate(kinds):
        if kind:
            yield row, kind


def take_copies(messages: Messages) -> None:
    """Further keys are found, and blind ones are taken out. What is wrong with them was looked at before."""
    wanted = {row for name in (CC, BCC) for row, kind in rows_with(messages, name) if kind == _ARRAY}
    for row in sorted(wanted):
        properties = read_properties(messages.carried(row))
        headers = dict(properties.headers or {})
        found = [*_texts(headers.get(CC)), *_texts(headers.get(BCC))]
        if found:
            messages.further[row] = tuple(found)
        if headers.pop(BCC, None) is not None:
            kept = msgspec.structs.replace(properties, headers=headers)
            messages.replace_properties(row, properties_bytes(kept))


def is_array(kind: int) -> bool:
    return kind == _ARRAY


def _texts(field: Field | None) -> list[bytes]:
    values = field.value if field is not None else ()
    if not isinstance(values, tuple):
        return []
    return [each.value.encode("utf-8", "surrogateescape") for each in values if isinstance(each.value, str)]
