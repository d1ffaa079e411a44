"""Rows of queues as pieces of a job: ranges of offsets of one partition, read where the piece is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.queues.names import DEFAULT_NAMESPACE
from penstock.tables.table import Partition, QueueTable, TableDirectory

# About two seconds of work: cores are filled evenly, and a piece that is lost costs no more than that.
SPLIT_ROWS = 2_000_000


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Rows that are not older than `since_ms` and older than `until_ms` (ms since 1970); None: no bound."""

    since_ms: int | None = None
    until_ms: int | None = None


ALL_TIMES = TimeSpan()


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Offsets start..stop of a partition, not including `stop`; `rows` and `size_bytes` are estimates."""

    directory: str
    namespace: str
    queue: str
    partition: int
    start: int
    stop: int
    rows: int
    size_bytes: int = 0

    def read(self, columns: Sequence[str] | None = None, *, skip_trimmed: bool = False) -> Iterator[pa.RecordBatch]:
        """As QueueTable.read() gives them, with its errors."""
        with closing(QueueTable.open(Path(self.directory), self.queue, self.namespace)) as table:
            yield from table.read(self.partition, self.start, self.stop, columns, skip_trimmed=skip_trimmed)


def plan_queue(
    directory: Path,
    queue: str,
    namespace: str = DEFAULT_NAMESPACE,
    span: TimeSpan = ALL_TIMES,
    split_rows: int | None = SPLIT_ROWS,
) -> list[QueueRange]:
    """All rows there are now, in pieces of about `split_rows`, in the order of partitions and offsets; a piece for each
    partition that has rows if None. DirectoryFormat, NoSuchQueue."""
    opened = TableDirectory(directory)
    with closing(opened):
        table = opened.table(queue, namespace)
        found: list[QueueRange] = []
        for partition in table.partitions():
            found += _pieces(table, partition, span, directory, split_rows)
        return found


def _pieces(
    table: QueueTable, partition: Partition, span: TimeSpan, directory: Path, split_rows: int | None
) -> Iterator[QueueRange]:
    start, stop = partition.start, partition.end
    if span.since_ms is not None:
        start = table.offset_at_time(partition.number, span.since_ms)
    if span.until_ms is not None:
        stop = min(stop, table.offset_at_time(partition.number, span.until_ms))
    rows = table.row_map(partition.number)
    if start >= stop or rows.is_empty(start, stop):
        return
    # A piece may be read in another working directory.
    place = str(directory.resolve()), table.namespace, table.queue, partition.number
    size_bytes, whole_rows = table.size_bytes(partition), max(rows.rows(partition.start, partition.end), 1)
    for first, end, count in rows.split(start, stop, split_rows or max(rows.rows(start, stop), 1)):
        yield QueueRange(*place, first, end, count, size_bytes * count // whole_rows)
