"""Dead letters in columns: what their properties say of whence and why, without an object per row."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.queues import deadletter
from penstock.tables.schema import DEAD_LETTER
from penstock.tables.text import text

_PROPERTIES = {
    "queue": deadletter.QUEUE,
    "partition": deadletter.PARTITION,
    "offset": deadletter.OFFSET,
    "group": deadletter.GROUP,
    "reason": deadletter.REASON,
    "detail": deadletter.DETAIL,
    "deliveryCount": deadletter.DELIVERY_COUNT,
    "failures": deadletter.FAILURES,
    "firstFailed": deadletter.FIRST_FAILED,
    "time": deadletter.TIME,
}
"""The property that each field is read from."""

_NUMBER = "^[0-9]{1,18}$"
_MILLISECONDS = pa.timestamp("ms", "UTC")


def dead_letters(headers: pa.ListArray) -> pa.StructArray:
    """Of rows with these headers; null for those that no group has given up on."""
    found = {field: _first(headers, name) for field, name in _PROPERTIES.items()}
    columns = [_as(found[field.name], field.type) for field in DEAD_LETTER]
    return pa.StructArray.from_arrays(columns, fields=list(DEAD_LETTER), mask=found["reason"].is_null())


def _first(headers: pa.ListArray, name: str) -> pa.Array:
    """The value of the first header of that name in each row, as text; null without one."""
    pairs = headers.flatten()
    is_wanted = pc.equal(pairs.field("key"), name)
    rows = pc.list_parent_indices(headers).filter(is_wanted)
    values = pairs.field("value").filter(is_wanted)
    places = pc.index_in(pa.array(range(len(headers)), rows.type), value_set=rows)
    return values.take(places)


def _as(found: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers and times where they are that, else null: anybody may publish to a dead-letter queue."""
    words = text(found)
    if pa.types.is_string(kind):
        return words
    number = pc.if_else(pc.match_substring_regex(words, _NUMBER), words, None).cast(pa.int64())
    if pa.types.is_timestamp(kind):
        is_there = pc.greater(number, 0)
        return pc.if_else(is_there, number, None).cast(_MILLISECONDS).cast(kind)
    return pc.if_else(pc.less(number, 1 << 31), number, None).cast(kind) if pa.types.is_int32(kind) else number
