"""Reading in batches: what is there when the query is planned, by tasks that read their ranges beside the broker."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from penstock.spark.backing import Backing, open_backing
from penstock.spark.offsets import Edge, OffsetRange, ranges_between
from penstock.spark.options import SourceOptions
from penstock.spark.places import RowBounds, Seen, check_start, readable, resolve, row_maps, seen_logs, within
from penstock.spark.plainly import plain_rows, plainly
from penstock.spark.planning import Ranges, plan
from penstock.spark.pushdown import pushed
from penstock.spark.workers import task_begins

_LOG = logging.getLogger("penstock.spark")


class OptionalPushdown:
    """`pushFilters` of a reader that works with spark.sql.python.filterPushdown.enabled, and without.

    Spark fails a query whose reader has a pushFilters of its own while that setting is off, which it is unless somebody
    turns it on. It knows by `__func__`; what is not pushed, Spark filters itself."""

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: QueueReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._reader.bounds, left = pushed(filters)
        return left


class QueueReader(DataSourceReader):
    """Picklable: executors get it as it was planned."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns
        self.bounds = RowBounds()
        setattr(self, "pushFilters", OptionalPushdown(self))  # noqa: B010  # a method for those who read the class

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        with closing(open_backing(self._options)) as backing:
            seen = backing.seen()
            ranges = self._ranges(backing, seen)
            return [InputPartition(task) for task in plan(ranges, self._options.split, row_maps(seen))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(self._options, self._columns, partition.value or ())

    def _ranges(self, backing: Backing, seen: Seen) -> list[OffsetRange]:
        options = self._options
        if not backing.is_whole:
            _LOG.warning("the broker of %s was killed: its newest messages are seen once it has started", options.place)
        start = resolve(options.start, seen, Edge.EARLIEST, backing.offset_at_time)
        check_start(start, seen, backing.is_whole)
        stop = resolve(options.stop, seen, Edge.LATEST, backing.offset_at_time)
        asked = within(ranges_between(start, stop, seen_logs(seen)), self.bounds, backing.offset_at_time)
        return readable(asked, seen, backing.is_whole, options.fail_on_data_loss)


def read_ranges(options: SourceOptions, columns: tuple[str, ...], ranges: Ranges) -> Iterator[pa.RecordBatch]:
    """On an executor. DataLost if a range was trimmed since it was planned, unless that was asked to be passed over."""
    return plain_rows(_read_ranges(options, columns, ranges))


def _read_ranges(options: SourceOptions, columns: tuple[str, ...], ranges: Ranges) -> Iterator[pa.RecordBatch]:
    task_begins()
    with closing(open_backing(options)) as backing:
        yield from backing.read_all(ranges, columns)
