"""A look into a data directory that changes nothing: live through its table, closed or crashed with its journal folded
in memory, as recovery would fold it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.clock import SystemClock
from penstock.core.errors import JournalDamaged, NoSuchLog, OffsetOutOfRange
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Buffer, Disk, File
from penstock.core.types import LogName, LogNumber, Sequence
from penstock.log.checkpoint import Checkpoint, read_checkpoint
from penstock.log.cuts import DirectoryState
from penstock.log.disk import RealDisk
from penstock.log.frames import Entry
from penstock.log.keeper import Keeper
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.options import ShardOptions
from penstock.log.outside import DirectoryReader
from penstock.log.records import LogSettings, SegmentInfo
from penstock.log.recovery import restore_keeper
from penstock.log.replay import JournalReader, entry_of
from penstock.log.sealed import SegmentMaps
from penstock.log.segment_files import SegmentFiles
from penstock.log.segments import ActiveSegment, SealedSegment
from penstock.log.walk import FileBytes, SegmentBytes, checked, first_at_time, first_row_at_time, from_offset
from penstock.log.written import WrittenLog


class UnchangedDisk:
    """A disk on which nothing can be changed: removing and renaming do nothing, opening for writing is refused."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def open(self, path: str) -> File:
        raise OSError(errno.EROFS, "this look changes nothing", path)

    def create(self, path: str) -> File:
        raise OSError(errno.EROFS, "this look changes nothing", path)

    def open_read(self, path: str) -> File:
        return self._disk.open_read(path)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def list(self, path: str) -> list[str]:
        return self._disk.list(path)

    def make_directory(self, path: str) -> None:
        """Nothing."""

    def remove_directory(self, path: str) -> None:
        """Nothing."""

    def rename(self, old: str, new: str) -> None:
        """Nothing."""

    def unlink(self, path: str) -> None:
        """Nothing."""

    def link(self, old: str, new: str) -> None:
        """Nothing."""

    def sync_directory(self, path: str) -> None:
        """Nothing."""

    def watch(self) -> None:
        """Nothing."""

    def sync_all(self) -> bool:
        return False

    def free_bytes(self) -> int:
        return self._disk.free_bytes()

    def total_bytes(self) -> int:
        return self._disk.total_bytes()


@dataclass(frozen=True, slots=True)
class InspectedLog:
    """A log as far as it can be read. `pending` batches are in the journal and in no segment yet."""

    number: LogNumber
    name: LogName
    settings: LogSettings
    start: int
    end: int
    records: int
    bytes: int
    segments: tuple[SegmentInfo, ...]
    pending: int = 0
    stopped: str = ""


@dataclass(slots=True)
class JournalLook:
    """What the journal holds behind the checkpoint."""

    first_sequence: int
    end_sequence: int = 0
    frames: int = 0
    torn_bytes: int = 0
    """of frames at the end that were never acknowledged"""
    problems: list[str] = field(default_factory=list)
    """damage, or entries that could not be folded: what follows them is missing here"""


