"""Rows for the ends of several logs, written to segments of their own beside the journal: more than a frame holds."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.core.errors import NoSuchLog
from penstock.core.ports import Disk, File
from penstock.core.types import FilePosition, LogNumber
from penstock.kernels.folded import INDEX_STEP_BYTES
from penstock.log import batch as batches
from penstock.log.encoded import Rows, encode
from penstock.log.names import directory_of
from penstock.log.partition import Log
from penstock.log.records import SegmentInfo
from penstock.log.segments.index import index_path, save_index
from penstock.log.segments.segments import SparseIndex, segment_path
from penstock.log.upkeep.retention import segment_limits

logger = logging.getLogger("penstock.log.importing")

# As the keeper: a whole segment at once holds up the journal. While these are written the next ones are made.
_STEP_BYTES = 4 << 20


def imported_version(sequence: int) -> int:
    """Of the files of an import: even, as all that compaction has not made, and never used by another import nor by the
    keeper, which counts up by twos from what it finds when a file had to be given up."""
    return (sequence + 1) << 8


@dataclass(slots=True)
class _Segment:
    base: int
    path: str
    file: File
    end: int
    bytes: int = 0
    records: int = 0
    begun_bytes: int = 0
    """that the disk was told to write, and no more than a step of them is under way"""
    written_bytes: int = 0
    index: SparseIndex = field(default_factory=SparseIndex)

    def append(self, batch: bytearray, count: int, timestamp: int) -> None:
        if not self.index.positions or self.bytes - self.index.positions[-1] >= INDEX_STEP_BYTES:
            self.index.add(self.end, self.bytes, timestamp if self.records else 0)
        self.file.write(FilePosition(self.bytes), [batch])
        self.bytes += len(batch)
        self.records += count
        self.end += count
        if self.bytes - self.begun_bytes >= _STEP_BYTES:
            self.file.begin_writing_back(self.begun_bytes, self.bytes)
            if self.begun_bytes > self.written_bytes:
                self.file.await_written_back(self.written_bytes, self.begun_bytes)
            self.written_bytes, self.begun_bytes = self.begun_bytes, self.bytes


class ImportedLog:
    """What comes behind the end of one log. Made on the loop, filled in any one thread; nothing may be staged for the
    log meanwhile."""

    def __init__(self, disk: Disk, log: Log, now_ms: int, version: int) -> None:
        self._disk, self._version, self._settings = disk, version, log.settings
        self.log, self.directory = log, directory_of(log.name, log.number)
        self._epoch, self._timestamp = log.bounds.epoch, max(now_ms, log.last_timestamp)
        self._end = log.end
        self._most_bytes = segment_limits(log.settings).bytes
        self._segment: _Segment | None = None
        self.infos: list[SegmentInfo] = []
        self.paths: list[str] = []

    def add(self, rows: Rows) -> None:
        batch = encode(rows, self._settings.compression)
        segment = self._segment
        if segment is not None and segment.bytes + len(batch) > self._most_bytes:
            self.close()
            segment = None
        if segment is None:
            segment = self._segment = self._begin()
        batches.seal(batch, segment.end, self._epoch, self._timestamp)
        segment.append(batch, rows.count, self._timestamp)
        self._end = segment.end

    def close(self) -> None:
        """The bytes are durable, their names not yet."""
        segment, self._segment = self._segment, None
        if segment is None:
            return
        try:
            segment.file.sync()
        finally:
            segment.file.close()
        times = self._timestamp, self._timestamp
        info = SegmentInfo(segment.base, self._version, segment.end, segment.bytes, segment.records, *times)
        save_index(self._disk, segment.path, info, segment.index)
        self.infos.append(info)

    def abandon(self) -> None:
        if self._segment is not None:
            self._segment.file.close()
            self._segment = None
        for path in self.paths:
            self._disk.unlink(path)
            self._disk.unlink(index_path(path))
        # The directory of a deleted log could not go while a file was being made in it.
        if isinstance(self.log.fault, NoSuchLog) and not self._disk.list(self.directory):
            self._disk.remove_directory(self.directory)

    def _begin(self) -> _Segment:
        path = segment_path(self.directory, self._end, self._version)
        self._disk.make_directory(self.directory)
        self.paths.append(path)
        return _Segment(self._end, path, self._disk.create(path), self._end)


class Importer:
    """Rows for several logs. Nothing counts until the segments are adopted; if they will not be, abandon()."""

    def __init__(self, disk: Disk, logs: Iterable[Log], now_ms: int, version: int) -> None:
        self._disk = disk
        self._logs = {log.number: ImportedLog(disk, log, now_ms, version) for log in logs}

    def add(self, log: Log, rows: Rows) -> None:
        """Behind what was added before for that log. OSError if the disk fails."""
        self._logs[log.number].add(rows)

    def finish(self) -> None:
        """All segments are durable when this returns."""
        directories: set[str] = set()
        for imported in self._logs.values():
            imported.close()
            if imported.infos:
                directories |= _with_parents(imported.directory)
        for directory in sorted(directories, reverse=True):
            self._disk.sync_directory(directory)

    @property
    def adopted(self) -> dict[Log, tuple[SegmentInfo, ...]]:
        """What came for each log that something came for."""
        return {each.log: tuple(each.infos) for each in self._logs.values() if each.infos}

    def rows(self, number: LogNumber) -> int:
        return sum([info.records for info in self._logs[number].infos])

    def abandon(self) -> None:
        """Take the files away; never after they were staged, whatever became of that commit."""
        for imported in self._logs.values():
            try:
                imported.abandon()
            except OSError as error:
                logger.warning("files of a given-up import not removed log=%s error=%s", imported.log.name, error)


def _with_parents(directory: str) -> set[str]:
    parts = directory.split("/")
    return {"/".join(parts[:count]) for count in range(len(parts) + 1)}
