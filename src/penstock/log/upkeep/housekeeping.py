"""Housekeeping of a shard: moves the start of logs by their retention, and has them compacted, one at a time."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.core.errors import CorruptBatch, JournalFailed, NoSuchLog, PenstockError
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Clock, Disk
from penstock.core.timeline import Timeline
from penstock.core.types import LogNumber
from penstock.log.partition import Log
from penstock.log.reading.holes import Thinned
from penstock.log.records import Compaction, Edit, Retention, SegmentInfo
from penstock.log.segments.segments import SealedSegment, WrittenView, segment_path
from penstock.log.upkeep.checkpoint import LogState
from penstock.log.upkeep.compaction import Cleaned, Compacted, Plan, discard, execute, plan_compaction
from penstock.log.upkeep.faults import Telling
from penstock.log.upkeep.retention import decide, removed_by

logger = logging.getLogger("penstock.log.housekeeping")
telling = Telling(logger)
# Less than this is not worth a frame, nor a copy.
_KEPT_BYTES = 1 << 20
# A segment is thinned when less than this part of it is unsettled.
_THIN_PARTS = 4


class KeeperPort(Protocol):
    @property
    def views(self) -> Mapping[LogNumber, WrittenView]: ...
    @property
    def free_bytes(self) -> int: ...
    def checkpointed_state(self, number: LogNumber) -> LogState: ...


class EnginePort(Protocol):
    """What housekeeping needs of the engine."""

    @property
    def logs(self) -> Mapping[LogNumber, Log]: ...
    @property
    def keeper(self) -> KeeperPort: ...
    @property
    def metrics(self) -> ShardMetrics: ...
    def stage_edit(self, log: Log, edit: Edit, done: Callable[[PenstockError | None], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class Task:
    """One compaction under way. It counts only if no frame has changed the log's list of segments since."""

    log: Log
    plan: Plan
    list_sequence: int
    tables: dict[str, Thinned] = field(default_factory=dict)
    """of the segments it makes, by their paths"""


