"""Record batches that somebody sends, as the columns that a log stores: checked, in Arrow's own calls."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import InvalidArgument, TooLarge
from penstock.kernels import headers as kernel
from penstock.kernels.topics import check_topic
from penstock.log.reading.arrow_encoding import ArrowColumns, places_of
from penstock.log.view import check_native
from penstock.tables.nulls import marked
from penstock.tables.schema import HEADERS

COLUMNS = ("value", "key", "topic", "headers", "partition", "native")
"""that a stream may have; only `value` has to be there"""

_BINARY, _STRING, _INT32 = pa.binary(), pa.string(), pa.int32()
_NO_HEADERS = pa.scalar([], HEADERS)


def check_columns(schema: pa.Schema) -> None:
    """InvalidArgument that names the column which cannot be stored."""
    for field in schema:
        if field.name not in COLUMNS:
            raise InvalidArgument(f"no column {field.name[:80]!r} can be stored: there are {', '.join(COLUMNS)}")
        if schema.names.count(field.name) > 1:
            raise InvalidArgument(f"column {field.name!r} is given twice")
        if not _IS_TYPE[field.name](field.type):
            wanted = _WANTED.get(field.name, "binary or text")
            raise InvalidArgument(f"column {field.name!r} is {str(field.type)[:80]}: it has to be {wanted}")
    if "value" not in schema.names:
        raise InvalidArgument("the column 'value' is missing: rows need at least that")


def columns_of(batch: pa.RecordBatch, limit_bytes: int = 1 << 31) -> ArrowColumns:
    """Of a batch whose schema was checked. InvalidArgument for what cannot be stored, TooLarge where the bytes of a
    column are more than that once they stand beside each other."""
    try:
        batch.validate(full=True)
        for column in batch.columns:
            if (size := _expanded_bytes(column)) > limit_bytes:
                raise TooLarge("a column of the record batch", size, limit_bytes)
        values = _as_binary(batch.column("value"))
        return ArrowColumns(
            _filled(values),
            _if_any(batch, "key", _binary),
            _if_any(batch, "topic", _topics),
            marked(values, _if_any(batch, "headers", _properties)),
            _if_any(batch, "native", _native),
        )
    except pa.ArrowException as error:
        raise InvalidArgument(f"the batch cannot be read: {str(error)[:200]}") from None


def _expanded_bytes(column: pa.Array) -> int:
    """Of a column whose rows may name the same bytes many times; 0 for others, which are as large as they look."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(column.dictionary.cast(pa.large_binary())).take(column.indices)
    elif pa.types.is_binary_view(kind) or pa.types.is_string_view(kind):
        # A view is 16 bytes, of which the first four are its length.
        words = pa.Array.from_buffers(_INT32, 4 * (column.offset + len(column)), [None, column.buffers()[1]])
        lengths = pc.list_element(pa.FixedSizeListArray.from_arrays(words, 4), 0)
    else:
        return 0
    return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)


def partitions_of(batch: pa.RecordBatch, count: int) -> pa.Array | None:
    """Of each row the partition that it asks for, int32 and null for none; None without any. InvalidArgument for one of
    which there is none among `count`."""
    if "partition" not in batch.schema.names or batch.column("partition").null_count == batch.num_rows:
        return None
    column = batch.column("partition")
    extremes = pc.min_max(column)
    for wanted in (extremes["min"].as_py(), extremes["max"].as_py()):
        if not 0 <= wanted < count:
            raise InvalidArgument(f"there is no partition {wanted}, the queue has {count}")
    return column.cast(_INT32)


def _if_any(batch: pa.RecordBatch, name: str, make: Callable[[pa.Array], pa.Array]) -> pa.Array | None:
    """None for a column that is not there, or empty in every row."""
    if name not in batch.schema.names or batch.column(name).null_count == batch.num_rows:
        return None
    column = make(batch.column(name))
    places = places_of(column)
    return column if places[len(column)] > places[0] else None


def _binary(column: pa.Array) -> pa.Array:
    return _filled(_as_binary(column))


def _as_binary(column: pa.Array) -> pa.Array:
    return column if column.type == _BINARY else column.cast(_BINARY)


def _filled(column: pa.Array) -> pa.Array:
    return pc.fill_null(column, b"") if column.null_count else column


def _topics(column: pa.Array) -> pa.Array:
    """There are few different ones: only these are looked at."""
    topics = _binary(column)
    for topic in pc.unique(topics).to_pylist():
        if topic:
            check_topic(_text(topic))
    return topics


def _text(topic: bytes) -> bytes:
    try:
        topic.decode()
    except UnicodeDecodeError:
        raise InvalidArgument(f"a topic is not UTF-8: {topic[:80]!r}") from None
    return topic


def _properties(column: pa.Array) -> pa.Array:
    lists = column if column.type == HEADERS else column.cast(HEADERS)
    lists = pc.fill_null(lists, _NO_HEADERS) if lists.null_count else lists
    pairs = lists.values
    names, values = (_header_texts(pairs.field(number)) for number in (0, 1))
    if pairs.null_count or pairs.field(0).null_count:
        raise InvalidArgument("a header has no name")
    places = memoryview(lists.offsets.buffers()[1]).cast("B").cast("i")[lists.offsets.offset :][: len(lists) + 1]
    first, stop = places[0], places[len(lists)]
    name_places, value_places = places_of(names), places_of(values)
    size = 5 * (stop - first) + name_places[stop] - name_places[first] + value_places[stop] - value_places[first]
    ends, out = array("i", bytes(4 * (len(lists) + 1))), bytearray(size)
    kernel.pack(places, name_places, _data(names), value_places, _data(values), ends, out)
    return pa.Array.from_buffers(_BINARY, len(lists), [None, pa.py_buffer(ends), pa.py_buffer(out)])


def _native(column: pa.Array) -> pa.Array:
    """Of rows that were read from a queue, so that what came by AMQP goes out again as it came."""
    entries = _binary(column)
    places = places_of(entries)
    check_native(_data(entries), places[:-1], places[1:])
    return entries


def _header_texts(column: pa.Array) -> pa.Array:
    """Every protocol gives headers out, and MQTT can have text only."""
    filled = pc.fill_null(column, b"" if column.type == _BINARY else "") if column.null_count else column
    try:
        return filled.cast(_STRING).cast(_BINARY)
    except pa.ArrowInvalid:
        raise InvalidArgument("a header's value is not UTF-8: write it as text, as base64 for example") from None


def _data(column: pa.Array) -> memoryview:
    data = column.buffers()[2]
    return memoryview(b"" if data is None else data).cast("B")


def _is_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_plain_bytes(kind.value_type)
    return bool(_is_plain_bytes(kind) or pa.types.is_binary_view(kind) or pa.types.is_string_view(kind))


def _is_plain_bytes(kind: pa.DataType) -> bool:
    is_large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    return bool(is_large or pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_fixed_size_binary(kind))


def _is_headers(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _is_plain_bytes(kind.key_type) and _is_plain_bytes(kind.item_type)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not pa.types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return set(fields) == {"key", "value"} and all(_is_plain_bytes(each) for each in fields.values())


_IS_TYPE = {
    "value": _is_bytes,
    "key": _is_bytes,
    "topic": _is_bytes,
    "native": _is_bytes,
    "headers": _is_headers,
    "partition": pa.types.is_integer,
}
_WANTED = {"headers": "a list of structs with key and value, or a map of these", "partition": "an integer"}
