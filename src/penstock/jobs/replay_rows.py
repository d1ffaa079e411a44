"""Rows on their way into a queue again: what a transform gave, checked, with the place they come from in a header."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import InvalidArgument
from penstock.jobs.replay_plan import ReplayPiece
from penstock.queues import deadletter
from penstock.tables.schema import HEADERS, SCHEMA

REPLAYED_FROM = "replayed-from"
"""queue:partition:offset; of a row that does not say its offset, queue:partition:start-stop of its piece"""

OUTGOING = pa.schema([SCHEMA.field(name) for name in ("value", "key", "topic", "headers", "native")])

_KNOWN = frozenset(SCHEMA.names)
_DROPPED = frozenset({REPLAYED_FROM, *deadletter.FACTS, deadletter.REDRIVEN_FROM, deadletter.REDRIVE_GROUP})
_NO_HEADERS = pa.scalar([], HEADERS)


def outgoing(batch: pa.RecordBatch, queue: str, piece: ReplayPiece) -> pa.RecordBatch:
    """With the columns OUTGOING, of rows that were made from a piece of a queue: a batch with `value`, and any other
    column of a queue's table. InvalidArgument names the column that is missing, unknown, or of another type."""
    unknown = [name for name in batch.schema.names if name not in _KNOWN]
    if unknown or "value" not in batch.schema.names:
        what = f"has a column {unknown[0]!r}" if unknown else "has no column value"
        raise InvalidArgument(
            f"what the transform gives {what}: it may have {', '.join(SCHEMA.names)}, and needs value"
        )
    names, nulls = batch.schema.names, pa.nulls
    given = batch.column("headers") if "headers" in names else nulls(batch.num_rows, HEADERS)
    columns = [
        _bytes("value", batch.column("value")),
        _bytes("key", batch.column("key") if "key" in names else nulls(batch.num_rows)),
        _topic(batch.column("topic") if "topic" in names else nulls(batch.num_rows)),
        with_header(_headers(given), REPLAYED_FROM, _places(batch, queue, piece), _DROPPED),
        _bytes("native", batch.column("native") if "native" in names else nulls(batch.num_rows)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=OUTGOING)


def with_header(headers: pa.Array, name: str, values: pa.Array, dropped: Collection[str]) -> pa.Array:
    """One more in each row, behind those that are not dropped."""
    count, pairs = len(headers), headers.flatten()
    is_kept = pc.invert(pc.is_in(pairs.field("key"), pa.array(sorted(dropped))))
    parents = pc.list_parent_indices(headers).cast(pa.int64()).filter(is_kept)
    kept = pairs.filter(is_kept)
    rows = pa.concat_arrays([parents, pa.array(range(count), pa.int64())])
    keys = pa.concat_arrays([kept.field("key"), pa.repeat(pa.scalar(name), count)])
    texts = pa.concat_arrays([kept.field("value"), values.cast(pa.binary())])
    order = pc.sort_indices(rows)  # stable: those of a row stay in their order
    both = pa.StructArray.from_arrays([keys.take(order), texts.take(order)], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(_starts(rows, count), both, type=HEADERS)


def _starts(rows: pa.Array, count: int) -> pa.Array:
    """Where the pairs of each row begin, and where the last ones end. Every row has at least one."""
    sizes = pc.value_counts(rows)
    by_row = sizes.field("counts").take(pc.sort_indices(sizes.field("values")))
    ends = pc.cumulative_sum(by_row).cast(pa.int32()) if count else pa.array([], pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


def _places(batch: pa.RecordBatch, queue: str, piece: ReplayPiece) -> pa.Array:
    place = f"{queue}:{piece.partition}:"
    if "offset" not in batch.schema.names:
        return pa.repeat(pa.scalar(f"{place}{piece.start}-{piece.stop}"), batch.num_rows)
    if not pa.types.is_integer(batch.column("offset").type):
        raise InvalidArgument(f"the transform's column offset is {batch.column('offset').type}, not a whole number")
    offsets = batch.column("offset").cast(pa.string()).fill_null(f"{piece.start}-{piece.stop}")
    return pc.binary_join_element_wise(place, offsets, "")


def _bytes(name: str, column: pa.Array) -> pa.Array:
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    kind = plain.type.value_type if pa.types.is_dictionary(plain.type) else plain.type
    if pa.types.is_null(kind):
        return plain.cast(pa.binary())
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    if not is_text and not is_bytes:
        raise InvalidArgument(f"the transform's column {name} is {kind}, not text or bytes: cast it, like {name}::text")
    return plain.cast(pa.binary())


def _topic(column: pa.Array) -> pa.Array:
    """An address of the queue that it comes from is none of the one that it goes to."""
    texts = column.cast(pa.string())
    return pc.if_else(pc.starts_with(texts, "$"), pa.scalar(None, pa.string()), texts)


def _headers(column: pa.Array) -> pa.Array:
    try:
        lists = column.cast(HEADERS)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"the transform's column headers is {column.type}, not {HEADERS}: {error}") from error
    return lists.fill_null(_NO_HEADERS) if lists.null_count else lists
