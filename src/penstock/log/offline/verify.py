"""Checking every byte that a data directory holds, without changing one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.errors import CorruptBatch, LogDamaged, OffsetOutOfRange
from penstock.core.ports import Buffer
from penstock.core.types import LogName
from penstock.log.batch import Batch, next_offset, read_header
from penstock.log.disk import RealDisk
from penstock.log.offline.check import small_file_faults
from penstock.log.offline.inspect import (
    FoldedDirectory,
    InspectedLog,
    LiveDirectory,
    has_file,
    info_of,
    inspect_directory,
    pending_of,
    segments_of,
)
from penstock.log.reading.cuts import DirectoryState
from penstock.log.reading.walk import SegmentBytes, walk
from penstock.log.records import EpochStart
from penstock.log.segments.index import index_path, load_index
from penstock.log.segments.segments import ActiveSegment, SealedSegment
from penstock.log.segments.written import WrittenLog

Progress = Callable[[str, int], None]
"""called with the name of a log and the bytes of it that were checked since the last call"""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it must be. `log` is empty for what concerns the directory or its journal."""

    log: str
    file: str
    position: int
    reason: str


@dataclass(slots=True)
class VerifyReport:
    state: DirectoryState
    logs: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    frames: int = 0
    torn_bytes: int = 0
    """at the end of the journal: never acknowledged, no damage"""
    bad_indexes: list[str] = field(default_factory=list)
    """files that a crash may leave torn; no damage, since readers build them anew from the segments"""
    findings: list[Finding] = field(default_factory=list)


def verify(directory: Path, progress: Progress | None = None, log_name: LogName | None = None) -> VerifyReport:
    """Every batch of every log (checksum, structure, order of offsets and times), the counts and indexes of every
    segment, every frame of the journal behind the checkpoint. A live directory is checked up to the cut, without its
    journal. With `log_name` only that log is checked, and the journal."""
    inspection = inspect_directory(directory)
    report = VerifyReport(inspection.state)
    tell = progress or _silent
    if isinstance(inspection, LiveDirectory):
        faults = small_file_faults(RealDisk(directory), is_live=True)
        report.findings += [Finding("", fault.file, 0, fault.reason) for fault in faults]
        for log in inspection.logs():
            if log_name in (None, log.name):
                _LiveCheck(report, inspection, log, tell).run()
                _check_stopped(report, log)
        return report
    _check_journal(report, inspection)
    for log in inspection.logs():
        if log_name in (None, log.name):
            _check_stopped(report, log)
    for written in map(inspection.written, inspection.numbers()):
        if log_name in (None, written.name):
            _FoldedCheck(report, inspection, written, tell).run()
    return report


class Order:
    """Offsets and times of a log as its batches go by."""

    def __init__(self, start: int, epochs: Iterable[EpochStart] | None, may_have_holes: bool) -> None:
        """Without `epochs` it is not known which offsets were skipped, so that no hole is a fault."""
        self.next, self.timestamp = start, 0
        self._epochs, self._may_have_holes = list(epochs or ()), may_have_holes or epochs is None
        self._is_first = True

    def fault(self, batch: Batch) -> str | None:
        """Take the next batch; what is wrong with its place, if anything."""
        header = batch.header
        reason = self._offset_fault(header.base_offset)
        if header.base_timestamp < self.timestamp:
            reason = f"its time {header.base_timestamp} is before {self.timestamp}, that of the batch before it"
        self.next, self.timestamp, self._is_first = batch.next_offset, header.max_timestamp, False
        return reason

    def _offset_fault(self, first: int) -> str | None:
        if first < self.next and not self._is_first:
            return f"it begins at offset {first}, inside the batch before it, which ends at {self.next}"
        if first > self.next and not self._may_have_holes and self._skipped(first) != first - self.next:
            return f"it begins at offset {first}, the batch before it ends at {self.next}: records are missing"
        return None

    def _skipped(self, first: int) -> int:
        return sum(max(0, min(e.start, first) - max(e.previous_end, self.next)) for e in self._epochs)


