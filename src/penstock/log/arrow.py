"""A batch as a pyarrow.RecordBatch: the columns on disk are Arrow's own layout, so reading wraps buffers.

Nothing is null: a field that a record does not have is empty, its expiry 0, as in the batch itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.log.batch import EXPIRY, KEY, NATIVE, PROPERTIES, TOPIC, VALUE, Batch, read_body

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("reading batches as Arrow needs pyarrow: pip install 'penstock[arrow]'") from error

_BINARY, _INT32, _INT64, _TIMESTAMP = pa.binary(), pa.int32(), pa.int64(), pa.timestamp("ms", "UTC")

SCHEMA = pa.schema(
    [
        pa.field("offset", _INT64, nullable=False),
        pa.field("timestamp", _TIMESTAMP, nullable=False),
        pa.field("key", _BINARY, nullable=False),
        pa.field("value", _BINARY, nullable=False),
        pa.field("topic", pa.dictionary(_INT32, _BINARY), nullable=False),
        pa.field("properties", _BINARY, nullable=False),
        pa.field("native", _BINARY, nullable=False),
        pa.field("expiry", _INT64, nullable=False),
    ]
)
"""`expiry` is ms since 1970, 0 for never; `topic` is bytes, as publishers may send any."""


def record_batch(data: Buffer, columns: Sequence[str] | None = None, verify: bool = True) -> pa.RecordBatch:
    """table() of one batch."""
    return _wrap([data], picked(columns), verify).read_next_batch()


def table(batches: Iterable[Buffer], columns: Sequence[str] | None = None, verify: bool = True) -> pa.Table:
    """The named columns of batches (all of SCHEMA if None), a chunk each; without rows where there is no batch. What is
    stored uncompressed is not copied: the result keeps those buffers alive, which must not change. CorruptBatch as for
    Batch.parse; verify=False skips the checksums."""
    return _wrap(list(batches), picked(columns), verify).read_all()


class Picked(NamedTuple):
    """Columns of SCHEMA, by their numbers there."""

    numbers: bytes
    schema: pa.Schema


def picked(columns: Sequence[str] | None) -> Picked:
    """All of SCHEMA if None. InvalidArgument for a name that is not there."""
    return _EVERY if columns is None else _named(tuple(columns))


@lru_cache
def _named(names: tuple[str, ...]) -> Picked:
    if unknown := [name for name in names if name not in SCHEMA.names]:
        raise InvalidArgument(f"no column {unknown[0]!r}; there are {', '.join(SCHEMA.names)}")
    return Picked(bytes(map(SCHEMA.names.index, names)), pa.schema([SCHEMA.field(name) for name in names]))


_EVERY = Picked(bytes(range(len(SCHEMA))), SCHEMA)


def wrap_natively(batches: list[Buffer], columns: Picked, verify: bool) -> pa.RecordBatchReader:
    """By the Arrow C stream interface: nothing in Python is done for each batch."""
    exported = _arrow.Exported(batches, columns.numbers, columns.schema, verify, read_body)
    return pa.RecordBatchReader.from_stream(exported)


def wrap_plainly(batches: list[Buffer], columns: Picked, verify: bool) -> pa.RecordBatchReader:
    """An array at a time, for installations without a compiler."""
    wrapped = []
    for data in batches:
        batch = Batch.parse(data, verify)
        arrays = [_COLUMNS[number](batch) for number in columns.numbers]
        wrapped.append(pa.RecordBatch.from_arrays(arrays, schema=columns.schema))
    return pa.RecordBatchReader.from_batches(columns.schema, wrapped)


def _fixed(kind: pa.DataType, count: int, values: object) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)])


def _var(batch: Batch, flag: int) -> pa.Array:
    entries, offsets, data = batch.var_column(flag) or (len(batch), bytes(4 * len(batch) + 4), b"")
    return pa.Array.from_buffers(_BINARY, entries, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _expiry(batch: Batch) -> pa.Array:
    return _fixed(_INT64, len(batch), batch.fixed_column(EXPIRY) or bytes(8 * len(batch)))


def _topic(batch: Batch) -> pa.Array:
    index = batch.fixed_column(TOPIC)
    if index is None:
        names, index_bytes = pa.array([b""], _BINARY), bytes(4 * len(batch))
        return pa.DictionaryArray.from_arrays(_fixed(_INT32, len(batch), index_bytes), names)
    return pa.DictionaryArray.from_arrays(_fixed(_INT32, len(batch), index), _var(batch, TOPIC), safe=False)


_COLUMNS: tuple[Callable[[Batch], pa.Array], ...] = (
    lambda batch: _fixed(_INT64, len(batch), batch.offsets()),
    lambda batch: _fixed(_TIMESTAMP, len(batch), batch.timestamps()),
    lambda batch: _var(batch, KEY),
    lambda batch: _var(batch, VALUE),
    _topic,
    lambda batch: _var(batch, PROPERTIES),
    lambda batch: _var(batch, NATIVE),
    _expiry,
)
"""In the order of SCHEMA."""

try:
    from penstock.kernels import _arrow

    _wrap = wrap_natively
except ImportError:
    _wrap = wrap_plainly
