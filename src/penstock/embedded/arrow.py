"""Tables on their way in: Arrow's columns become ours, with no object per message."""

from __future__ import annotations

from array import array

import pyarrow as pa

from penstock.core.errors import InvalidArgument
from penstock.log.columns import Columns, Spans
from penstock.tables.nulls import marked

_KNOWN = ("value", "key", "properties")


def columns_of_table(table: pa.Table | pa.RecordBatch) -> Columns:
    """InvalidArgument unless it has a column `value` and no others but `key` and `properties`, of binary or text. A
    value stays null; a key or properties that are null are none."""
    if not isinstance(table, pa.Table | pa.RecordBatch):
        raise InvalidArgument(f"{type(table).__name__} is neither a list of messages nor Columns nor an Arrow table")
    if "value" not in table.schema.names or set(table.schema.names) - set(_KNOWN):
        raise InvalidArgument(
            f"a table of messages has a column value, and may have key and properties; not {table.schema.names}"
        )
    arrays = {name: _binary(name, table.column(name)) for name in table.schema.names}
    if (properties := marked(arrays["value"], arrays.get("properties"))) is not None:
        arrays["properties"] = properties
    found = {name: _buffers(column) for name, column in arrays.items()}
    parts = [memoryview(data) for _, data in found.values()]
    source, spans, at = b"".join(parts), {}, 0
    for (name, (offsets, _)), data in zip(found.items(), parts, strict=True):
        spans[name] = _spans(offsets, at)
        at += len(data)
    return Columns(table.num_rows, source, spans["value"], spans.get("key"), spans.get("properties"))


def _binary(name: str, column: pa.Array | pa.ChunkedArray) -> pa.Array:
    try:
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        plain = whole.cast(pa.binary())
        return plain if name == "value" else plain.fill_null(b"")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(
            f"column {name} is {column.type}, not binary or text of less than 2 GiB: {error}"
        ) from error


def _buffers(column: pa.Array) -> tuple[array[int], pa.Buffer]:
    """Offsets from 0 on, and the bytes."""
    plain = column.fill_null(b"")
    offsets = array("i")
    _, offsets_buffer, data = plain.buffers()
    if len(plain) == 0:
        return array("i", [0]), pa.py_buffer(b"")
    offsets.frombytes(memoryview(offsets_buffer)[4 * plain.offset : 4 * (plain.offset + len(plain) + 1)])
    first, last = offsets[0], offsets[-1]
    shifted = offsets if first == 0 else array("i", [offset - first for offset in offsets])
    return shifted, (data.slice(first, last - first) if data is not None else pa.py_buffer(b""))


def _spans(offsets: array[int], at: int) -> Spans:
    moved = offsets if at == 0 else array("i", [offset + at for offset in offsets])
    return Spans(moved[:-1], moved[1:])