class _FoldedCheck:
    """One log of a directory that nobody has open."""

    def __init__(self, report: VerifyReport, directory: FoldedDirectory, log: WrittenLog, tell: Progress) -> None:
        self._report, self._directory, self._log, self._tell = report, directory, log, tell
        # A file of a higher version was written by compaction, or after a cut of one that was.
        compacted = log.settings.compaction is not None or any(info_of(s).version for s in segments_of(log))
        self._order = Order(log.bounds.start, log.bounds.epochs, compacted)

    def run(self) -> None:
        self._report.logs += 1
        for segment in segments_of(self._log):
            self._report.segments += 1
            info = info_of(segment)
            try:
                records = self._segment(segment)
            except FileNotFoundError:
                self._found(segment.path, 0, "the file is missing")
                self._order.next = info.end
                continue
            except LogDamaged as error:
                self._found(error.file, error.position, error.reason)
                self._order.next = info.end
                continue
            if records != info.records:
                self._found(segment.path, 0, f"it has {records} records, {info.records} are on the books")
        if self._order.next > self._log.bounds.end:
            self._found(
                self._log.directory, 0, f"records reach {self._order.next}, behind the end {self._log.bounds.end}"
            )

    def _segment(self, segment: SealedSegment | ActiveSegment) -> int:
        records = 0
        if has_file(segment):
            with self._directory.open_segment(self._log, segment) as source:
                places = self._file(source)
            records += sum(count for _, count in places.values())
            if isinstance(segment, SealedSegment):
                self._index(segment, {position: first for position, (first, _) in places.items()})
        for entry in pending_of(segment):
            self._batch(entry.data, f"{segment.path} (in the journal)", 0)
            records += entry.records
        return records

    def _file(self, source: SegmentBytes) -> dict[int, tuple[int, int]]:
        """Where each batch is, its first offset and its records."""
        places: dict[int, tuple[int, int]] = {}
        for batch in walk(source):
            places[batch.position] = batch.first, batch.records
            self._batch(batch.data, source.path, batch.position)
        return places

    def _batch(self, data: Buffer, path: str, position: int) -> None:
        count_batch(self._report, self._log.name, data, self._tell)
        try:
            fault = self._order.fault(Batch.parse(data))
        except CorruptBatch as error:
            header = read_header(data)
            self._order.next = header.base_offset + header.count
            fault = error.reason
        if fault:
            self._found(path, position, fault)

    def _index(self, segment: SealedSegment, firsts: dict[int, int]) -> None:
        path = index_path(segment.path)
        if not self._directory.disk.exists(path):
            return
        index = load_index(self._directory.disk, segment.path, segment.info)
        if index is None or any(
            firsts.get(at) != offset for offset, at in zip(index.offsets, index.positions, strict=True)
        ):
            self._report.bad_indexes.append(path)

    def _found(self, file: str, position: int, reason: str) -> None:
        self._report.findings.append(Finding(self._log.name, file, position, reason))


class _LiveCheck:
    """One log of a directory that a broker is writing to."""

    def __init__(self, report: VerifyReport, directory: LiveDirectory, log: InspectedLog, tell: Progress) -> None:
        self._report, self._directory, self._log, self._tell = report, directory, log, tell
        self._order = Order(log.start, None, may_have_holes=True)

    def run(self) -> None:
        self._report.logs += 1
        self._report.segments += len(self._log.segments)
        offset = self._log.start
        while offset < self._log.end:
            try:
                offset = self._from(offset)
            except OffsetOutOfRange as error:
                offset = error.start  # trimmed meanwhile
            except LogDamaged as error:
                self._report.findings.append(Finding(self._log.name, error.file, error.position, error.reason))
                offset = self._behind_segment(offset)

    def _from(self, offset: int) -> int:
        for data in self._directory.batches(self._log.number, offset, self._log.end):
            count_batch(self._report, self._log.name, data, self._tell)
            offset = self._check(data)
        return self._log.end

    def _check(self, data: Buffer) -> int:
        try:
            fault = self._order.fault(Batch.parse(data))
        except CorruptBatch as error:
            fault = error.reason
        if fault:
            offset = read_header(data).base_offset
            self._report.findings.append(Finding(self._log.name, "", 0, f"the batch at offset {offset}: {fault}"))
        return next_offset(data)

    def _behind_segment(self, offset: int) -> int:
        """Damage hides what is behind it in its segment; go on with the next one."""
        ends = (info.end for info in self._log.segments)
        return next((end for end in ends if end > offset), self._log.end)


def count_batch(report: VerifyReport, log: str, data: Buffer, tell: Progress) -> None:
    report.batches += 1
    report.records += read_header(data).count
    report.bytes += len(data)
    tell(log, len(data))


def _check_journal(report: VerifyReport, directory: FoldedDirectory) -> None:
    journal = directory.journal
    report.frames, report.torn_bytes = journal.frames, journal.torn_bytes
    report.findings += [Finding("", fault.file, 0, fault.reason) for fault in directory.faults]
    report.findings += [Finding("", "journal", 0, problem) for problem in journal.problems]


def _check_stopped(report: VerifyReport, log: InspectedLog) -> None:
    if log.stopped:
        report.findings.append(Finding(log.name, "", 0, log.stopped))


def _silent(log: str, size: int) -> None:
    """Nobody asked for progress."""