class Housekeeper:
    """Everything is the loop's, except perform(), which is for any thread. One task at a time: after plan() gave one,
    perform() it and call finish(), or fail() with what it raised; until then its log is left alone."""

    def __init__(
        self,
        engine: EnginePort,
        disk: Disk,
        clock: Clock,
        timeline: Timeline | None = None,
        *,
        reserve_bytes: int = 0,
        floor: Callable[[Log], int | None] = lambda log: None,
        unsettled: Callable[[Log, int, int], array[int] | None] = lambda log, first, stop: None,
    ) -> None:
        """`reserve_bytes` of the disk are left free by compaction. `floor`: of a log that lets go of what is settled,
        the first offset that some group has not; `unsettled`: those between two offsets, None where nobody knows."""
        self._engine, self._disk, self._clock = engine, disk, clock
        self._floor, self._unsettled = floor, unsettled
        self._timeline = timeline or Timeline(clock)
        self._reserve_bytes = reserve_bytes
        self._last_plan: dict[LogNumber, float] = {}
        self._looked_at: set[LogNumber] = set()
        """since the last retain()"""
        self._busy: Log | None = None
        self._cleaned: dict[LogNumber, tuple[int, Cleaned]] = {}
        """with the log's last cut then"""

    def retain(self) -> None:
        """Move the start of every log whose retention says so. JournalFailed; what else fails of one log is told, and
        the others go on."""
        self._looked_at.clear()
        for log in list(self._engine.logs.values()):
            try:
                self.retain_log(log)
            except JournalFailed:
                raise
            except (OSError, PenstockError) as error:
                self.note_failure("retention", log.name, error)

    def note_failure(self, what: str, name: str, error: Exception) -> None:
        """It is tried again with the next round."""
        self._engine.metrics.housekeeping_failures += 1
        telling.warn(what, "housekeeping failed what=%s log=%s error=%s", what, name, error)

    def retain_log(self, log: Log) -> None:
        """The same for one log, between two rounds."""
        if log.fault is None and log is not self._busy:
            self._timeline.look()
            self._retain(log)

    def let_go(self, log: Log) -> bool:
        """Whether a log holds so much that somebody has to look again. One that is settled to its end holds nothing any
        more, whatever segment that lies in."""
        floor, view = self._floor(log), self._engine.keeper.views.get(log.number)
        if log.fault is not None or floor is None or view is None or log.start == log.end:
            return False
        size = sum([segment.info.bytes for segment in view.sealed])
        size += 0 if view.active is None else view.active.info.bytes
        if size < _KEPT_BYTES:
            return bool(log.tail)
        if floor < log.end or log.high_watermark < log.end or log is self._busy:
            return True
        records = log.end - log.start
        self._engine.stage_edit(log, Edit(start=log.end), lambda error: None)
        metrics = self._engine.metrics
        metrics.retained_away_records += records
        metrics.retained_away_bytes += size
        logger.debug("settled to its end, let go of log=%s records=%d bytes=%d", log.name, records, size)
        return False

    def plan(self) -> Task | None:
        """The next log to compact, None if none is due. Looks at a log at most once after each retain()."""
        if self._busy is not None:
            return None
        now = self._clock.monotonic()
        self._forget_deleted()
        for number, log in self._engine.logs.items():
            policy = log.settings.compaction
            if log.fault is not None or not log.is_list_settled or number in self._looked_at:
                continue
            if policy is None:
                if (task := self._plan_thinning(log)) is not None:
                    self._looked_at.add(number)
                    self._busy = log
                    return task
                continue
            self._looked_at.add(number)
            last = self._last_plan.get(number)
            if last is not None and now - last < policy.interval_s:
                continue
            self._last_plan[number] = now
            if (task := self._plan(log)) is not None:
                self._busy = log
                return task
        return None

    def perform(self, task: Task, between: Callable[[], None] = lambda: None) -> Compacted:
        """The heavy part of a task. Raises what execute() does."""
        compacted = execute(task.plan, self._disk, between=between)
        for info in compacted.edit.added if compacted.edit is not None else ():
            segment = SealedSegment(segment_path(task.plan.directory, info.base, info.version), info)
            if (table := self.thinned(segment)) is not None:
                task.tables[segment.path] = table
        return compacted

    def thinned(self, segment: SealedSegment) -> Thinned | None:
        """None if it cannot be read now. Any thread."""
        try:
            return Thinned.read(self._disk, segment)
        except (OSError, CorruptBatch):
            return None

    def finish(self, task: Task, compacted: Compacted) -> None:
        """Stage the swap. If the log has changed under it, the work was for nothing and its files go. What it raises, a
        later round mends."""
        edit, self._busy = compacted.edit, None
        if not self._still_holds(task):
            self._clear(task, edit or Edit())
            return
        if edit is None:
            self._note(task.log, compacted.cleaned)
            return
        try:
            task.log.holes.tables.update(task.tables)
            self._engine.stage_edit(task.log, edit, lambda error: self._compacted(task, compacted, error))
        except PenstockError:
            discard(task.plan, edit, self._disk)
            raise

    def fail(self, task: Task, error: Exception) -> None:
        """perform() raised. A log that changed meanwhile explains it; otherwise it is said, and tried again later."""
        self._busy = None
        if not self._still_holds(task):
            self._clear(task, Edit())
        else:
            self._engine.metrics.compaction_failures += 1
            telling.warn("compaction", "compaction failed, tried again log=%s error=%s", task.log.name, error)

    def run(self) -> None:
        """All that is due, in this thread."""
        self.retain()
        while (task := self.plan()) is not None:
            try:
                compacted = self.perform(task)
            except (OSError, PenstockError) as error:
                self.fail(task, error)
            else:
                self.finish(task, compacted)

    def _retain(self, log: Log) -> None:
        floor, policy = self._floor(log), log.settings.retention
        view = self._engine.keeper.views.get(log.number)
        if view is None or (policy is None and floor is None):
            return
        start = decide(view, self._checkpointed(log), policy, self._now_ms(policy), floor)
        if start is None or not log.start < start <= log.end:
            return
        removed = removed_by(view, start)
        self._engine.stage_edit(log, Edit(start=start), lambda error: None)
        self._engine.metrics.retained_away_records += removed.records
        self._engine.metrics.retained_away_bytes += removed.bytes
        self._engine.metrics.segments_removed += removed.segments
        logger.info(
            "retention log=%s start=%d segments=%d records=%d bytes=%d",
            log.name,
            start,
            removed.segments,
            removed.records,
            removed.bytes,
        )

    def _now_ms(self, policy: Retention | None) -> int:
        """For its time: nothing is older because the wall clock was set forward."""
        time_ms = round(1000 * policy.time_s) if policy is not None and policy.time_s is not None else 0
        return self._timeline.stamped_by(self._timeline.now() - time_ms) + time_ms

    def _plan(self, log: Log) -> Task | None:
        view = self._engine.keeper.views.get(log.number)
        if view is None:
            return None
        plan = plan_compaction(
            log.name,
            view,
            self._checkpointed(log),
            log.settings,
            self._clock.now_ms(),
            cleaned=self._cleaned_before(log),
            stable_end=log.high_watermark,
        )
        if plan is None or plan.candidates[0].info.end <= log.start:
            return None
        free = self._engine.keeper.free_bytes - self._reserve_bytes
        if plan.bytes > free:
            telling.warn("room", "no room to compact log=%s bytes=%d free=%d", log.name, plan.bytes, free)
            return None
        return Task(log, plan, log.list_sequence)

    def _plan_thinning(self, log: Log) -> Task | None:
        """A segment of which little is unsettled, so that a straggler does not keep what is done with."""
        if self._floor(log) is None or (view := self._engine.keeper.views.get(log.number)) is None or not view.sealed:
            return None
        checkpointed = self._checkpointed(log)
        for segment in view.sealed:
            info = segment.info
            if info not in checkpointed or info.end > log.high_watermark:
                break
            if info.bytes < _KEPT_BYTES or info.end <= log.start:
                continue
            kept = self._unsettled(log, max(info.base, log.start), info.end)
            if kept is None or len(kept) * _THIN_PARTS >= info.records:
                continue
            plan = Plan(log.name, (segment,), Compaction(), info.bytes, self._clock.now_ms(), kept)
            if info.bytes // _THIN_PARTS > self._engine.keeper.free_bytes - self._reserve_bytes:
                continue
            return Task(log, plan, log.list_sequence)
        return None

    def _still_holds(self, task: Task) -> bool:
        """Whether the segments of the plan will be the log's when the keeper comes to a frame staged now."""
        log, first = task.log, task.plan.candidates[0].info
        return log.fault is None and log.list_sequence == task.list_sequence and first.end > log.start

    def _clear(self, task: Task, edit: Edit) -> None:
        """The work was for nothing. The directory of a deleted log could not go while a file was being made in it."""
        discard(task.plan, edit, self._disk)
        if isinstance(task.log.fault, NoSuchLog) and not self._disk.list(task.plan.directory):
            self._disk.remove_directory(task.plan.directory)

    def _compacted(self, task: Task, compacted: Compacted, error: PenstockError | None) -> None:
        if error is not None:
            return  # unknown: the files are named in a frame that may be there when the directory is opened again
        self._note(task.log, compacted.cleaned)
        metrics = self._engine.metrics
        metrics.compactions += 1
        metrics.compacted_records += compacted.removed_records
        metrics.compacted_bytes += compacted.removed_bytes
        logger.info(
            "compacted log=%s end=%d records=%d bytes=%d",
            task.log.name,
            task.plan.end,
            compacted.removed_records,
            compacted.removed_bytes,
        )

    def _note(self, log: Log, cleaned: Cleaned) -> None:
        self._cleaned[log.number] = log.cut_sequence, cleaned

    def _cleaned_before(self, log: Log) -> Cleaned | None:
        """None if it was not compacted since it was opened; after a cut, new records may have taken cleaned offsets."""
        cut_sequence, cleaned = self._cleaned.get(log.number, (log.cut_sequence, None))
        return cleaned if cut_sequence == log.cut_sequence else Cleaned(0)

    def _checkpointed(self, log: Log) -> frozenset[SegmentInfo]:
        return frozenset(self._engine.keeper.checkpointed_state(log.number).sealed)

    def _forget_deleted(self) -> None:
        for number in self._last_plan.keys() - self._engine.logs.keys():
            del self._last_plan[number]
            self._cleaned.pop(number, None)
