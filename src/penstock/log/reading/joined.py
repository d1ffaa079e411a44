"""Neighbouring batches as one pyarrow.RecordBatch: many small ones cost less to copy than to make an array of each."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.core.ports import Buffer
from penstock.kernels import joined as kernel
from penstock.log.arrow import picked
from penstock.log.batch import read_body
from penstock.log.header import COMPRESSION_AT

_LAYOUT_BYTES = 16 * 8
_TWO_ZEROS = memoryview(array("i", [0, 0]))
_KEYS, _PROPERTIES, _NATIVE, _VALUES, _TOPICS, _TOPIC_COUNT, _SIZES = range(7)
_TIMESTAMP_WORD, _OFFSET_WORD, _KEY_WORD = 0, 1, 7
_BASE_OFFSET_AT, _BASE_TIMESTAMP_AT = 8, 32


def join(batches: list[Buffer], columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """The named columns of log/arrow.py's SCHEMA, all if None. Checksums were looked at. CorruptBatch for bodies that
    are not what their headers say; together they must be below 2 GiB, uncompressed."""
    chosen, source = picked(columns), _Source(batches)
    arrays = [source.column(name, kind) for name, kind in zip(chosen.schema.names, chosen.schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=chosen.schema)


class _Source:
    def __init__(self, batches: list[Buffer]) -> None:
        self._batches = batches
        self._bodies: list[Buffer] = [read_body(data) if data[COMPRESSION_AT] else data for data in batches]
        self._layouts = memoryview(bytearray(_LAYOUT_BYTES * len(batches))).cast("q")
        self._sizes = array("q", bytes(8 * _SIZES))
        self.rows = kernel.lay_out(batches, self._bodies, self._layouts, self._sizes)

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        if (size_index := _VARIABLE.get(name)) is not None:
            return self._variable(size_index)
        made = _OTHERS[name](self)
        return made if isinstance(made, pa.Array) else pa.Array.from_buffers(kind, self.rows, [None, made])

    def offsets(self) -> pa.Buffer:
        return self._sums(_OFFSET_WORD, _BASE_OFFSET_AT, 1)

    def timestamps(self) -> pa.Buffer:
        return self._sums(_TIMESTAMP_WORD, _BASE_TIMESTAMP_AT, 0)

    def expiry(self) -> pa.Buffer:
        out = bytearray(8 * self.rows)
        kernel.join_expiry(self._bodies, self._layouts, out)
        return pa.py_buffer(out)

    def topics(self) -> pa.DictionaryArray:
        count = self._sizes[_TOPIC_COUNT] + 1
        numbers, places, names = _Room(4 * self.rows), _Room(4 * (count + 1)), _Room(self._sizes[_TOPICS])
        places.int32[:2] = _TWO_ZEROS
        kernel.join_topics(self._bodies, self._layouts, numbers.int32, places.int32, names.bytes)
        index = pa.Array.from_buffers(pa.int32(), self.rows, [None, numbers.buffer])
        return pa.DictionaryArray.from_arrays(index, _binary(count, places, names), safe=False)

    def _sums(self, word: int, base_at: int, step: int) -> pa.Buffer:
        out = _Room(8 * self.rows)
        kernel.join_sums(self._batches, self._bodies, self._layouts, word, base_at, step, out.bytes.cast("q"))
        return out.buffer

    def _variable(self, size_index: int) -> pa.Array:
        places, data = _Room(4 * (self.rows + 1)), _Room(self._sizes[size_index])
        places.int32[0] = 0
        kernel.join_var(self._bodies, self._layouts, _KEY_WORD + 2 * size_index, places.int32, data.bytes)
        return _binary(self.rows, places, data)


class _Room:
    """Memory of Arrow's pool, which gives again what it has: new memory costs more than what is written to it. It comes
    in with anything in it."""

    def __init__(self, size_bytes: int) -> None:
        self.buffer = pa.allocate_buffer(size_bytes)
        self.bytes = memoryview(self.buffer).cast("B")

    @property
    def int32(self) -> memoryview:
        return self.bytes.cast("i")


def _binary(count: int, places: _Room, data: _Room) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), count, [None, places.buffer, data.buffer])


_VARIABLE = {"key": _KEYS, "properties": _PROPERTIES, "native": _NATIVE, "value": _VALUES}
_OTHERS: dict[str, Callable[[_Source], pa.Buffer | pa.Array]] = {
    "offset": _Source.offsets,
    "timestamp": _Source.timestamps,
    "expiry": _Source.expiry,
    "topic": _Source.topics,
}
