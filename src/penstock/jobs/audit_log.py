"""One log, or some segments of a long one: every batch's checksum and form, and the order of offsets and times."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from penstock.core.errors import CorruptBatch, LogDamaged, NoSuchLog, OffsetOutOfRange
from penstock.core.ports import Buffer
from penstock.jobs.audit_file import check_segment
from penstock.jobs.directory import LogFacts, Place
from penstock.jobs.findings import Checked, Finding, Kind
from penstock.kernels import rows
from penstock.log.batch import OFFSET_DELTA, TIMESTAMP_DELTA, Batch, Header, read_header
from penstock.log.disk import RealDisk
from penstock.log.offline.inspect import FoldedDirectory, LiveDirectory, info_of, pending_of, segments_of
from penstock.log.outside import PATIENCE_S
from penstock.log.reading.bounds import OFFSET_GAP
from penstock.log.records import SegmentInfo
from penstock.log.segments.segments import ActiveSegment, SealedSegment
from penstock.queues.deadletter import REDRIVEN

_PAUSE_S = 0.05
_LOOKED_UP = 100
# The table of a live directory does not know the time of a log's newest record and stands for it with one far ahead.
_LATEST_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Segments first..stop of a log, counted from its oldest one, with what only the journal holds of them."""

    place: Place
    log: LogFacts
    first: int
    stop: int
    is_live: bool

    @property
    def segments(self) -> tuple[SegmentInfo, ...]:
        return self.log.segments[self.first : self.stop]

    @property
    def size_bytes(self) -> int:
        return sum(info.bytes for info in self.segments)


@dataclass(frozen=True, slots=True)
class LogResult:
    """`first_ms` and `last_ms` are the times of the first and the last record, -1 without any."""

    log: str
    findings: list[Finding]
    checked: Checked
    first_ms: int = -1
    last_ms: int = -1


def check_log(piece: LogPiece) -> LogResult:
    """Findings of the bytes and of the order. Offsets that compaction removed, that were skipped after a crash, or that
    retention trimmed, are none."""
    check = _LogCheck(piece)
    opened = piece.place.opened()
    if isinstance(opened, FoldedDirectory):
        _Folded(check, opened, piece).run()
    else:
        _Live(check, opened, piece).run()
    return check.result()


@dataclass(slots=True)
class _Sequence:
    """Where a producer stands that wrote its sequences into the headers of its batches."""

    epoch: int
    following: int


@dataclass(slots=True)
class _Position:
    """How far the order is known."""

    next: int
    timestamp: int = -1
    first_ms: int = -1
    is_first: bool = True
    producers: dict[int, _Sequence] = field(default_factory=dict)
    batches: int = 0
    records: int = 0
    size_bytes: int = 0


class _LogCheck:
    """Takes batches in the order in which they lie."""

    def __init__(self, piece: LogPiece) -> None:
        self.log, self._piece = piece.log, piece
        # A log may begin inside its first segment; of the others it is known what precedes them.
        bases = [info.base for info in piece.segments[:1]]
        self.at = _Position(min([piece.log.start, *bases]) if piece.first == 0 else bases[0])
        self.findings: list[Finding] = []
        self.segments = 0
        self.file = memoryview(b"")
        """of the batches that are taken, to look back"""
        self._gaps: dict[tuple[int, int], Finding] = {}

    def result(self) -> LogResult:
        at = self.at
        checked = Checked(
            logs=int(self._piece.first == 0),
            segments=self.segments,
            batches=at.batches,
            records=at.records,
            size_bytes=at.size_bytes,
        )
        return LogResult(self.log.name, self.findings, checked, at.first_ms, at.timestamp)

    def take(self, data: Buffer, path: str, position: int) -> None:
        """A batch whose checksum holds."""
        self.at.batches += 1
        self.at.size_bytes += len(data)
        try:
            batch = Batch.parse(data, verify=False)
        except CorruptBatch as error:
            header = read_header(data)
            self.found(Kind.DAMAGED, path, header.base_offset, error.reason, position)
            self.at.next = header.base_offset + header.count
            return
        self.at.records += len(batch)
        self._offsets(data, batch, path, position)
        self._times(batch, path, position)
        if batch.header.producer_id not in (0, REDRIVEN):
            self._producer(batch.header, path, position)
        self.at.is_first = False

    def expect(self, first: int, path: str) -> None:
        """Nothing lies between what was taken and that offset: a segment begins or ends there."""
        self._miss(first, path)
        self.at.next = max(self.at.next, first)

    def pass_to(self, offset: int) -> None:
        """What is missing below was told."""
        self.at.next = max(self.at.next, offset)

    @property
    def next_offset(self) -> int:
        return self.at.next

    @property
    def records(self) -> int:
        return self.at.records

    def found(self, kind: Kind, path: str, offset: int, reason: str, position: int = -1) -> Finding:
        finding = Finding(kind, self.log.name, path, offset, reason, position)
        self.findings.append(finding)
        return finding

    def _offsets(self, data: Buffer, batch: Batch, path: str, position: int) -> None:
        first, at = batch.header.base_offset, self.at
        if first < at.next and not at.is_first:
            self._out_of_place(data, batch, path, position)
            return
        self._miss(first, path, position)
        if batch.header.flags & OFFSET_DELTA and not rows.rises(batch.offsets()):
            self.found(Kind.ORDER, path, first, "its offsets do not rise from record to record", position)
        at.next = max(at.next, batch.next_offset)

    def _miss(self, first: int, path: str, position: int = -1) -> None:
        """There is nothing between the last batch and that offset."""
        at = self.at.next
        if first <= at or self._may_skip(first):
            return
        reason = f"offsets {at}..{first} are missing, and neither compaction nor a crash explains it"
        self._gaps[at, first] = self.found(Kind.GAP, path, at, reason, position)

    def _out_of_place(self, data: Buffer, batch: Batch, path: str, position: int) -> None:
        """It begins where others lie already: the same once more, or one that is missing elsewhere."""
        first, end = batch.header.base_offset, batch.next_offset
        if self._is_stored_twice(data, position):
            reason = f"the batch of offsets {first}..{end} is stored twice"
            self.found(Kind.DUPLICATE, path, first, reason, position)
            return
        if (gap := self._gaps.pop((first, end), None)) is not None:
            self.findings.remove(gap)
        reason = f"the batch of offsets {first}..{end} lies behind offset {self.at.next}"
        self.found(Kind.ORDER, path, first, reason, position)

    def _is_stored_twice(self, data: Buffer, position: int) -> bool:
        """Whether its file has the same bytes further in front; looked up only so often."""
        if position <= 0 or len(self.findings) > _LOOKED_UP:
            return False
        return bytes(self.file[:position]).find(bytes(data)) >= 0

    def _times(self, batch: Batch, path: str, position: int) -> None:
        header, at = batch.header, self.at
        if header.base_timestamp < at.timestamp:
            reason = f"its time {header.base_timestamp} is before {at.timestamp}, that of the record before it"
            self.found(Kind.ORDER, path, header.base_offset, reason, position)
        if header.flags & TIMESTAMP_DELTA and not _never_falls(batch):
            self.found(Kind.ORDER, path, header.base_offset, "times fall from record to record", position)
        if at.first_ms < 0:
            at.first_ms = header.base_timestamp
        at.timestamp = max(at.timestamp, header.max_timestamp)

    def _producer(self, header: Header, path: str, position: int) -> None:
        """Sequences are 32 bits wide and begin anew behind the last one."""
        known = self.at.producers.get(header.producer_id)
        following = header.base_sequence + header.count & 0xFFFFFFFF
        if known is not None and known.epoch == header.producer_epoch:
            ahead = header.base_sequence - known.following & 0xFFFFFFFF
            if ahead > 1 << 31:
                reason = (
                    f"producer {header.producer_id} wrote sequence {header.base_sequence} after {known.following - 1}"
                )
                self.found(Kind.DUPLICATE, path, header.base_offset, reason, position)
                return
        self.at.producers[header.producer_id] = _Sequence(header.producer_epoch, following)

    def _may_skip(self, first: int) -> bool:
        """Whether the offsets from the next one up to `first` are missing on purpose."""
        if self.log.may_have_holes:
            return True
        gap = first - self.at.next
        skipped = sum(max(0, min(e.start, first) - max(e.previous_end, self.at.next)) for e in self.log.epochs)
        # A live log may have skipped offsets when it was opened, after its last checkpoint.
        return skipped == gap or (self._piece.is_live and gap % OFFSET_GAP == 0)


