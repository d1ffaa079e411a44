"""Compaction: the last record of each key stays, under its own offset and in its place; what it superseded goes,
but not before it is itself older than the lag: who takes an end and reads up to it within that time finds every key.

plan_compaction() decides, execute() copies to new names and syncs, and the edit it returns makes the swap once it is
staged: until that frame is durable the old segments count, from then on the new ones."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from penstock.core.errors import CorruptBatch, LogDamaged, TooLarge
from penstock.core.ports import Buffer, Disk, File
from penstock.core.types import FilePosition
from penstock.kernels.folded import INDEX_STEP_BYTES
from penstock.log.batch import read_header, select_rows
from penstock.log.records import Compaction, Edit, LogSettings, SegmentInfo
from penstock.log.segments.index import index_path, save_index
from penstock.log.segments.segments import (
    SealedSegment,
    SparseIndex,
    WrittenView,
    compacted_version_after,
    is_compacted,
    segment_path,
)
from penstock.log.segments.survivors import BatchTable, Marks, Question, Verdict, all_but, judge, map_segment, table_of
from penstock.log.upkeep.retention import segment_limits

logger = logging.getLogger("penstock.log.compaction")

# About 100 bytes a key in a set: 50 MB at most. More keys than this take more walks over the log, not more memory.
MAX_KEYS = 500_000
# Batches that stay as they are go to the new file in pieces of about this size.
_COPY_BYTES = 1 << 20


def _nothing() -> None:
    return


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What the last compaction of a log left: superseded records only from `end` on, tombstones up to that time."""

    end: int
    newest_tombstone_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What one compaction reads and may replace."""

    log: str
    candidates: tuple[SealedSegment, ...]
    """the oldest segments, older than the lag: what they hold may go, and nothing else supersedes it"""
    policy: Compaction
    segment_bytes: int
    now_ms: int
    kept: array[int] | None = None
    """the offsets that stay, in rising order, whatever is superseded: of one candidate. None: those that the policy
    keeps"""

    @property
    def end(self) -> int:
        return self.candidates[-1].info.end

    @property
    def directory(self) -> str:
        return self.candidates[0].path.rpartition("/")[0]

    @property
    def bytes(self) -> int:
        return sum([segment.info.bytes for segment in self.candidates])


@dataclass(frozen=True, slots=True)
class Compacted:
    """`edit` is None where there was nothing to remove and nothing to join."""

    edit: Edit | None
    cleaned: Cleaned
    removed_records: int
    removed_bytes: int


def plan_compaction(
    log: str,
    view: WrittenView,
    checkpointed: Container[SegmentInfo],
    settings: LogSettings,
    now_ms: int,
    *,
    cleaned: Cleaned | None = None,
    stable_end: int | None = None,
) -> Plan | None:
    """What to compact now, None if it does not pay yet. Pure.

    `cleaned` is what the last compaction left, None if that is not known. Records at and above `stable_end` may still
    be cut off, so they supersede nothing."""
    policy = settings.compaction
    if policy is None:
        return None
    sealed = [segment for segment in view.sealed if stable_end is None or segment.info.end <= stable_end]
    oldest_ms = now_ms - policy.lag_s * 1000
    candidates = tuple(
        takewhile(lambda each: each.info in checkpointed and each.info.max_timestamp <= oldest_ms, sealed)
    )
    if not candidates or not _is_due(candidates, policy, now_ms, cleaned or _cleaned_before(candidates)):
        return None
    return Plan(log, candidates, policy, segment_limits(settings).bytes, now_ms)


def execute(plan: Plan, disk: Disk, *, max_keys: int = MAX_KEYS, between: Callable[[], None] = _nothing) -> Compacted:
    """The heavy part, for a thread of its own: reads the plan's segments, writes and syncs the new ones. Nothing counts
    until the edit is staged; if it will not be, give it to discard().

    `between` is called between batches; what it raises ends the work. On any error no new file is left. LogDamaged if a
    segment is not what the list says, FileNotFoundError if one is gone: to be expected when the log was cut, trimmed or
    deleted meanwhile."""
    tombstone_ms = plan.now_ms - plan.policy.tombstone_s * 1000
    if plan.kept is None:
        question = Question(plan.log, plan.candidates, plan.policy.property, tombstone_ms)
        verdict = judge(question, disk, max_keys, between)
    else:
        [candidate] = plan.candidates
        verdict = Verdict([all_but(plan.log, candidate, plan.kept, disk, between)])
    packer = _Packer(plan, disk, between)
    try:
        for segment, marks in zip(plan.candidates, verdict.marks, strict=True):
            packer.add(segment, marks)
        edit = packer.finish()
    except Exception:
        packer.abandon()
        raise
    removed_bytes = packer.removed_bytes - sum([info.bytes for info in edit.added])
    cleaned = Cleaned(plan.end, verdict.newest_tombstone_ms)
    return Compacted(edit if edit != Edit() else None, cleaned, packer.removed_records, removed_bytes)


def discard(plan: Plan, edit: Edit, disk: Disk) -> None:
    """Remove the files of an edit that was not staged. Never for one that was, whatever became of its commit."""
    for info in edit.added:
        _unlink(disk, segment_path(plan.directory, info.base, info.version))


def _is_due(candidates: tuple[SealedSegment, ...], policy: Compaction, now_ms: int, cleaned: Cleaned) -> bool:
    """Enough was written since, or the tombstones that were left are old enough to go, all of them."""
    total = sum([segment.info.bytes for segment in candidates])
    dirty = sum([segment.info.bytes for segment in candidates if segment.info.base >= cleaned.end])
    if dirty and dirty >= policy.dirty_ratio * total:
        return True
    newest_ms = cleaned.newest_tombstone_ms
    return newest_ms is not None and newest_ms <= now_ms - policy.tombstone_s * 1000


def _cleaned_before(candidates: tuple[SealedSegment, ...]) -> Cleaned:
    """After opening: those at the front that compaction made."""
    clean = list(takewhile(lambda segment: is_compacted(segment.info), candidates))
    return Cleaned(clean[-1].info.end if clean else 0)


def _unlink(disk: Disk, path: str) -> None:
    try:
        disk.unlink(path)
        disk.unlink(index_path(path))
    except OSError as error:
        logger.warning("file of a given-up compaction not removed file=%s error=%s", path, error)


@dataclass(slots=True)
class _Output:
    """A new segment in the making. It gets a file only when it will differ from its one source."""

    sources: list[SealedSegment]
    file: File | None = None
    bytes: int = 0
    records: int = 0
    first_timestamp: int = 0
    max_timestamp: int = 0
    index: SparseIndex = field(default_factory=SparseIndex)

    @property
    def version(self) -> int:
        return compacted_version_after(self.sources[0].info.version)

    def note(self, batch: Buffer, position: int) -> None:
        header = read_header(batch)
        if not self.records:
            self.first_timestamp = header.base_timestamp
        if not self.index.positions or position - self.index.positions[-1] >= INDEX_STEP_BYTES:
            self.index.add(header.base_offset, position, self.max_timestamp)
        self.records += header.count
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)

    def append(self, file: File, batches: list[Buffer], size: int) -> None:
        if batches:
            file.write(FilePosition(self.bytes), [b"".join(batches)])
            self.bytes += size

    def info(self) -> SegmentInfo:
        base, end = self.sources[0].info.base, self.sources[-1].info.end
        return SegmentInfo(base, self.version, end, self.bytes, self.records, self.first_timestamp, self.max_timestamp)


@dataclass(slots=True)
class _Survivors:
    """The batches of one segment without the marked rows."""

    log: str
    disk: Disk
    segment: SealedSegment
    marks: Marks
    _pieces: list[Buffer] | None = None

    def bytes(self, between: Callable[[], None]) -> int:
        if not self.marks.total:
            return self.segment.info.bytes
        return sum([len(piece) for piece in self.pieces(between)])

    def pieces(self, between: Callable[[], None]) -> list[Buffer]:
        """Views of the old file for batches that stay as they are; only thinned ones take memory."""
        if self._pieces is None:
            data = map_segment(self.disk, self.segment)
            table = table_of(self.log, data, self.segment)
            if len(table) != len(self.marks.per_batch):
                raise LogDamaged(self.log, self.segment.path, 0, "it is not the file that was read before")
            self._pieces = list(self._thinned(data, table, between))
        return self._pieces

    def _thinned(self, data: memoryview, table: BatchTable, between: Callable[[], None]) -> Iterator[Buffer]:
        for i in range(len(table)):
            between()
            batch, first, stop = data[table.positions[i] : table.positions[i + 1]], table.rows[i], table.rows[i + 1]
            gone = self.marks.per_batch[i]
            if not gone:
                yield batch
            elif gone < stop - first:
                yield self._thin(batch, table.positions[i], self.marks.unmarked(first, stop))

    def _thin(self, batch: memoryview, position: int, picked: array[int]) -> Buffer:
        try:
            return select_rows(batch, picked)
        except TooLarge:
            return batch  # the offsets of what is left would not fit beside it
        except CorruptBatch as error:
            raise LogDamaged(self.log, self.segment.path, position, error.reason) from error


class _Packer:
    """Survivors into new segments, neighbours that fit together into one. A segment that loses nothing and gains no
    neighbour stays the file it is."""

    def __init__(self, plan: Plan, disk: Disk, between: Callable[[], None]) -> None:
        self._plan, self._disk, self._between = plan, disk, between
        self._output: _Output | None = None
        self._unchanged: _Survivors | None = None
        """the one source of an output without a file"""
        self._created: list[str] = []
        self._removed: list[SealedSegment] = []
        self._added: list[SegmentInfo] = []
        self.removed_records = 0

    @property
    def removed_bytes(self) -> int:
        """of the segments that go, before what comes for them"""
        return sum([segment.info.bytes for segment in self._removed])

    def add(self, segment: SealedSegment, marks: Marks) -> None:
        self.removed_records += marks.total
        if marks.total == segment.info.records:
            self._removed.append(segment)
            return
        survivors = _Survivors(self._plan.log, self._disk, segment, marks)
        if self._output is None or not self._join(self._output, survivors):
            self._close()
            self._begin(survivors)

    def finish(self) -> Edit:
        """The new segments are durable when this returns."""
        self._close()
        if self._added:
            self._disk.sync_directory(self._plan.directory)
        removed = tuple((segment.info.base, segment.info.version) for segment in self._removed)
        return Edit(removed=removed, added=tuple(self._added))

    def abandon(self) -> None:
        if self._output is not None and self._output.file is not None:
            self._output.file.close()
        for path in self._created:
            _unlink(self._disk, path)

    def _begin(self, survivors: _Survivors) -> None:
        self._output = _Output([survivors.segment], bytes=survivors.segment.info.bytes)
        if survivors.marks.total:
            self._open(self._output)
            self._copy(self._output, survivors)
        else:
            self._unchanged = survivors

    def _join(self, output: _Output, survivors: _Survivors) -> bool:
        """Append to the output if all of it fits."""
        if output.bytes + survivors.bytes(self._between) > self._plan.segment_bytes:
            return False
        if output.file is None:
            assert self._unchanged is not None
            self._open(output)
            self._copy(output, self._unchanged)
        self._copy(output, survivors)
        output.sources.append(survivors.segment)
        return True

    def _open(self, output: _Output) -> None:
        path = segment_path(self._plan.directory, output.sources[0].info.base, output.version)
        self._created.append(path)
        output.file, output.bytes = self._disk.create(path), 0

    def _copy(self, output: _Output, survivors: _Survivors) -> None:
        assert output.file is not None
        pending, pending_bytes = list[Buffer](), 0
        for piece in survivors.pieces(self._between):
            output.note(piece, output.bytes + pending_bytes)
            pending.append(piece)
            pending_bytes += len(piece)
            if pending_bytes >= _COPY_BYTES:
                output.append(output.file, pending, pending_bytes)
                pending, pending_bytes = [], 0
        output.append(output.file, pending, pending_bytes)

    def _close(self) -> None:
        output, self._output = self._output, None
        if output is None or output.file is None:
            return
        try:
            output.file.sync()
        finally:
            output.file.close()
        info = output.info()
        save_index(self._disk, segment_path(self._plan.directory, info.base, info.version), info, output.index)
        self._removed += output.sources
        self._added.append(info)
