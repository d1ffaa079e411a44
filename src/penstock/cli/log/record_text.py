"""Records as bytes for a terminal or a pipe: plain values, or a JSON object a line."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from penstock.cli.message.text import text_or_base64
from penstock.cli.output import line_of
from penstock.log.batch import VALUE, Batch
from penstock.log.view import viewed

Render = Callable[[Batch, range], bytes]
"""some rows of a batch, each ending with a newline"""

_encoder = msgspec.json.Encoder()


def as_values(batch: Batch, rows: range) -> bytes:
    """Without an object of more than one field per record: a log may have very many."""
    column = batch.var_column(VALUE)
    if column is None:
        return b"\n" * len(rows)
    _, raw_offsets, data = column
    offsets, values = raw_offsets.cast("i"), data.tobytes()
    return b"".join([values[offsets[row] : offsets[row + 1]] + b"\n" for row in rows])


def as_json_lines(batch: Batch, rows: range) -> bytes:
    offsets, timestamps, batch = batch.offsets(), batch.timestamps(), viewed(batch)
    return b"".join([_encoder.encode(_record(batch, row, offsets[row], timestamps[row])) + b"\n" for row in rows])


def as_yaml(batch: Batch, rows: range) -> bytes:
    offsets, timestamps, batch = batch.offsets(), batch.timestamps(), viewed(batch)
    return b"".join([line_of(_record(batch, row, offsets[row], timestamps[row]), "yaml") for row in rows])


RENDERERS: dict[str, Render] = {"text": as_values, "json": as_json_lines, "yaml": as_yaml}
"""by the format of -o"""


def _record(batch: Batch, row: int, offset: int, timestamp: int) -> dict[str, object]:
    """Only the fields the record has; `properties` as all readers see them, `native` as stored. Bytes that are no UTF-8
    are base64, under a name that says so."""
    record: dict[str, object] = {"offset": offset, "timestamp": timestamp}
    fields = {
        "topic": batch.topic(row),
        "key": batch.key(row),
        "value": batch.value(row),
        "properties": batch.properties(row),
        "native": batch.native(row),
    }
    for name, data in fields.items():
        if data is not None:
            record |= text_or_base64(name, data)
    if expiry := batch.expiry(row):
        record["expiry"] = expiry
    return record
