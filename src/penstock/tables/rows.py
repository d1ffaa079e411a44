"""Stored columns as columns of a table: wrapped where they can be, computed by Arrow where not; no object per row."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.queue_paths import queue_topic
from penstock.kernels import headers as kernel
from penstock.tables.letters import dead_letters
from penstock.tables.nulls import has_empty, with_nulls, without_marks
from penstock.tables.schema import HEADERS, SCHEMA, projected
from penstock.tables.text import text

STORED = {
    "key": "key",
    "value": "value",
    "topic": "topic",
    "offset": "offset",
    "timestamp": "timestamp",
    "headers": "properties",
    "deadLetter": "properties",
    "native": "native",
}
"""Which column of log/arrow.py a column is made from, of which `properties` are as readers see them; others are the
same in all rows."""

_TIMESTAMP = SCHEMA.field("timestamp").type


class RowMaker:
    """Of one partition and one choice of columns."""

    def __init__(self, queue: str, partition: int, columns: Sequence[str] | None, batch_rows: int) -> None:
        """InvalidArgument for unknown columns."""
        self.schema = projected(columns)
        names = self.schema.names
        self.stored = list(dict.fromkeys(STORED[name] for name in names if name in STORED)) or ["offset"]
        address = queue_topic(queue)
        self._address = pa.scalar(address.encode(), pa.binary())
        self._own_topic = pa.repeat(pa.scalar(address, pa.string()), batch_rows)
        constants = {"queue": queue, "partition": partition, "timestampType": 0}
        self._constants = {
            name: pa.repeat(pa.scalar(value, SCHEMA.field(name).type), batch_rows)
            for name, value in constants.items()
            if name in names
        }
        self._makers: dict[str, Callable[[pa.Array], pa.Array]] = {
            "key": null_if_empty,
            "native": null_if_empty,
            "topic": self._topics,
            "timestamp": lambda stored: stored.cast(_TIMESTAMP),
            "headers": headers,
            "deadLetter": lambda stored: dead_letters(headers(stored)),
        }

    def lacks_properties(self, stored: pa.RecordBatch) -> bool:
        """Whether rows() has to have that column too: it tells which of the empty values are null."""
        names = stored.schema.names
        return "value" in names and "properties" not in names and has_empty(stored.column("value"))

    def rows(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """From the columns `stored`, of at most `batch_rows` rows; also from `properties` where lacks_properties()."""
        arrays = [self._column(name, stored) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, name: str, stored: pa.RecordBatch) -> pa.Array:
        if (constant := self._constants.get(name)) is not None:
            return constant.slice(0, stored.num_rows)
        column = stored.column(STORED[name])
        if name == "value" and "properties" in stored.schema.names:
            return with_nulls(column, stored.column("properties"))
        maker = self._makers.get(name)
        return column if maker is None else maker(column)

    def _topics(self, stored: pa.DictionaryArray) -> pa.Array:
        """There are few different ones: only these are looked at. Where no row has one, the queue's own is there."""
        names = stored.dictionary
        if len(names) == 1 and not names[0].as_py():
            return self._own_topic.slice(0, len(stored))
        named = pc.if_else(pc.equal(pc.binary_length(names), 0), self._address, names)
        return text(named).take(stored.indices)


def null_if_empty(column: pa.Array) -> pa.Array:
    """The same bytes, with a bitmap in front."""
    lengths = pc.binary_length(column)
    if pc.min(lengths).as_py() != 0:
        return column
    is_there = pc.not_equal(lengths, 0)
    nulls = len(column) - pc.sum(is_there).as_py()
    if column.offset:
        return pc.if_else(is_there, column, None)
    _, places, data = column.buffers()
    return pa.Array.from_buffers(column.type, len(column), [is_there.buffers()[1], places, data], nulls)


def headers(properties: pa.Array) -> pa.Array:
    if not (count := len(properties)):
        return pa.array([], HEADERS)
    _, places_buffer, data_buffer = properties.buffers()
    places = memoryview(places_buffer).cast("b").cast("i")[properties.offset : properties.offset + count + 1]
    data = b"" if data_buffer is None else memoryview(data_buffer).cast("B")
    sizes = array("q", [0, 0])
    found = kernel.measure(data, places, sizes)
    lists, name_ends, value_ends = (array("i", bytes(4 * (size + 1))) for size in (count, found, found))
    names, values = bytearray(sizes[0]), bytearray(sizes[1])
    kernel.fill(data, places, lists, name_ends, names, value_ends, values)
    pairs = pa.StructArray.from_arrays(
        [text(_binary(found, name_ends, names)), _binary(found, value_ends, values)], fields=list(HEADERS.value_type)
    )
    places = pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(lists)])
    return without_marks(pa.ListArray.from_arrays(places, pairs))


def _binary(count: int, ends: array[int], data: bytearray) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)])