class FoldedDirectory:
    """A directory that nobody has open. It must stay so while this is used. One thread."""

    def __init__(self, disk: Disk, state: DirectoryState) -> None:
        """DirectoryFormat or LogDamaged if the checkpoint or the catalogue cannot be read."""
        self.state = state
        self.disk: Disk = UnchangedDisk(disk)
        self.checkpoint = read_checkpoint(self.disk) or Checkpoint(0, 0, 0, 1, True, ())
        self.journal = JournalLook(self.checkpoint.first_sequence)
        options, metrics = ShardOptions(), ShardMetrics()
        files = SegmentFiles(self.disk, options.keeper.max_open_files, metrics)
        self._keeper, _ = restore_keeper(self.disk, SystemClock(), options, metrics, files, self.checkpoint)
        self._maps = SegmentMaps(self.disk, 16)
        self._fold()

    def logs(self) -> list[InspectedLog]:
        """All but the catalogue."""
        return [_inspected(log) for number, log in self._keeper.logs.items() if number != CATALOGUE_NUMBER]

    def written(self, number: int) -> WrittenLog:
        if (log := self._keeper.logs.get(LogNumber(number))) is None:
            raise NoSuchLog(number)
        return log

    def numbers(self) -> list[LogNumber]:
        return list(self._keeper.logs)

    def batches(self, number: int, start: int, stop: int | None = None) -> Iterator[Buffer]:
        """Every batch from the one that holds or follows `start` on that begins below `stop`; pending ones too."""
        log = self.written(number)
        if start < log.bounds.start:
            raise OffsetOutOfRange(log.name, start, log.bounds.start, log.bounds.end)
        for segment in segments_of(log):
            if segment_end(segment) > start:
                for first, data in self._segment_batches(log, segment, start):
                    if stop is not None and first >= stop:
                        return
                    yield data

    def offset_at_time(self, number: int, timestamp_ms: int) -> int:
        """The first offset whose record is not older than that; the end if there is none."""
        log = self.written(number)
        for segment in segments_of(log):
            found = self._find_time(log, segment, timestamp_ms)
            if found is not None:
                return found
        return log.bounds.end

    def open_segment(
        self, log: WrittenLog, segment: SealedSegment | ActiveSegment
    ) -> AbstractContextManager[SegmentBytes]:
        """The part of it that lies in a file."""
        if isinstance(segment, SealedSegment):
            return nullcontext(self._maps.get(log.name, segment))
        file = self.disk.open_read(segment.path)
        return closing(FileBytes(log.name, segment.path, segment.written_bytes, file, [segment.index], None))

    def _segment_batches(
        self, log: WrittenLog, segment: SealedSegment | ActiveSegment, start: int
    ) -> Iterator[tuple[int, Buffer]]:
        if has_file(segment):
            with self.open_segment(log, segment) as source:
                for batch in from_offset(source, start):
                    yield batch.first, checked(source, batch)
        for entry in pending_of(segment):
            if entry.end > start:
                yield entry.first, entry.data

    def _find_time(self, log: WrittenLog, segment: SealedSegment | ActiveSegment, timestamp: int) -> int | None:
        if has_file(segment):
            with self.open_segment(log, segment) as source:
                if (found := first_at_time(source, timestamp, log.bounds.start)) is not None:
                    return found
        for entry in pending_of(segment):
            if (found := first_row_at_time(entry.data, timestamp, log.bounds.start)) is not None:
                return found
        return None

    def _fold(self) -> None:
        first, durable = Sequence(self.checkpoint.first_sequence), Sequence(self.checkpoint.known_durable)
        reader = JournalReader(self.disk, first, durable)
        try:
            for frame in reader.frames():
                self.journal.frames += 1
                for log, kind, data in frame.entries:
                    self._take(self._keeper, log, kind, data)
        except JournalDamaged as error:
            self.journal.problems.append(str(error))
        self.journal.end_sequence, self.journal.torn_bytes = reader.end, reader.torn_bytes

    def _take(self, keeper: Keeper, log: int, kind: int, data: memoryview) -> None:
        try:
            keeper.take(entry_of(log, kind, data))
        except OSError as error:
            self.journal.problems.append(f"an entry of log {log} cannot be folded: {error}")


class LiveDirectory:
    """A directory that a broker has open, as far as the broker has published it. The journal is the broker's."""

    journal: JournalLook | None = None

    def __init__(self, path: Path, patience_s: float = 2.0) -> None:
        self.reader = DirectoryReader(path, patience_s=patience_s)
        self.state = self.reader.state

    def logs(self) -> list[InspectedLog]:
        found = []
        for log in self.reader.logs():
            cut = self.reader.cut(log.number)
            segments = (*cut.sealed, *([cut.active] if cut.active is not None else []))
            size = sum(info.bytes for info in segments)
            found.append(
                InspectedLog(log.number, log.name, log.settings, cut.start, cut.end, cut.records, size, segments)
            )
        return found

    def batches(self, number: int, start: int, stop: int | None = None) -> Iterator[Buffer]:
        return self.reader.batches(number, start, stop)

    def offset_at_time(self, number: int, timestamp_ms: int) -> int:
        return self.reader.offset_at_time(number, timestamp_ms)


Inspection = FoldedDirectory | LiveDirectory


def inspect_directory(path: Path) -> Inspection:
    """Live, closed or crashed: the same calls."""
    state = DirectoryReader(path).state
    if state in (DirectoryState.LIVE, DirectoryState.STARTING):
        return LiveDirectory(path)
    return FoldedDirectory(RealDisk(path), state)


def segments_of(log: WrittenLog) -> list[SealedSegment | ActiveSegment]:
    active = [log.active] if log.active is not None else []
    return [*log.sealed, *log.full, *active]


def segment_end(segment: SealedSegment | ActiveSegment) -> int:
    return segment.info.end if isinstance(segment, SealedSegment) else segment.end


def has_file(segment: SealedSegment | ActiveSegment) -> bool:
    return isinstance(segment, SealedSegment) or segment.written_bytes > 0


def pending_of(segment: SealedSegment | ActiveSegment) -> list[Entry]:
    return [] if isinstance(segment, SealedSegment) else segment.pending


def info_of(segment: SealedSegment | ActiveSegment) -> SegmentInfo:
    return segment.info if isinstance(segment, SealedSegment) else segment.info()


def _inspected(log: WrittenLog) -> InspectedLog:
    infos = tuple(info_of(segment) for segment in segments_of(log))
    return InspectedLog(
        log.number,
        log.name,
        log.settings,
        log.bounds.start,
        log.bounds.end,
        sum(info.records for info in infos),
        sum(info.bytes for info in infos),
        infos,
        sum(len(pending_of(segment)) for segment in segments_of(log)),
        log.stopped,
    )
