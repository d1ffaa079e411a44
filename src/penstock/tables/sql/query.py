"""One query over queues: DuckDB plans and computes, the queues that it names are its tables."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.tables.sql.errors import SqlNotInstalled

try:
    import duckdb

    from penstock.tables.sql.catalogue import Catalogue, Source
    from penstock.tables.sql.dataset import ReadRange, Shown
except ModuleNotFoundError as error:
    if error.name not in ("duckdb", "pyarrow"):
        raise
    raise SqlNotInstalled from None

if TYPE_CHECKING:
    import pyarrow as pa

# A question beside a broker must not take its memory; what needs more goes through files of the temporary directory.
MEMORY_BYTES = 1 << 30
_FETCH_ROWS = 1_000

_PREPARATION = (
    "set timezone = 'UTC'",
    "create temp macro header(headers, name) as list_filter(headers, lambda pair: pair.key = name)[1].value",
)


@dataclass(frozen=True, slots=True)
class QueryOptions:
    memory_bytes: int = MEMORY_BYTES
    as_bytes: bool = False
    """`key`, `value` and values of headers as BLOB in place of text"""
    is_strict: bool = False
    """bytes that are no text are an error, in place of an escape"""


class Answer:
    """Columns, and rows as they are computed; a reader of it may stop at any time. All of it may raise SqlFailed, and
    what reading a queue may raise."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: str, catalogue: Catalogue) -> None:
        self._connection, self._query, self._catalogue = connection, query, catalogue

    @cached_property
    def _result(self) -> duckdb.DuckDBPyConnection:
        with self._catalogue.errors_told():
            return self._connection.execute(self._query)

    @property
    def columns(self) -> list[str]:
        return [str(column[0]) for column in self._result.description or ()]

    def rows(self) -> Iterator[tuple[object, ...]]:
        while True:
            with self._catalogue.errors_told():
                found = self._result.fetchmany(_FETCH_ROWS)
            if not found:
                return
            yield from found

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """The same as Arrow, in pieces of about so many rows; in place of rows(), not beside it."""
        with self._catalogue.errors_told():
            relation = self._connection.sql(self._query)
            if relation is None:
                return
            reader: pa.RecordBatchReader = relation.to_arrow_reader(rows)
        while True:
            with self._catalogue.errors_told():
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch

    @property
    def read_ranges(self) -> dict[str, list[ReadRange]]:
        """By queue: what had to be read so far."""
        return {queue: dataset.read_ranges for queue, dataset in self._catalogue.datasets.items()}


@contextmanager
def asked(source: Source, query: str, options: QueryOptions | None = None) -> Iterator[Answer]:
    """The answer to one statement, good inside the block. Asking for it is what runs it; SqlFailed for one that is
    wrong, or that names a table which is neither a queue nor a file."""
    options = options or QueryOptions()
    with tempfile.TemporaryDirectory(prefix="penstock-sql-") as scratch, _connected(scratch, options) as connection:
        shown = Shown.BYTES if options.as_bytes else Shown.TEXT_ONLY if options.is_strict else Shown.TEXT
        catalogue = Catalogue(source, connection, query, shown)
        with catalogue.errors_told():
            catalogue.register()
        yield Answer(connection, query, catalogue)


@contextmanager
def _connected(scratch: str, options: QueryOptions) -> Iterator[duckdb.DuckDBPyConnection]:
    """Nothing is fetched from a network behind the user's back, and no variable of Python is a table."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{max(1, options.memory_bytes >> 10)}KiB",
        "temp_directory": scratch,
        "autoinstall_known_extensions": "false",
        "python_enable_replacements": "false",
    }
    connection = duckdb.connect(config=settings)
    try:
        for statement in _PREPARATION:
            connection.execute(statement)
        yield connection
    finally:
        connection.close()
