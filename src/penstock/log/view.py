"""The one view of a message for every reader: its PROPERTIES, and what its NATIVE ones say beside them.

Nobody else looks into NATIVE to show it. What has none costs a look at one flag. Who stores a message again, or moves
it, takes both columns as they are."""

from __future__ import annotations

from array import array
from dataclasses import replace

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import amqp_native, amqp_view
from penstock.kernels.rows import Ints
from penstock.log.batch import KEY, NATIVE, PROPERTIES, Batch
from penstock.log.columns import Columns, Spans
from penstock.log.header import FLAGS_AT

AMQP_091, AMQP_10 = amqp_view.KIND, 0x10
"""First byte of native properties, by the protocol that they are of. AMQP 1.0 is reserved; less than that are the
broker's own."""

_PROPERTIES_AT = 9


def has_native(data: Buffer) -> bool:
    """Whether rows of an encoded batch have native properties."""
    return bool(data[FLAGS_AT] & NATIVE)


def viewed(batch: Batch) -> Batch:
    """With the view as its properties, for readers; the same object where that is no other. One that is stored again is
    made from the batch itself."""
    if not batch.header.flags & NATIVE:
        return batch
    columns = batch.var_column(NATIVE)
    assert columns is not None
    entries, raw_places, native = columns
    places = raw_places.cast("i")
    if not amqp_view.count(native, places[:-1], places[1:]):
        return batch
    own = batch.var_column(PROPERTIES)
    if own is None:
        ends, data = _made(b"", None, native, places, entries)
    else:
        ends, data = _made(own[2], own[1].cast("i"), native, places, entries)
    return _with_properties(batch, ends, data)


def viewed_columns(columns: Columns) -> Columns:
    """The same of rows on their way in, for those who are handed them at once: without native properties."""
    native, own = columns.native, columns.properties
    if native is None:
        return columns
    source = columns.source
    ends = array("i", bytes(4 * columns.count + 4))
    starts_of, ends_of = (None, None) if own is None else (own.starts, own.ends)
    made = amqp_view.view(source, starts_of, ends_of, source, native.starts, native.ends, ends)
    first = len(source)
    shifted = array("i", [first + end for end in ends])
    spans = Spans(shifted[:-1], shifted[1:])
    return replace(columns, source=b"".join((source, made)), properties=spans, native=None)


def viewed_properties(properties: bytes | None, native: bytes | None) -> bytes | None:
    """The same of one row."""
    if native is None or native[0] != AMQP_091:
        return properties
    own, ends = properties or b"", array("i", [0, 0])
    starts, stops = array("i", [0]), array("i", [len(own)])
    made = amqp_view.view(own, starts, stops, native, array("i", [0]), array("i", [len(native)]), ends)
    return bytes(made) or None


def viewed_places(
    properties: Buffer, property_places: memoryview, native: Buffer, native_places: memoryview
) -> tuple[array[int], bytearray]:
    """The same of two columns: where the view of each row ends, behind a 0, and the bytes."""
    return _made(properties, property_places, native, native_places, len(native_places) - 1)


def amqp091_of(batch: Batch, picked: array[int], left_ms: array[int] | None = None) -> tuple[Buffer, Spans]:
    """Rows of the given numbers as AMQP 0.9.1 has them: spans of property flags and values, without a kind byte, over
    what is returned with them. Those that came by AMQP 0.9.1 are byte for byte what came. `left_ms` ('q'), a word for
    each: how long the others are of use, 0 for ever."""
    body = batch.body
    properties, native = _picked(batch, PROPERTIES, picked), _picked(batch, NATIVE, picked)
    if native is not None and amqp_view.count(body, native.starts, native.ends) == len(picked):
        return body, Spans(array("i", [start + 1 for start in native.starts]), native.ends)
    ends = array("i", bytes(4 * len(picked) + 4))
    keys = _picked(batch, KEY, picked)
    made = amqp_native.natives(body, *_pair(properties), *_pair(native), *_pair(keys), left_ms, ends)
    return made, Spans(ends[:-1], ends[1:])


def check_native(native: Buffer, starts: Ints, ends: Ints) -> None:
    """InvalidArgument for rows that have native properties which a door may not store as they are. Doors that took them
    apart need not ask."""
    if (row := amqp_view.wrong(native, starts, ends)) >= 0:
        raise InvalidArgument(f"row {row}: the native properties are not those of AMQP 0.9.1, or cannot be read")


def _made(
    properties: Buffer, property_places: memoryview | None, native: Buffer, places: memoryview, rows: int
) -> tuple[array[int], bytearray]:
    ends = array("i", bytes(4 * rows + 4))
    starts, stops = (None, None) if property_places is None else (property_places[:-1], property_places[1:])
    return ends, amqp_view.view(properties, starts, stops, native, places[:-1], places[1:], ends)


def _with_properties(batch: Batch, ends: array[int], data: bytearray) -> Batch:
    """Another column behind those of the body; the old one stays where nothing points to it."""
    body = batch.body
    places_at = len(body) + -len(body) % 8
    bytes_at = places_at + 4 * len(ends) + -4 * len(ends) % 8
    whole = b"".join([body, bytes(-len(body) % 8), ends, bytes(-4 * len(ends) % 8), data])
    layout = batch.layout[:]
    layout[_PROPERTIES_AT], layout[_PROPERTIES_AT + 1] = places_at, bytes_at
    header = batch.header._replace(flags=batch.header.flags | PROPERTIES)
    return Batch(header, memoryview(whole), layout)


def _picked(batch: Batch, flag: int, picked: array[int]) -> Spans | None:
    spans = batch.spans(flag)
    return None if spans is None else spans.take(picked)


def _pair(spans: Spans | None) -> tuple[array[int] | None, array[int] | None]:
    return (None, None) if spans is None else (spans.starts, spans.ends)
