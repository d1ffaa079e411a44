"""A queue as DuckDB takes it: a dataset of Arrow that is asked for columns and a filter, and reads no more."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.core.errors import InvalidArgument
from penstock.tables.schema import SCHEMA
from penstock.tables.sql.bounds import ALL_TIMES_MS, FilterBounds, Interval

# Small ones first: DuckDB reads the first column when it only counts, and people look for the place of a row first.
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "topic", "headers", "queue", "timestampType")

_TEXT_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.string())]))
_TEXT_TYPES = {"key": pa.string(), "value": pa.string(), "headers": _TEXT_HEADERS}

BYTES_SCHEMA = pa.schema([SCHEMA.field(name) for name in COLUMNS])
TEXT_SCHEMA = pa.schema([pa.field(name, _TEXT_TYPES.get(name, SCHEMA.field(name).type)) for name in COLUMNS])
"""`key`, `value` and values of headers as text; a byte that is none is written as `\\xff`."""


class Shown(enum.Enum):
    """How keys, values and values of headers are shown."""

    TEXT = enum.auto()
    """bytes that are no text are escaped"""
    TEXT_ONLY = enum.auto()
    """bytes that are no text are an error"""
    BYTES = enum.auto()


class Place(Protocol):
    """What can be read of a partition."""

    @property
    def number(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


class Table(Protocol):
    """A queue, read by one thread at a time: `penstock.tables.table.QueueTable`, or one of a server."""

    def partitions(self) -> Sequence[Place]: ...
    def offset_at_time(self, partition: int, timestamp_ms: int) -> int: ...
    def read(self, partition: int, start: int, stop: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ReadRange:
    partition: int
    start: int
    stop: int


class Scan:
    """As DuckDB wants the scanner of a dataset to be."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def to_reader(self) -> pa.RecordBatchReader:
        return self._reader


class QueueDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow ships no types
    """Ends where the queue did when it was first looked at, however often it is scanned. A scan opens a table of its
    own, so that several may go on at a time."""

    def __init__(self, queue: str, open_table: Callable[[], Table], shown: Shown = Shown.TEXT) -> None:
        self._queue, self._open_table, self._shown = queue, open_table, shown
        self._places: list[Place] | None = None
        self.failure: Exception | None = None
        """what ended a scan early; DuckDB passes its text on, and not itself"""
        self.read_ranges: list[ReadRange] = []
        """of all scans; for explanations and tests"""

    @property
    def schema(self) -> pa.Schema:
        return BYTES_SCHEMA if self._shown is Shown.BYTES else TEXT_SCHEMA

    def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: object) -> Scan:
        """Named and called as pyarrow's own, by DuckDB."""
        names = self.schema.names if columns is None else list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        return Scan(pa.RecordBatchReader.from_batches(schema, self._batches(names, filter)))

    def _batches(self, names: list[str], expression: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._read(names, expression)
        except Exception as error:
            self.failure = error
            raise

    def _read(self, names: list[str], expression: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        bounds = FilterBounds(expression, self.schema, self._queue)
        wanted = list(dict.fromkeys([*names, *bounds.columns]))
        table = self._open_table()
        try:
            for each in self._ranges(table, bounds):
                self.read_ranges.append(each)
                for batch in table.read(each.partition, each.start, each.stop, wanted):
                    shown = batch if self._shown is Shown.BYTES else as_text(batch, self._shown is Shown.TEXT_ONLY)
                    kept = shown if expression is None else shown.filter(expression)
                    yield kept.select(names)
        finally:
            table.close()

    def _ranges(self, table: Table, bounds: FilterBounds) -> list[ReadRange]:
        """Those with rows that the filter may let through."""
        if self._places is None:
            self._places = list(table.partitions())
        times = bounds.times_ms()
        found: list[ReadRange] = []
        for place in self._places:
            if not bounds.may_have(place.number):
                continue
            start, stop = _within_times(table, place, times)
            offsets = bounds.offsets(place.number, start, stop)
            if offsets.start < offsets.until:
                found.append(ReadRange(place.number, offsets.start, offsets.until))
        return found


def _within_times(table: Table, place: Place, times: Interval) -> tuple[int, int]:
    """Offsets. A bound that is none is not looked up: it may have to be asked for over a network."""
    start, stop = place.start, place.end
    if times.start > ALL_TIMES_MS.start:
        start = max(start, table.offset_at_time(place.number, times.start))
    if times.until < ALL_TIMES_MS.until:
        stop = min(stop, table.offset_at_time(place.number, times.until))
    return start, stop


def as_text(batch: pa.RecordBatch, is_strict: bool = False) -> pa.RecordBatch:
    """With TEXT_SCHEMA's types in place of SCHEMA's. If it is strict, InvalidArgument for bytes that are no text."""
    names = batch.schema.names
    try:
        arrays = [_TEXTS.get(name, _unchanged)(column) for name, column in zip(names, batch.columns, strict=True)]
    except pa.ArrowInvalid:
        if is_strict:
            raise InvalidArgument(
                "a key, value or header is not UTF-8, and would not stay as it is: use --bytes"
            ) from None
        arrays = [_ESCAPED.get(name, _unchanged)(column) for name, column in zip(names, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([TEXT_SCHEMA.field(name) for name in names]))


def _unchanged(column: pa.Array) -> pa.Array:
    return column


def _text(column: pa.Array) -> pa.Array:
    """ArrowInvalid for bytes that are none."""
    return column.cast(pa.string())


def _escaped(column: pa.Array) -> pa.Array:
    """Not a byte is lost, unlike with replacement characters: what people see is what they may search for."""
    texts = [None if data is None else data.decode(errors="backslashreplace") for data in column.to_pylist()]
    return pa.array(texts, pa.string())


def _headers(make: Callable[[pa.Array], pa.Array], column: pa.Array) -> pa.Array:
    pairs = column.flatten()
    texts = pa.StructArray.from_arrays([pairs.field("key"), make(pairs.field("value"))], names=["key", "value"])
    # flatten() begins at the first list that is seen: places counted from there.
    places = pc.subtract(column.offsets, column.offsets[0]) if len(column) else column.offsets
    return pa.ListArray.from_arrays(places, texts).cast(_TEXT_HEADERS)


_Maker = Callable[[pa.Array], pa.Array]
_TEXTS: dict[str, _Maker] = {"key": _text, "value": _text, "headers": partial(_headers, _text)}
_ESCAPED: dict[str, _Maker] = {"key": _escaped, "value": _escaped, "headers": partial(_headers, _escaped)}
