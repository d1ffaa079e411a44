"""Queues copied to partitioned Parquet, on from where the last run ended: each row once, wherever a run was killed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from penstock.core.errors import InvalidArgument
from penstock.jobs.archive_manifest import ArchivedFile, Manifest, Range, missing, read_manifest, write_manifest
from penstock.jobs.archive_write import ArchivePiece, WrittenPiece, write_piece
from penstock.jobs.files import COMPRESSIONS, exclusive, is_unfinished
from penstock.jobs.job import Job, Progress, Runner, run
from penstock.jobs.ranges import ALL_TIMES, SPLIT_ROWS, QueueRange, TimeSpan
from penstock.queues.names import DEFAULT_NAMESPACE
from penstock.tables.table import Partition, QueueTable, TableDirectory


@dataclass(frozen=True, slots=True)
class ArchiveRequest:
    directory: Path
    queues: Sequence[str]
    archive: Path
    namespace: str = DEFAULT_NAMESPACE
    span: TimeSpan = ALL_TIMES
    compression: str = "zstd"
    split_rows: int = SPLIT_ROWS


class Lost(msgspec.Struct, frozen=True):
    """Offsets that were trimmed before they were archived."""

    queue: str
    partition: int
    first: int
    end: int


class ArchiveReport(msgspec.Struct, frozen=True):
    """What one run did."""

    archive: str
    files: int
    rows: int
    size_bytes: int
    lost: tuple[Lost, ...]
    total_files: int
    total_rows: int


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    manifest: Manifest
    pieces: list[ArchivePiece]
    lost: list[tuple[ArchivePiece, Range]]
    """gone already, with an empty piece of their partition"""

    @property
    def rows(self) -> int:
        """About so many."""
        return sum(piece.source.rows for piece in self.pieces)

    @property
    def size_bytes(self) -> int:
        return sum(piece.source.size_bytes for piece in self.pieces)


def plan_archive(request: ArchiveRequest) -> ArchivePlan:
    """What a run would do now; changes nothing. NoSuchQueue, DirectoryFormat; InvalidArgument for an archive of another
    directory."""
    if request.compression not in COMPRESSIONS:
        raise InvalidArgument(f"no compression {request.compression!r}: there are {', '.join(COMPRESSIONS)}")
    plan = ArchivePlan(_manifest(request), [], [])
    opened = TableDirectory(request.directory)
    with closing(opened):
        for queue in request.queues:
            table = opened.table(queue, request.namespace)
            for partition in table.partitions():
                _plan_partition(request, plan, opened, table, partition)
    return plan


def archive(request: ArchiveRequest, runner: Runner, progress: Progress | None = None) -> ArchiveReport:
    """Every row there is now and that is not in the archive yet. Run again after whatever stopped it, it goes on."""
    with exclusive(request.archive):
        plan = plan_archive(request)
        remove_leftovers(request.archive, plan.manifest)
        written = _Written(request.archive, plan.manifest)
        for piece, lost in plan.lost:
            written.note(piece, lost, [], [lost])
        job = Job("archiving", plan.pieces, write_piece, list[WrittenPiece], lambda piece: piece.source.rows)
        run(job, runner, progress, written)
        return written.report()


class _Written:
    """The manifest, replaced after each piece: what is in it is done."""

    def __init__(self, archive: Path, manifest: Manifest) -> None:
        self._archive, self._manifest = archive, manifest
        self._files: list[ArchivedFile] = []
        self._lost: list[Lost] = []

    def result(self, piece: ArchivePiece) -> WrittenPiece | None:
        """The plan has only what is not done."""
        return None

    def record(self, piece: ArchivePiece, result: WrittenPiece) -> None:
        done = Range(piece.source.start, piece.source.stop)
        self.note(piece, done, result.files, result.lost)

    def note(self, piece: ArchivePiece, done: Range, files: Sequence[ArchivedFile], lost: Sequence[Range]) -> None:
        source = piece.source
        coverage = self._manifest.coverage(source.queue, source.partition, piece.log)
        self._manifest = self._manifest.with_piece(coverage, done, files, lost)
        write_manifest(self._archive, self._manifest)
        self._files += files
        self._lost += [Lost(source.queue, source.partition, *each) for each in lost]

    def report(self) -> ArchiveReport:
        return ArchiveReport(
            archive=str(self._archive),
            files=len(self._files),
            rows=sum(file.rows for file in self._files),
            size_bytes=sum(file.size_bytes for file in self._files),
            lost=tuple(self._lost),
            total_files=len(self._manifest.files),
            total_rows=self._manifest.rows,
        )


def remove_leftovers(archive: Path, manifest: Manifest) -> int:
    """Files that a run which was killed had written and not entered, and those it was at; how many there were."""
    known = {archive / file.path for file in manifest.files}
    leftovers = [path for path in archive.glob("queue=*/**/*") if path.is_file() and path not in known]
    leftovers += [path for path in archive.glob("*") if is_unfinished(path)]
    for path in leftovers:
        path.unlink()
    return len(leftovers)


def _manifest(request: ArchiveRequest) -> Manifest:
    source = str(request.directory.resolve())
    found = read_manifest(request.archive)
    if found is None:
        return Manifest(source, request.namespace)
    if (found.source, found.namespace) != (source, request.namespace):
        raise InvalidArgument(
            f"{request.archive} is the archive of namespace {found.namespace!r} of {found.source}, not of "
            f"{request.namespace!r} of {source}: give another directory to archive to, or, if the data directory was "
            f"moved, change `source` in the manifest"
        )
    return found


def _plan_partition(
    request: ArchiveRequest, plan: ArchivePlan, opened: TableDirectory, table: QueueTable, partition: Partition
) -> None:
    log = opened.logs_of(table.queue, table.namespace).get(partition.number)
    if log is None:
        return
    wanted = _wanted(table, partition, request.span)
    coverage = plan.manifest.coverage(table.queue, partition.number, log.number)
    size_bytes, rows = table.size_bytes(partition), table.row_map(partition.number)
    whole_rows = max(rows.rows(partition.start, partition.end), 1)
    place = str(request.directory.resolve()), table.namespace, table.queue, partition.number

    def piece(part: Range, count: int) -> ArchivePiece:
        source = QueueRange(*place, part.first, part.end, count, size_bytes * count // whole_rows)
        return ArchivePiece(source, str(request.archive.resolve()), int(log.number), request.compression)

    for gap in missing(wanted, coverage.covered):
        lost = Range(gap.first, min(gap.end, partition.start))
        if lost.first < lost.end:
            plan.lost.append((piece(Range(lost.end, lost.end), 0), lost))
        left = Range(max(gap.first, partition.start), gap.end)
        if left.first < left.end:
            pieces = rows.split(left.first, left.end, request.split_rows)
            plan.pieces.extend(piece(Range(first, end), count) for first, end, count in pieces)


def _wanted(table: QueueTable, partition: Partition, span: TimeSpan) -> Range:
    """From the first offset there ever was on, unless a time is given."""
    first = 0 if span.since_ms is None else table.offset_at_time(partition.number, span.since_ms)
    end = partition.end
    if span.until_ms is not None:
        end = min(end, table.offset_at_time(partition.number, span.until_ms))
    return Range(first, max(first, end))
