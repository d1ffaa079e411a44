"""What happens to rows on their way: nothing, a query, or a function of Python."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.core.errors import InvalidArgument
from penstock.jobs.replay_plan import Place, ReplayPiece
from penstock.log.reading.extents import RowMap
from penstock.tables.schema import SCHEMA

_ROWS = 10_000

Batches = Iterator[pa.RecordBatch]


class ReplayTable(Protocol):
    """A queue that is read, by one thread: of a directory, or of a server."""

    def partitions(self) -> Sequence[Place]: ...
    def row_map(self, partition: int) -> RowMap: ...
    def offset_at_time(self, partition: int, timestamp_ms: int) -> int: ...
    def read(
        self, partition: int, start: int, stop: int, columns: Sequence[str], *, log: int | None = None
    ) -> Batches: ...
    def close(self) -> None: ...


class Transform(Protocol):
    def __call__(self, queue: str, open_table: Callable[[], ReplayTable], piece: ReplayPiece) -> Batches:
        """The rows that a piece of a queue makes."""
        ...


def unchanged(queue: str, open_table: Callable[[], ReplayTable], piece: ReplayPiece) -> Batches:
    table = open_table()
    try:
        yield from table.read(piece.partition, piece.start, piece.stop, SCHEMA.names, log=piece.log)
    finally:
        table.close()


@dataclass(frozen=True, slots=True)
class PythonTransform:
    """Called with batches that have all columns of a table; gives a batch, a table, several of them, or None."""

    function: Callable[[pa.RecordBatch], object]

    @classmethod
    def named(cls, name: str) -> PythonTransform:
        """`module:function`, found as Python finds modules, in the working directory too. InvalidArgument."""
        module, _, attribute = name.partition(":")
        if not module or not attribute:
            raise InvalidArgument(f"{name!r} is not a function: write it like my_module:my_function")
        if (here := os.getcwd()) not in sys.path:  # noqa: PTH109  # sys.path holds texts
            sys.path.insert(0, here)
        try:
            function = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise InvalidArgument(f"{name!r} cannot be found: {error}") from error
        if not callable(function):
            raise InvalidArgument(f"{name!r} is not a function, it is {type(function).__name__}")
        return cls(function)

    def __call__(self, queue: str, open_table: Callable[[], ReplayTable], piece: ReplayPiece) -> Batches:
        for batch in unchanged(queue, open_table, piece):
            yield from _batches(self.function(batch))


@dataclass(frozen=True, slots=True)
class SqlTransform:
    """A query over the queue by its name, asked for each piece by itself."""

    query: str
    as_bytes: bool = False

    def __call__(self, queue: str, open_table: Callable[[], ReplayTable], piece: ReplayPiece) -> Batches:
        from penstock.tables.sql.query import QueryOptions, asked

        options = QueryOptions(as_bytes=self.as_bytes, is_strict=True)
        with asked(_PieceSource(queue, open_table, piece), self.query, options) as answer:
            yield from answer.batches(_ROWS)


@dataclass(frozen=True, slots=True)
class _PieceSource:
    """The one queue, as if it had only the piece."""

    queue: str
    open: Callable[[], ReplayTable]
    piece: ReplayPiece

    def queues(self) -> list[str]:
        return [self.queue]

    def open_table(self, queue: str) -> _PieceTable:
        return _PieceTable(self.open(), self.piece)


@dataclass(frozen=True, slots=True)
class _PiecePlace:
    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _PieceTable:
    table: ReplayTable
    piece: ReplayPiece

    def partitions(self) -> list[_PiecePlace]:
        return [_PiecePlace(self.piece.partition, self.piece.start, self.piece.stop)]

    def offset_at_time(self, partition: int, timestamp_ms: int) -> int:
        return self.table.offset_at_time(partition, timestamp_ms)

    def read(self, partition: int, start: int, stop: int, columns: Sequence[str]) -> Batches:
        return self.table.read(partition, start, stop, columns, log=self.piece.log)

    def close(self) -> None:
        self.table.close()


def _batches(given: object) -> Batches:
    if given is None:
        return
    if isinstance(given, pa.RecordBatch):
        yield given
    elif isinstance(given, pa.Table):
        yield from given.to_batches(_ROWS)
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes | dict):
        for each in given:
            yield from _batches(each)
    else:
        raise InvalidArgument(
            f"the transform gave {type(given).__name__}: a record batch, a table, some of them, or None is wanted"
        )
