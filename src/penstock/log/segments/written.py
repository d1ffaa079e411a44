"""A log as its segments have it: the keeper's fold over the frames, in the order of the journal."""

from __future__ import annotations

import logging

import msgspec

from penstock.core.errors import CorruptBatch
from penstock.core.ports import Clock
from penstock.core.types import LogName, LogNumber
from penstock.kernels.folded import FoldedLog
from penstock.log.journal.frames import Entry
from penstock.log.names import directory_of
from penstock.log.reading.bounds import Bounds
from penstock.log.records import Edit, LogSettings, SegmentInfo
from penstock.log.segments.index import entries_below, save_index
from penstock.log.segments.segment_files import SegmentFiles
from penstock.log.segments.segments import (
    ActiveSegment,
    SealedSegment,
    WrittenView,
    reopen,
    segment_path,
    written_version_after,
)
from penstock.log.upkeep.checkpoint import LogState
from penstock.log.upkeep.retention import segment_limits

logger = logging.getLogger("penstock.log.segments")


class WrittenLog(FoldedLog):
    """Keeper thread only. Takes only frames that are durable in the journal, so whatever an edit destroys may go at
    once.
    take() changes memory and unlinks; writing is flush()'s, which may fail and be tried again."""

    bounds: Bounds
    active: ActiveSegment | None

    def __init__(
        self, files: SegmentFiles, clock: Clock, number: LogNumber, name: LogName, settings: LogSettings
    ) -> None:
        super().__init__(Bounds())
        self._files, self._clock = files, clock
        self.number, self.name, self.settings = number, name, settings
        self.directory = directory_of(name, number)
        self.sealed: list[SealedSegment] = []
        self.full: list[ActiveSegment] = []
        """take no more batches, to be sealed once their bytes are written"""
        self.next_version = 0
        """of segments begun from now on: above 0 once a file had to be given up"""
        self.list_version = 0
        self.outlived: list[str] = []
        """files that are no longer the log's, but that the last checkpoint names: they go after the next one"""
        self.dropped: list[str] = []
        """files that were trimmed or cut away, but that the last published cut names: they go after the next one"""
        self.stopped = ""
        """why it takes no records, if it does not"""
        self.aside: tuple[str, ...] = ()
        """of a stopped log: files with its frames behind `base`"""
        self.aside_bytes: tuple[int, ...] = ()
        """of the last of them: as in LogState"""
        self.base: LogState | None = None
        """of a stopped log: what checkpoints say of its segments from then on"""
        self.reached: Bounds | None = None
        """of a stopped log: its bounds with all that is kept aside, as far as that is known"""

    @classmethod
    def restored(
        cls, files: SegmentFiles, clock: Clock, name: LogName, settings: LogSettings, state: LogState
    ) -> WrittenLog:
        """As the checkpoint has it."""
        log = cls(files, clock, LogNumber(state.number), name, settings)
        log.bounds = Bounds(state.start, state.end, state.epochs)
        log.sealed = [
            SealedSegment(segment_path(log.directory, info.base, info.version), info) for info in state.sealed
        ]
        if state.active is not None:
            log.active = reopen(log.directory, state.active)
        if state.stopped:
            log.stopped, log.aside, log.base = state.stopped, state.aside, state
            log.aside_bytes = state.aside_bytes
        return log

    @property
    def last_timestamp(self) -> int:
        """Of its newest record, so that timestamps never decrease; 0 for a log without any."""
        if self.active is not None:
            return self.active.max_timestamp
        return self.sealed[-1].info.max_timestamp if self.sealed else 0

    @property
    def pending_bytes(self) -> int:
        active = self.active.pending_bytes if self.active is not None else 0
        return active + sum(segment.pending_bytes for segment in self.full)

    @property
    def settings(self) -> LogSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: LogSettings) -> None:
        self._settings = settings
        self._limits = limits = segment_limits(settings)
        self.segment_bytes, self.segment_age_ms = limits.bytes, int(limits.age_s * 1000)

    def take(self, entry: Entry) -> None:
        """Fold one entry of a frame."""
        if entry.edit is not None:
            self._take_edit(entry.edit)
        elif not self.has_taken(entry):
            if entry.end > self.bounds.start:
                self._begin_segment(entry).append(entry)
            self.bounds.end = entry.end

    @property
    def unwritten(self) -> list[ActiveSegment]:
        """What flush() will write."""
        unsealed = [*self.full, self.active] if self.active is not None else self.full
        return [segment for segment in unsealed if segment.pending]

    def flush(self) -> None:
        """Write what is pending. On OSError the rest stays pending."""
        while self.full:
            self._write(self.full[0])
            self._seal(self.full[0])
            del self.full[0]
        if (active := self.active) is not None:
            self._write(active)
            if active.records >= self._limits.records and not self.stopped:
                self._seal(active)
                self.active = None

    @property
    def is_due(self) -> bool:
        """Whether its last segment is to be sealed: so that retention reaches it where the log gets no more records, or
        where its settings have changed."""
        active, limits = self.active, self._limits
        if active is None or active.pending or self.stopped:
            return False
        is_full = active.written_bytes > limits.bytes or active.records >= limits.records
        return is_full or active.age_s(self._clock) >= limits.age_s

    def seal(self) -> None:
        """The last segment; call if it is due."""
        assert self.active is not None
        self._seal(self.active)
        self.active = None

    def view(self) -> WrittenView:
        """Call after flush(): what lies in files is all there is then."""
        active = self.active.view() if self.active is not None and self.active.exists else None
        bounds, sealed = self.bounds, tuple(self.sealed)
        return WrittenView(bounds.start, bounds.end, sealed, active, self.list_version, self.stopped)

    def state(self) -> LogState:
        """Call after flush()."""
        if self.base is not None:
            kept = {"stopped": self.stopped, "aside": self.aside, "name": self.name, "settings": self.settings}
            end = self.base.aside_end if self.reached is None else self.reached.end
            return msgspec.structs.replace(self.base, **kept, aside_bytes=self.aside_bytes, aside_end=end)
        active = self.active.info() if self.active is not None and self.active.exists else None
        sealed = tuple(segment.info for segment in self.sealed)
        bounds = self.bounds
        epochs, declared = tuple(bounds.epochs), (self.name, self.settings)
        return LogState(self.number, bounds.start, bounds.end, epochs, sealed, active, "", (), *declared)

    def paths(self) -> list[str]:
        """The files that hold its bytes."""
        unsealed = [*self.full, self.active] if self.active is not None else self.full
        return [segment.path for segment in self.sealed] + [segment.path for segment in unsealed if segment.exists]

    def written_files(self) -> list[tuple[str, int]]:
        """Its files, and how many bytes of each were written."""
        sealed = [(segment.path, segment.info.bytes) for segment in self.sealed]
        unsealed = [*self.full, self.active] if self.active is not None else self.full
        return sealed + [(segment.path, segment.written_bytes) for segment in unsealed if segment.exists]

    def remove_files(self) -> None:
        """The log was deleted."""
        for path in [*self.paths(), *self.outlived, *self.dropped, *self.aside]:
            self._files.unlink(path)
        self._files.remove_directory(self.directory)

    def unlink_dropped(self) -> None:
        """Readers know that they are gone."""
        gone, self.dropped = self.dropped, []
        for path in gone:
            self._files.unlink(path)

    def unlink_outlived(self, count: int) -> None:
        """A checkpoint that no longer names the first `count` of them is durable."""
        gone, self.outlived = self.outlived[:count], self.outlived[count:]
        for path in gone:
            self._files.unlink(path)

    def _write(self, segment: ActiveSegment) -> None:
        if not segment.pending:
            return
        if not segment.exists:
            self._files.create(segment.path)
            segment.exists = True
        self._files.write(segment.path, segment.written_bytes, segment.pending_data, segment.pending_bytes)
        segment.written()

    def _begin_segment(self, entry: Entry) -> ActiveSegment:
        if self.active is not None:
            self.full.append(self.active)
        now = self._clock.monotonic()
        self.active = ActiveSegment(self.directory, entry.first, self.next_version, entry.first, now)
        self.list_version += 1
        return self.active

    def _seal(self, active: ActiveSegment) -> None:
        segment = active.seal()
        save_index(self._files.disk, segment.path, segment.info, active.index)
        self.sealed.append(segment)
        self.list_version += 1
        self._files.metrics.segments_sealed += 1
        logger.debug("segment sealed log=%s base=%d bytes=%d", self.name, segment.info.base, segment.info.bytes)

    def _take_edit(self, edit: Edit) -> None:
        end = self.bounds.end
        self.bounds.apply(edit)
        if edit.end is not None and edit.end < end:
            self._cut_to(edit.end)
        elif edit.end is not None and edit.end > end:
            self._begin_anew()
        if edit.adopted:
            self._adopt(edit.adopted)
        if edit.start is not None:
            self._trim_to(edit.start)
        if edit.removed or edit.added:
            self._swap(edit)

    def _begin_anew(self) -> None:
        """Offsets were skipped: the next record begins a segment of its own."""
        if self.active is not None:
            self.full.append(self.active)
            self.active = None

    def _adopt(self, infos: tuple[SegmentInfo, ...]) -> None:
        """Whole files, synced before the frame that names them: in line behind what is still to be sealed."""
        self._begin_anew()
        self.full += [reopen(self.directory, info) for info in infos]

    def _trim_to(self, start: int) -> None:
        while self.sealed and self.sealed[0].info.end <= start:
            self._drop(self.sealed.pop(0).path)
        while self.full and self.full[0].end <= start:
            self._give_up(self.full.pop(0))
        if self.active is not None and self.active.end <= start:
            self._give_up(self.active)
            self.active = None

    def _cut_to(self, end: int) -> None:
        """`end` is the first offset of a batch: the shard sees to that."""
        unsealed = [*self.full, self.active] if self.active is not None else self.full
        self._pass_versions(unsealed)
        while unsealed and unsealed[-1].base >= end:
            self._give_up(unsealed.pop())
        self.full, self.active = unsealed, None
        if unsealed and unsealed[-1].end > end:
            self.active = self._cut_unsealed(unsealed.pop(), end)
        elif not unsealed:
            self._cut_sealed(end)
        self.list_version += 1

    def _pass_versions(self, unsealed: list[ActiveSegment]) -> None:
        """A name is not used again after a cut: a swap under way must not take the new file for the old one."""
        versions = [segment.version for segment in unsealed] + [segment.info.version for segment in self.sealed]
        self.next_version = written_version_after(max([self.next_version, *versions]))

    def _cut_unsealed(self, segment: ActiveSegment, end: int) -> ActiveSegment | None:
        segment.drop_pending_from(end)
        if segment.pending or not segment.exists:
            return segment if segment.pending else None
        return self._reopen_below(segment.seal(), end)

    def _cut_sealed(self, end: int) -> None:
        while self.sealed and self.sealed[-1].info.base >= end:
            self._drop(self.sealed.pop().path)
        if self.sealed and self.sealed[-1].info.end > end:
            self.active = self._reopen_below(self.sealed.pop(), end)

    def _reopen_below(self, segment: SealedSegment, end: int) -> ActiveSegment | None:
        """What is left goes to a file of a new name. A file is never cut or written over below its end: somebody may
        have it mapped, and the checkpoint names it until the next one. Of a compacted segment nothing may be left."""
        info = segment.info
        try:
            data = self._files.map(segment.path)
        except FileNotFoundError:
            # Replay: what comes later in the journal took the file away. If nothing does, recovery finds it missing.
            return reopen(self.directory, info)
        try:
            kept = list(entries_below(self.number, data[: info.bytes], end))
        except CorruptBatch:
            return reopen(self.directory, info)  # as it is: who reads it is told
        if len(data) < info.bytes:
            return reopen(self.directory, info)  # recovery finds it short
        active = ActiveSegment(self.directory, info.base, self.next_version, info.base, self._clock.monotonic())
        for entry in kept:
            active.append(entry)
        active.first_timestamp, active.end = info.first_timestamp, end
        self.outlived.append(segment.path)
        return active if active.pending else None

    def _swap(self, edit: Edit) -> None:
        """Compaction's result takes the place of what it was made from, unless that has changed in the meantime."""
        removed = set(edit.removed)
        old = [segment for segment in self.sealed if (segment.info.base, segment.info.version) in removed]
        new = [SealedSegment(segment_path(self.directory, info.base, info.version), info) for info in edit.added]
        if not old or len(old) != len(removed):
            for segment in new:
                self._files.unlink(segment.path)
            return
        kept = [segment for segment in self.sealed if segment not in old]
        self.sealed = sorted([*kept, *new], key=lambda segment: segment.info.base)
        self.outlived += [segment.path for segment in old]
        self.list_version += 1

    def _give_up(self, segment: ActiveSegment) -> None:
        if segment.exists:
            self._drop(segment.path)

    def _drop(self, path: str) -> None:
        self.list_version += 1
        self.dropped.append(path)