class _Folded:
    """Of a directory that nobody has open: file by file, then what only the journal has."""

    def __init__(self, check: _LogCheck, directory: FoldedDirectory, piece: LogPiece) -> None:
        self._check, self._directory, self._piece = check, directory, piece

    def run(self) -> None:
        log = self._directory.written(self._piece.log.number)
        for segment in segments_of(log)[self._piece.first : self._piece.stop]:
            info, pending = info_of(segment), pending_of(segment)
            in_file = info if isinstance(segment, SealedSegment) else _written(segment)
            check_segment(self._check, self._directory.disk, segment.path, in_file, pending, info)


class _Live:
    """Of a directory that a broker is writing to, as far as it was published when the job was planned. Sealed segments
    never change; the last one is read as far as it is published."""

    def __init__(self, check: _LogCheck, directory: LiveDirectory, piece: LogPiece) -> None:
        self._check, self._directory, self._piece = check, directory, piece
        self._disk = RealDisk(Path(piece.place.path))

    def run(self) -> None:
        log = self._piece.log
        for info in self._piece.segments:
            if info.max_timestamp > _LATEST_MS:
                self._active(info)
            elif self._is_there(info):
                check_segment(self._check, self._disk, log.path(info), info, [], info)
            else:
                self._check.at.next = max(self._check.at.next, info.end)

    def _is_there(self, info: SegmentInfo) -> bool:
        """False once retention or compaction took it away, of which the table is told a moment after the file went."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._disk.exists(self._piece.log.path(info)):
            try:
                cut = self._directory.reader.cut(self._piece.log.number)
            except NoSuchLog:
                return False
            listed = [*cut.sealed, *([cut.active] if cut.active is not None else [])]
            if all((other.base, other.version) != (info.base, info.version) for other in listed):
                return False
            if time.monotonic() > deadline:
                return True
            time.sleep(_PAUSE_S)
        return True

    def _active(self, info: SegmentInfo) -> None:
        self._check.segments += 1
        log, path = self._piece.log, self._piece.log.path(info)
        first = max(info.base, log.start)
        if log.start > info.base:
            self._check.pass_to(first)
        else:
            self._check.expect(first, path)
        try:
            for data in self._directory.batches(log.number, first, log.end):
                self._check.take(data, path, -1)
        except (OffsetOutOfRange, NoSuchLog):
            return  # trimmed or deleted meanwhile
        except LogDamaged as error:
            if self._is_there(info):
                self._check.found(Kind.DAMAGED, error.file, self._check.at.next, error.reason, error.position)


def _written(segment: ActiveSegment) -> SegmentInfo:
    """What of it is in its file."""
    return msgspec.structs.replace(segment.info(), bytes=segment.written_bytes)


def _never_falls(batch: Batch) -> bool:
    times = batch.timestamps()
    return all(times[i] <= times[i + 1] for i in range(len(times) - 1))
