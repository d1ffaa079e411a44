"""Null values in columns: a null is an empty value whose message says so, by a property."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.queues.properties import NULL_VALUE, encode_user_properties

_MARK = encode_user_properties([(NULL_VALUE, "1")])
# Type, length and name of the property: it has a NUL in it, which no text has, so that it is not found in a value.
_MARK_BEGINS = _MARK[: 3 + len(NULL_VALUE)].decode("latin-1")
_BINARY = pa.binary()


def marked(values: pa.Array, properties: pa.Array | None) -> pa.Array | None:
    """The properties of messages with these values, which say of the null ones that they are. Binary arrays."""
    if not values.null_count:
        return properties
    marks = pc.if_else(values.is_null(), pa.scalar(_MARK, _BINARY), pa.scalar(b"", _BINARY))
    return marks if properties is None else pc.binary_join_element_wise(marks, properties, pa.scalar(b"", _BINARY))


def has_empty(values: pa.Array) -> bool:
    """Only these can be null."""
    return len(values) > 0 and pc.min(pc.binary_length(values)).as_py() == 0


def with_nulls(values: pa.Array, properties: pa.Array) -> pa.Array:
    """The values, null where they are empty and their messages say so."""
    is_marked = pc.match_substring(properties, _MARK_BEGINS)
    if not pc.any(is_marked).as_py():
        return values
    is_null = pc.and_(is_marked, pc.equal(pc.binary_length(values), 0))
    return pc.if_else(is_null, pa.scalar(None, _BINARY), values)


def without_marks(headers: pa.ListArray) -> pa.ListArray:
    """Headers as users gave them: what says that a value is null is in the value."""
    pairs = headers.flatten()
    is_kept = pc.not_equal(pairs.field("key"), NULL_VALUE)
    if pc.all(is_kept).as_py() in (True, None):
        return headers
    kept_before = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(is_kept.cast(pa.int32()))])
    first = headers.offsets[0]
    places = kept_before.take(pc.subtract(headers.offsets, first))
    return pa.ListArray.from_arrays(places, pairs.filter(is_kept))
