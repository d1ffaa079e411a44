"""Queues of a data directory as tables, found without the broker: partitions, how far each can be read, rows."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import InvalidArgument, NoSuchLog, NoSuchQueue
from penstock.core.queue_paths import canonical_queue
from penstock.log.outside import DirectoryReader, OutsideLog
from penstock.log.reading.extents import Extent, RowMap, clipped
from penstock.queues.names import DEFAULT_NAMESPACE, partition_of_log
from penstock.tables.declared import DeclaredQueues
from penstock.tables.errors import QueueReplaced
from penstock.tables.partition_rows import BATCH_ROWS, PartitionSource, Reading
from penstock.tables.rows import RowMaker

Name = tuple[str, str]
"""namespace, queue"""


@dataclass(frozen=True, slots=True)
class Partition:
    """Offsets start..end can be read; not each of them need name a row, so that `rows` may be less than their number.
    Rows of a first batch that `start` lies inside count whole. `log` is a number that no other partition ever had: that
    of a queue declared anew is another; None while nothing was put into it."""

    number: int
    start: int
    end: int
    rows: int
    log: int | None = None


class QueueTable:
    """One thread. Every look is as of now: partitions that were added are there, rows that were appended too."""

    def __init__(self, directory: TableDirectory, queue: str, namespace: str) -> None:
        """As TableDirectory.table() gives it."""
        self._directory, self.queue, self.namespace = directory, queue, namespace

    @classmethod
    def open(cls, directory: Path, queue: str, namespace: str = DEFAULT_NAMESPACE) -> QueueTable:
        """With a reader of its own; close() it. DirectoryFormat if it is no data directory, NoSuchQueue."""
        return TableDirectory(directory).table(queue, namespace)

    def partitions(self) -> list[Partition]:
        """By number, at one cut. NoSuchQueue once it was deleted."""
        logs = self._directory.logs_of(self.queue, self.namespace)
        return _partitions(logs)

    def size_bytes(self, partition: Partition) -> int:
        """Of all its rows as they are stored now. NoSuchQueue once it was deleted."""
        return 0 if partition.log is None else self._directory.size_bytes(partition.log, self.queue)

    def extents(self, partition: Partition) -> tuple[Extent, ...]:
        """Where its rows lie among its offsets; what is not known any more counts as rows. NoSuchQueue once it was
        deleted."""
        if partition.log is None:
            return ()
        return self._directory.extents(partition.log, self.queue, partition.start, partition.end)

    def row_map(self, partition: int) -> RowMap:
        """Counts rows of a partition between offsets, as of now."""
        found = next(one for one in self.partitions() if one.number == partition)
        return RowMap(self.extents(found), found.start, found.end)

    def offset_at_time(self, partition: int, timestamp_ms: int) -> int:
        """Of the first row that is not older than that (ms since 1970); the end if there is none. InvalidArgument for a
        partition that is not there."""
        log = self._log(partition)
        try:
            return 0 if log is None else self._reader.offset_at_time(log.number, timestamp_ms)
        except NoSuchLog:
            raise NoSuchQueue(self.queue) from None

    def read(
        self,
        partition: int,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        *,
        skip_trimmed: bool = False,
        log: int | None = None,
    ) -> Reading:
        """Rows at offsets start..stop, not including `stop`; None is the oldest there is, and the end as of now. All of
        them, or an error on the way: Trimmed for what is gone, unless it may be skipped, which the reading counts;
        BeyondEnd for what cannot be read yet; NoSuchQueue if the queue is deleted, LogDamaged. InvalidArgument for
        columns or a partition that are not there. QueueReplaced unless the partition is `log`, where that is said."""
        found = self._log(partition)
        number = None if found is None else found.number
        if log is not None and log != number:
            raise QueueReplaced(self.queue, partition, log)
        first, end = (0, 0) if found is None else (found.start, found.end)
        start, stop = first if start is None else start, end if stop is None else stop
        if start < 0:
            raise InvalidArgument(f"offset {start} is below 0: offsets begin with 0")
        source = PartitionSource(self._reader, number, self.queue, partition)
        # An offset has one row at most.
        most_rows = min(_checked_rows(batch_rows), max(stop - start, 1))
        maker = RowMaker(self.queue, partition, columns, most_rows)
        return Reading(source, maker, start, stop, batch_rows, skip_trimmed)

    def close(self) -> None:
        """Of the directory too that it was taken from."""
        self._directory.close()

    @property
    def _reader(self) -> DirectoryReader:
        return self._directory.reader

    def _log(self, partition: int) -> OutsideLog | None:
        logs = self._directory.logs_of(self.queue, self.namespace)
        if partition not in logs:
            raise InvalidArgument(
                f"queue {self.queue!r} has no partition {partition}, it has {', '.join(map(str, sorted(logs)))}"
            )
        return logs[partition]


class TableDirectory:
    """One thread, also that of the tables it gives. Takes no lock and writes nothing."""

    def __init__(self, path: Path, *, follows: bool = False) -> None:
        """DirectoryFormat if it is no data directory. `follows`: rows are to be seen soon after they were put, on
        and on, until close()."""
        self.reader = DirectoryReader(path, follows=follows)
        self._declared = DeclaredQueues(self.reader)

    def queues(self, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
        """Names, dead-letter queues among them."""
        return sorted(queue for space, queue in self._partitions() if space == namespace)

    def tables(self, namespace: str = DEFAULT_NAMESPACE) -> dict[str, list[Partition]]:
        """Every queue with its partitions, at one cut."""
        found = self._partitions()
        return {name: _partitions(found[space, name]) for space, name in sorted(found) if space == namespace}

    def matching(self, pattern: str, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
        """Names that match: `*` is any text, `/` too, and `?` one character; one that begins with `$` matches only a
        pattern that does."""
        known = [name for name in self.queues(namespace) if pattern.startswith("$") or not name.startswith("$")]
        return [name for name in known if fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))]

    def table(self, queue: str, namespace: str = DEFAULT_NAMESPACE) -> QueueTable:
        """NoSuchQueue. Names of dead-letter queues may be written in any of their ways."""
        name = self.named(queue, namespace)
        self.logs_of(name, namespace)
        return QueueTable(self, name, namespace)

    def named(self, written: str, namespace: str = DEFAULT_NAMESPACE) -> str:
        """The name that is meant: that of a queue of this very name, or see canonical_queue()."""
        return written if (namespace, written) in self._partitions() else canonical_queue(written)

    def logs_of(self, queue: str, namespace: str) -> dict[int, OutsideLog | None]:
        """By partition; None for one that nothing was put into yet. NoSuchQueue."""
        found = self._partitions().get((namespace, queue))
        if found is None:
            raise NoSuchQueue(queue)
        return found

    def size_bytes(self, log: int, queue: str) -> int:
        """Of a log of a queue; NoSuchQueue once that was deleted."""
        try:
            cut = self.reader.cut(log)
        except NoSuchLog:
            raise NoSuchQueue(queue) from None
        return sum(segment.bytes for segment in (*cut.sealed, *([cut.active] if cut.active else [])))

    def extents(self, log: int, queue: str, start: int, end: int) -> tuple[Extent, ...]:
        """Where rows of a log of a queue lie among the offsets start..end; NoSuchQueue once that was deleted."""
        try:
            cut, known = self.reader.extents(log)
        except NoSuchLog:
            raise NoSuchQueue(queue) from None
        unknown = Extent(start, cut.start, cut.start - start), Extent(cut.end, end, end - cut.end)
        return tuple(clipped([unknown[0], *known, unknown[1]], start, end))

    def close(self) -> None:
        self.reader.close()

    def _partitions(self) -> dict[Name, dict[int, OutsideLog | None]]:
        """Declared ones, and those whose logs somebody wrote without a broker. Logs are looked at first: a queue that
        was deleted in between has its record changed before its logs go."""
        logs = self.reader.logs()
        found: dict[Name, dict[int, OutsideLog | None]] = {}
        deleted: set[Name] = set()
        for name, record in self._declared.read().items():
            if record.is_deleted:
                deleted.add(name)
            else:
                found[name] = dict.fromkeys(range(record.partitions))
        for log in logs:
            place = partition_of_log(log.name)
            if place is not None and place[:2] not in deleted:
                found.setdefault(place[:2], {})[place[2]] = log
        return found


def _partitions(logs: dict[int, OutsideLog | None]) -> list[Partition]:
    return [
        Partition(number, 0, 0, 0) if log is None else Partition(number, log.start, log.end, log.records, log.number)
        for number, log in sorted(logs.items())
    ]


def _checked_rows(batch_rows: int) -> int:
    if not 1 <= batch_rows <= 1_000_000:
        raise InvalidArgument(f"batch_rows is {batch_rows}: write a number from 1 to 1000000")
    return batch_rows
