"""A look into a data directory that changes nothing: live through its table, closed or crashed with its journal folded
in memory, as recovery would fold it."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.clock import SystemClock
from penstock.core.errors import JournalDamaged, NoSuchLog, OffsetOutOfRange
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Buffer, Disk, File
from penstock.core.types import FilePosition, LogName, LogNumber
from penstock.log.disk import RealDisk
from penstock.log.journal.frames import Entry
from penstock.log.journal.replay import entry_of
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.offline.check import journal_reader, known_checkpoint, small_file_faults
from penstock.log.options import ShardOptions
from penstock.log.outside import DirectoryReader
from penstock.log.reading.cuts import DirectoryState
from penstock.log.reading.walk import FileBytes, SegmentBytes, checked, first_at_time, first_row_at_time, from_offset
from penstock.log.records import LogSettings, SegmentInfo
from penstock.log.segments.aside import stopped_logs
from penstock.log.segments.sealed import SegmentMaps
from penstock.log.segments.segment_files import SegmentFiles
from penstock.log.segments.segments import ActiveSegment, SealedSegment
from penstock.log.segments.written import WrittenLog
from penstock.log.upkeep.checkpoint import read_checkpoint
from penstock.log.upkeep.copies import FileFault
from penstock.log.upkeep.format_file import read_format
from penstock.log.upkeep.recovery import restore_keeper, short_files


class UnchangedDisk:
    """A disk on which nothing can be changed: removing and renaming do nothing, opening for writing is refused."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def open(self, path: str, makes: bool = False) -> File:
        raise OSError(errno.EROFS, "the directory was opened to be read only", path)

    def open_many(self, paths: Sequence[str], makes: Sequence[bool]) -> list[File | None]:
        return [None] * len(paths)

    def write_many(self, writes: Sequence[tuple[File, FilePosition, list[Buffer]]]) -> list[bool]:
        return [False] * len(writes)

    def create(self, path: str) -> File:
        raise OSError(errno.EROFS, "the directory was opened to be read only", path)

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
    """why the broker had stopped it, if so: what was kept aside of it counts here, as far as it can be read"""


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
        read_format(self.disk)
        self.faults = small_file_faults(self.disk)
        """small files of which the other copy is whole"""
        self.checkpoint = known_checkpoint(self.disk)
        self.journal = JournalLook(self.checkpoint.first_sequence)
        options, metrics = ShardOptions(), ShardMetrics()
        files = SegmentFiles(self.disk, options.keeper.max_open_files, metrics)
        clock = SystemClock()
        self._keeper, _, damage = restore_keeper(self.disk, clock, options, metrics, files, self.checkpoint)
        if damage is not None:
            self.faults.append(FileFault(damage.file, f"byte {damage.position}: {damage.reason}"))
        self._maps = SegmentMaps(self.disk, 16)
        self.stopped = stopped_logs(self._keeper.logs.values())
        """with what was kept aside of them folded in, as opening would, if all of it can be read"""
        self._fold()

    def logs(self) -> list[InspectedLog]:
        """All but the catalogue."""
        return [
            _inspected(log, self.stopped.get(number, ""))
            for number, log in self._keeper.logs.items()
            if number != CATALOGUE_NUMBER
        ]

    def written(self, number: int) -> WrittenLog:
        if (log := self._keeper.logs.get(LogNumber(number))) is None:
            raise NoSuchLog(number)
        return log

    def all_faults(self) -> list[FileFault]:
        logs = list(self._keeper.logs.values())
        faults = [*self.faults, *(FileFault("journal", problem) for problem in self.journal.problems)]
        faults += [FileFault(each.file, each.reason) for each in short_files(self.disk, logs).values()]
        return faults + _stopped_faults({log.name: log.stopped for log in self.logs() if log.stopped})

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
        reader = journal_reader(self.disk, self.checkpoint)
        self._keeper.put_back_aside()
        self.stopped |= stopped_logs(self._keeper.logs.values())
        try:
            for frame in reader.frames():
                self.journal.frames += 1
                for log, kind, data in frame.entries:
                    self._keeper.take(entry_of(log, kind, data))
        except JournalDamaged as error:
            self.journal.problems.append(str(error))
        for number, lack in self._keeper.unfolded.items():
            self.journal.problems.append(f"log {number} cannot be folded: {lack}")
        self.journal.end_sequence, self.journal.torn_bytes = reader.end, reader.torn_bytes


class LiveDirectory:
    """A directory that a broker has open, as far as the broker has published it. The journal is the broker's."""

    journal: JournalLook | None = None

    def __init__(self, path: Path, patience_s: float = 2.0) -> None:
        self.path, self.reader = path, DirectoryReader(path, patience_s=patience_s)
        self.state = self.reader.state

    @property
    def stopped(self) -> dict[LogNumber, str]:
        """As the last checkpoint has it."""
        checkpoint = read_checkpoint(RealDisk(self.path))
        return {} if checkpoint is None else stopped_logs(checkpoint.logs)

    def logs(self) -> list[InspectedLog]:
        found, stopped = [], self.stopped
        for log in self.reader.logs():
            cut = self.reader.cut(log.number)
            segments = (*cut.sealed, *([cut.active] if cut.active is not None else []))
            size = sum(info.bytes for info in segments)
            found.append(
                InspectedLog(
                    log.number,
                    log.name,
                    log.settings,
                    cut.start,
                    cut.end,
                    cut.records,
                    size,
                    segments,
                    stopped=stopped.get(log.number, ""),
                )
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


def directory_faults(path: Path) -> list[FileFault]:
    """What is not as it must be, without reading every batch: small files, the journal, files of logs that are missing
    or short, logs that are stopped. As an opening would find it. DirectoryFormat, LogDamaged."""
    inspection = inspect_directory(path)
    if isinstance(inspection, LiveDirectory):
        told = {log.name: log.stopped for log in inspection.logs() if log.stopped}
        return small_file_faults(RealDisk(path), is_live=True) + _stopped_faults(told)
    return inspection.all_faults()


def _stopped_faults(told: dict[LogName, str]) -> list[FileFault]:
    return [FileFault(f"log {name}", reason, name) for name, reason in told.items()]


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


def _inspected(log: WrittenLog, stopped: str) -> InspectedLog:
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
        stopped,
    )
