"""The queues of a data directory that a query reads, for driver and executors; the broker is not asked."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from penstock.core.errors import NoSuchQueue
from penstock.log.outside import OutsideLog
from penstock.log.reading.cuts import DirectoryState
from penstock.log.upkeep.format_file import FORMAT_PATH
from penstock.spark.offsets import OffsetRange, PartitionId
from penstock.spark.options import SourceOptions
from penstock.spark.places import DataLost, Seen, Visible, only_assigned, other_log, tell_losses
from penstock.spark.queue_names import Chosen, by_regex, chosen
from penstock.tables.errors import NotRecovered, QueueReplaced, Trimmed
from penstock.tables.table import QueueTable, TableDirectory

_LOG = logging.getLogger("penstock.spark")
_SETTLED = (DirectoryState.LIVE, DirectoryState.CLOSED)
# One for each directory that queries of this process read.
_KEPT = 8


class QueueDirectory:
    """One thread, one process: it is opened where it is used, and never pickled."""

    def __init__(self, options: SourceOptions, path: str, follows: bool = False) -> None:
        """DirectoryFormat if the path is no data directory. `follows`: it is asked what is seen again and again."""
        self._options, self._path = options, path
        self._directory = TableDirectory(Path(path), follows=True) if follows else kept_directory(path)
        self._tables: dict[str, QueueTable] = {}
        self.is_whole = True
        """False if the last seen() may have missed the newest rows, as a broker that died has not started again"""

    def seen(self, is_patient: bool = False) -> Seen:
        """All partitions that the query reads, as of now. NoSuchQueue for one that is named and not there; NotRecovered
        until a broker that died has started again, for which the patient wait."""
        was_settled = self._is_settled
        queues = self._queues()
        found = dict(self._partitions(queues.found))
        self.is_whole = was_settled and self._is_settled
        found = only_assigned(found, self._options.assigned, self.is_whole)
        if queues.missing and self.is_whole:
            raise NoSuchQueue(queues.missing[0])
        if queues.missing and not is_patient:
            raise NotRecovered(queues.missing[0], self._path)
        return found

    def offset_at_time(self, source: PartitionId, timestamp_ms: int) -> int:
        """The end if all rows are older."""
        return self._table(source.queue).offset_at_time(source.partition, timestamp_ms)

    def read(self, wanted: OffsetRange, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Rows in order. DataLost if some were trimmed meanwhile, which is counted and logged where the options
        let it pass. BeyondEnd for what cannot be read until a broker that died has started again."""
        queue, partition = wanted.source
        passes = not self._options.fail_on_data_loss
        offsets = (partition, wanted.start, wanted.stop)
        try:
            rows = self._table(queue).read(*offsets, columns, skip_trimmed=passes, log=wanted.log)
            yield from rows
        except QueueReplaced:
            return tell_losses([other_log(wanted)], not passes)
        except Trimmed as error:
            raise DataLost([str(error)]) from error
        if rows.skipped_offsets:
            _LOG.warning("data lost while reading %s, %d offsets: %s", wanted, rows.skipped_offsets, rows.skipped)

    def read_all(self, ranges: Sequence[OffsetRange], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        for each in ranges:
            yield from self.read(each, columns)

    def close(self) -> None:
        self._directory.close()

    @property
    def _is_settled(self) -> bool:
        return self._directory.reader.state in _SETTLED

    def _partitions(self, queues: Iterable[str]) -> Iterator[tuple[PartitionId, Visible]]:
        for queue in queues:
            for number, log in self._directory.logs_of(queue, self._options.namespace).items():
                yield PartitionId(queue, number), Visible(0, 0) if log is None else self._visible(queue, log)

    def _visible(self, queue: str, log: OutsideLog) -> Visible:
        size_bytes = self._directory.size_bytes(log.number, queue)
        extents = self._directory.extents(log.number, queue, log.start, log.end)
        return Visible(log.start, log.end, size_bytes, log.number, extents)

    def _queues(self) -> Chosen:
        known = set(self._directory.queues(self._options.namespace))
        regex = self._options.queue_regex
        return chosen(
            self._options.queues if regex is None else by_regex(regex, known),
            known.__contains__,
            lambda pattern: self._directory.matching(pattern, self._options.namespace),
            self._options.include_dead_letters,
        )

    def _table(self, queue: str) -> QueueTable:
        if queue not in self._tables:
            self._tables[queue] = self._directory.table(queue, self._options.namespace)
        return self._tables[queue]


def kept_directory(path: str) -> TableDirectory:
    """The reader of this process, for one task at a time: Spark's workers do one after the other. What it has learned
    of the places of rows it knows for the next, which otherwise looks through the newest segment from its beginning.
    close() lets go of the files that it has mapped. DirectoryFormat if the path is no data directory."""
    return _kept_directory(path, os.getpid(), _beginning(path))


@lru_cache(_KEPT)
def _kept_directory(path: str, pid: int, beginning: tuple[int, ...]) -> TableDirectory:
    return TableDirectory(Path(path))


def _beginning(path: str) -> tuple[int, ...]:
    """Another one with every broker that starts, which replaces the file; so also where somebody has put another
    directory in the place of the one that was there."""
    try:
        found = (Path(path) / FORMAT_PATH).stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns
