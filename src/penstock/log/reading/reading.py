"""Reading a log beside its writer, in the same process: the hot tail, then the files; never past the visible end."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from typing import NoReturn, TypeVar

from penstock.core.errors import LogDamaged, LogPoisoned, NoSuchLog, OffsetOutOfRange
from penstock.core.ports import Buffer, Disk
from penstock.core.types import LogNumber
from penstock.log.batch import next_offset, read_header
from penstock.log.journal.frames import Entry
from penstock.log.offline.damage import Damage, survey
from penstock.log.partition import Log
from penstock.log.reading.walk import (
    FileBytes,
    LearnedIndex,
    SegmentBytes,
    checked,
    checked_runs,
    end_of,
    first_at_time,
    first_row_at_time,
    from_offset,
    window_for,
)
from penstock.log.records import SegmentInfo
from penstock.log.segments.sealed import SegmentMaps
from penstock.log.segments.segments import ActiveView, SealedSegment, WrittenView

T = TypeVar("T")

# Scans take batches in pieces of this size, so that a slow one holds no more than that.
SCAN_BYTES = 1 << 20

OpenSegment = Callable[[], AbstractContextManager[SegmentBytes]]


class Gathering:
    """Batches for one answer, in order: at least one if there is any, otherwise no more than `max_bytes`."""

    def __init__(self, offset: int, stop: int, max_bytes: int) -> None:
        self.offset, self.stop, self.max_bytes = offset, stop, max_bytes
        self.batches: list[Buffer] = []
        self.has_room = True
        self._bytes = 0

    def add(self, data: Buffer) -> bool:
        """Whether another one may follow. Where there is no room for this one, nothing is added."""
        if not self.batches or self._bytes + len(data) <= self.max_bytes:
            self.batches.append(data)
            self._bytes += len(data)
            self.has_room = self._bytes < self.max_bytes
        else:
            self.has_room = False
        return self.has_room

    def take_segments(self, segments: Iterable[OpenSegment]) -> None:
        """Batches that end at or below `stop`, from the one that holds or follows `offset` on."""
        for open_segment in segments:
            with open_segment() as source:
                if not self._take(source):
                    return

    def _take(self, source: SegmentBytes) -> bool:
        """Whether to go on with the next segment."""
        batches = from_offset(source, self.offset, window_for(self.max_bytes))
        if source.learned is None:
            first = next(batches, None)
            return first is None or self._take_runs(source, first.position)
        for batch in batches:
            if batch.first + batch.records >= self.stop and end_of(source, batch) > self.stop:
                return False
            if not self.add(checked(source, batch)):
                return False
        return True

    def _take_runs(self, source: SegmentBytes, position: int) -> bool:
        for data, dense_end in checked_runs(source, position, window_for(self.max_bytes - self._bytes)):
            if dense_end >= self.stop and next_offset(data) > self.stop:
                return False
            if not self.add(data):
                return False
        return True


class LogReader:
    """Any thread. What it returns are views of the tail, of maps, or copies; they stay good however the log changes."""

    def __init__(self, disk: Disk, views: Mapping[LogNumber, WrittenView], cache_segments: int = 64) -> None:
        self._disk, self._views = disk, views
        self.maps = SegmentMaps(disk, cache_segments)
        self._learned: OrderedDict[str, LearnedIndex] = OrderedDict()
        self._learned_limit = cache_segments

    def read(self, log: Log, offset: int, max_bytes: int) -> list[Buffer]:
        """Whole batches in order, the first of which holds or follows `offset`: at least one if any is visible, at most
        `max_bytes` unless the first alone is larger. Offsets that name no record are stepped over. Empty at the visible
        end. OffsetOutOfRange below the start or above the end, LogDamaged where a file is not what it was, LogPoisoned
        where a stopped log has records that are kept aside."""
        return self._retried(log, lambda view, tail, stop: self._read(log, offset, max_bytes, view, tail, stop))

    def offset_at_time(self, log: Log, timestamp_ms: int) -> int:
        """The first visible offset whose record is not older than that; the visible end if there is none."""
        found = self._retried(log, lambda view, tail, stop: self._find_time(log, timestamp_ms, view, tail, stop))
        end = log.visible_end
        return end if found is None else min(found, end)

    def batches(self, log: Log, start: int, stop: int | None = None) -> Iterator[Buffer]:
        """Every batch from the one that holds or follows `start` on that begins below `stop`, or below what is the
        visible end now. OffsetOutOfRange if what is to come next is dropped meanwhile."""
        end = log.visible_end if stop is None else min(stop, log.visible_end)
        offset = start
        while offset < end and (piece := self.read(log, offset, SCAN_BYTES)):
            for data in piece:
                if read_header(data).base_offset >= end:
                    return
                yield data
            offset = next_offset(piece[-1])

    def readable(self, log: Log, start: int, told: Callable[[Damage], None]) -> Iterator[Buffer]:
        """As batches(), past damage: what cannot be read is told and passed over, and so is what a stopped log has
        kept aside."""
        offset, end = start, log.visible_end
        while offset < end:
            try:
                for data in self.batches(log, offset, end):
                    offset = next_offset(data)
                    yield data
                return
            except LogPoisoned as error:
                told(Damage("aside", 0, 0, offset, end, error.reason))
                return
            except LogDamaged:
                found = self._file_at(log, offset)
                if found is None:
                    raise
            path, info = found
            seen = survey(self._disk, log.number, path, info)
            for entry in seen.batches:
                if entry.end > offset and entry.first < end:
                    yield entry.data
            for damage in seen.damages:
                if damage.end > offset:
                    told(damage)
            offset = info.end

    def _file_at(self, log: Log, offset: int) -> tuple[str, SegmentInfo] | None:
        """The first file with records at or behind an offset."""
        view = self._views.get(log.number)
        if view is None:
            return None
        files = [(segment.path, segment.info) for segment in view.sealed]
        files += [(view.active.path, view.active.info)] if view.active is not None else []
        return next(((path, info) for path, info in files if info.end > offset), None)

    def _retried(self, log: Log, action: Callable[[WrittenView, list[Entry], int], T]) -> T:
        """A file can vanish between a look at the list and a look at the file; then the list has changed too."""
        while True:
            bounds = log.start, log.cut_sequence
            # In this order: what the tail has let go of is in the view that is taken after it.
            tail, files_end = list(log.tail), log.files_end
            view = self._views.get(log.number)
            if view is None:
                if isinstance(log.fault, NoSuchLog):
                    raise log.fault
                view = WrittenView(log.start, log.start)
            try:
                result = action(view, tail, min(files_end, tail[0].first) if tail else files_end)
                if log.cut_sequence == bounds[1]:
                    return result
            except FileNotFoundError as error:
                if self._is_current(log, view, bounds):
                    raise LogDamaged(log.name, str(error.filename or error), 0, "the file is missing") from error
            except LogDamaged:
                if self._is_current(log, view, bounds):
                    raise

    def _is_current(self, log: Log, view: WrittenView, bounds: tuple[int, int]) -> bool:
        return self._views.get(log.number) is view and bounds == (log.start, log.cut_sequence)

    def _read(
        self, log: Log, offset: int, max_bytes: int, view: WrittenView, tail: list[Entry], files_end: int
    ) -> list[Buffer]:
        end = log.visible_end
        if not log.start <= offset <= log.end:
            raise OffsetOutOfRange(log.name, offset, log.start, log.end)
        if offset >= end:
            return []
        files_stop = min(end, files_end)
        gathering = Gathering(offset, files_stop, max_bytes)
        if offset < files_stop:
            gathering.take_segments(self._segments(log, view, offset, files_stop))
            if view.stopped and view.end < files_stop and gathering.has_room:
                return gathering.batches or _refused(log, view)
        if gathering.has_room and files_stop < end:
            _take_tail(gathering, tail, end)
        return gathering.batches

    def _find_time(self, log: Log, timestamp: int, view: WrittenView, tail: list[Entry], files_end: int) -> int | None:
        for open_segment in self._segments_at_time(log, view, timestamp, files_end):
            with open_segment() as source:
                found = first_at_time(source, timestamp, log.start)
                if found is not None and found < files_end:
                    return found
        if view.stopped and view.end < min(files_end, log.visible_end):
            _refused(log, view)
        for batch in tail:
            if (found := first_row_at_time(batch.data, timestamp, log.start)) is not None:
                return found
        return None

    def _segments(self, log: Log, view: WrittenView, offset: int, stop: int) -> Iterator[OpenSegment]:
        """Those with records in offset..stop. Others may be gone: a cut takes files before the view knows of it."""
        first = bisect_right(view.sealed, offset, key=_end)
        for number in range(first, len(view.sealed)):
            if view.sealed[number].info.base >= stop:
                return
            yield self._sealed(log, view.sealed[number])
        if view.active is not None and view.active.info.end > offset and view.active.info.base < stop:
            yield self._active(log, view.active)

    def _segments_at_time(self, log: Log, view: WrittenView, timestamp: int, stop: int) -> Iterator[OpenSegment]:
        for segment in view.sealed:
            if segment.info.max_timestamp >= timestamp and segment.info.end > log.start and segment.info.base < stop:
                yield self._sealed(log, segment)
        active = view.active
        if active is not None and active.info.max_timestamp >= timestamp and active.info.base < stop:
            yield self._active(log, active)

    def _sealed(self, log: Log, segment: SealedSegment) -> OpenSegment:
        return lambda: nullcontext(self.maps.get(log.name, segment))

    def _active(self, log: Log, active: ActiveView) -> OpenSegment:
        """Its index, or, for a part that was there before the directory was opened, what reading has found out."""
        complete = bool(active.index.positions) and active.index.positions[0] == 0
        learned = None if complete else self._learned_of(active.path)
        indexes = [active.index] if learned is None else [active.index, learned.index]
        size = active.info.bytes
        return lambda: closing(
            FileBytes(log.name, active.path, size, self._disk.open_read(active.path), indexes, learned)
        )

    def _learned_of(self, path: str) -> LearnedIndex:
        """Least recently begun ones are forgotten; a lost race costs a scan."""
        learned = self._learned.setdefault(path, LearnedIndex())
        if len(self._learned) > self._learned_limit:
            self._learned.popitem(last=False)
        return learned


def _refused(log: Log, view: WrittenView) -> NoReturn:
    """Records that were acknowledged lie behind the view, and in no file that is read here: to step over them as over
    offsets that name none would settle them unseen."""
    raise LogPoisoned(log.name, view.stopped) if log.fault is None else log.fault


def _take_tail(gathering: Gathering, tail: list[Entry], end: int) -> None:
    for batch in tail:
        if batch.end > gathering.offset and (batch.end > end or not gathering.add(batch.data)):
            return


def _end(segment: SealedSegment) -> int:
    return segment.info.end
