"""Reading a data directory from another process: beside a live broker, after a clean close, or after a crash.

Takes no lock, writes nothing, and never takes the set of segments from a listing."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from penstock.core.errors import LogDamaged, NoSuchLog, OffsetOutOfRange
from penstock.core.ports import Buffer
from penstock.core.types import LogName, LogNumber
from penstock.log.batch import next_offset, read_header
from penstock.log.catalogue import Catalogue, changes
from penstock.log.disk import RealDisk
from penstock.log.names import CATALOGUE_NUMBER, directory_of
from penstock.log.reading.cuts import CutFinder, Cuts, DirectoryState, LogCut, LookAgain
from penstock.log.reading.extents import Extent, extents_of
from penstock.log.reading.reading import SCAN_BYTES, Gathering, OpenSegment
from penstock.log.reading.walk import FileBytes, LearnedIndex, SegmentBytes, first_at_time
from penstock.log.records import LogSettings, SegmentInfo
from penstock.log.segments.index import load_index
from penstock.log.segments.sealed import SegmentMaps
from penstock.log.segments.segments import SealedSegment, SparseIndex, segment_path

T = TypeVar("T")

# A trim unlinks files before the table tells of it; the keeper may be busy with a checkpoint in between.
PATIENCE_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.1
# Of compacted segments, some 24 KiB each.
_KEPT_INDEXES = 256


@dataclass(frozen=True, slots=True)
class OutsideLog:
    """A log of the directory; offsets start..end may be read now."""

    number: LogNumber
    name: LogName
    settings: LogSettings
    start: int
    end: int
    records: int


class DirectoryReader:
    """One thread. What it returns are views of maps, or copies; they stay good however the directory changes."""

    def __init__(
        self, path: Path, cache_segments: int = 64, patience_s: float = PATIENCE_S, *, follows: bool = False
    ) -> None:
        """DirectoryFormat if the path is not a data directory. After `patience_s` of contradictions it is an error.
        `follows`: until close(), a live broker shows what is new within some 5 ms instead of 200."""
        self._disk = RealDisk(path)
        self._patience_s = patience_s
        self._finder = CutFinder(self._disk, self._directory_of, follows)
        self._maps = SegmentMaps(self._disk, cache_segments)
        self._learned: OrderedDict[tuple[int, str], LearnedIndex] = OrderedDict()
        self._learned_limit = cache_segments
        self._indexes: OrderedDict[tuple[str, SegmentInfo], SparseIndex | None] = OrderedDict()
        self._catalogue, self._catalogue_end, self._catalogue_start_number = Catalogue(), 0, -1

    @property
    def state(self) -> DirectoryState:
        return self._finder.find().state

    def logs(self) -> list[OutsideLog]:
        """All logs but the catalogue, at one cut."""
        cuts = self._patiently(CATALOGUE_NUMBER, self._named_cuts)
        return [
            OutsideLog(number, LogName(declared.name), declared.settings, *cuts[number])
            for number, declared in self._catalogue.declared.items()
            if number != CATALOGUE_NUMBER and number in cuts
        ]

    def log(self, name: str) -> OutsideLog:
        """NoSuchLog if there is none of that name."""
        found = next((log for log in self.logs() if log.name == name), None)
        if found is None:
            raise NoSuchLog(name)
        return found

    def read(self, number: int, offset: int, max_bytes: int) -> list[Buffer]:
        """Whole batches in order, the first of which holds or follows `offset`: at least one if any may be read, at
        most `max_bytes` unless the first alone is larger. Empty at and above the end: wait, the log may also have been
        cut. OffsetOutOfRange below the start."""
        return self._patiently(number, lambda cuts: self._read(self._cut(cuts, number), offset, max_bytes))

    def offset_at_time(self, number: int, timestamp_ms: int) -> int:
        """The first offset whose record is not older than that; the end if there is none."""
        return self._patiently(number, lambda cuts: self._find_time(self._cut(cuts, number), timestamp_ms))

    def batches(self, number: int, start: int, stop: int | None = None) -> Iterator[Buffer]:
        """Every batch from the one that holds or follows `start` on that begins below `stop`, to the end there is."""
        offset = start
        while (stop is None or offset < stop) and (piece := self.read(number, offset, SCAN_BYTES)):
            for data in piece:
                if stop is not None and read_header(data).base_offset >= stop:
                    return
                yield data
            offset = next_offset(piece[-1])

    def cut(self, number: int) -> LogCut:
        """How far the log may be read now, and in which segments that lies."""
        return self._patiently(number, lambda cuts: self._cut(cuts, number))

    def extents(self, number: int) -> tuple[LogCut, list[Extent]]:
        """Where records lie as far as the log may be read now, and how far that is."""
        cut = self.cut(number)
        return cut, extents_of(cut, lambda info: self._index(number, info))

    def close(self) -> None:
        self._maps.clear()
        self._finder.close()

    def _patiently(self, number: int, action: Callable[[Cuts], T]) -> T:
        """Contradictions are looked at again: they pass when a live broker is at work."""
        deadline, pause = time.monotonic() + self._patience_s, _FIRST_PAUSE_S
        while True:
            cuts = self._finder.find()
            try:
                return action(cuts)
            except (LookAgain, FileNotFoundError, LogDamaged) as error:
                if time.monotonic() > deadline or self._is_settled(cuts):
                    raise self._damage(number, error) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _is_settled(self, cuts: Cuts) -> bool:
        """Nobody is changing anything, so that looking again gives the same."""
        now = self._finder.find()
        is_idle = now.state in (DirectoryState.CLOSED, DirectoryState.CRASHED)
        return is_idle and (cuts.identity, cuts.state) == (now.identity, now.state)

    def _damage(self, number: int, error: LookAgain | FileNotFoundError | LogDamaged) -> LogDamaged:
        """What it is when looking again did not help."""
        if isinstance(error, LogDamaged):
            return error
        file, reason = "table", str(error)
        if isinstance(error, FileNotFoundError):
            file, reason = str(error.filename or error), "the file is missing"
        declared = self._catalogue.declared.get(LogNumber(number))
        return LogDamaged(declared.name if declared is not None else str(number), file, 0, reason)

    def _cut(self, cuts: Cuts, number: int) -> LogCut:
        if number != CATALOGUE_NUMBER and number not in self._catalogue.declared:
            self._named_cuts(cuts)
        cut = cuts.cut(number)
        if cut is not None and number in self._catalogue.declared:
            return cut
        self._named_cuts(cuts)
        if number not in self._catalogue.declared:
            raise NoSuchLog(number)
        raise LookAgain(f"log {number} is in the catalogue and not in the table")

    def _named_cuts(self, cuts: Cuts) -> dict[int, tuple[int, int, int]]:
        """Every log at one cut, with the catalogue read at least as far as that cut."""
        found = cuts.all()
        cut = cuts.cut(CATALOGUE_NUMBER)
        if cut is None:
            return found
        if cut.start_number != self._catalogue_start_number or cut.end < self._catalogue_end:
            self._catalogue, self._catalogue_end = Catalogue(), cut.start
            self._catalogue_start_number = cut.start_number
        while batches := self._read(cut, max(self._catalogue_end, cut.start), SCAN_BYTES):
            for batch in batches:
                for change in changes(batch):
                    self._catalogue.apply(change)
            self._catalogue_end = next_offset(batches[-1])
        return found

    def _directory_of(self, number: int) -> str:
        name = self._catalogue.declared[LogNumber(number)].name
        return directory_of(LogName(name), LogNumber(number))

    def _name_of(self, number: int) -> str:
        return self._catalogue.declared[LogNumber(number)].name

    def _read(self, cut: LogCut, offset: int, max_bytes: int) -> list[Buffer]:
        if offset < cut.start:
            raise OffsetOutOfRange(self._name_of(cut.number), offset, cut.start, cut.end)
        gathering = Gathering(offset, cut.end, max_bytes)
        if offset < cut.end:
            gathering.take_segments(self._segments(cut, offset))
        return gathering.batches

    def _find_time(self, cut: LogCut, timestamp: int) -> int:
        first = bisect_right(cut.sealed, cut.start, key=_end)
        young = [info for info in cut.sealed[first:] if info.max_timestamp >= timestamp]
        active = [cut.active] if cut.active is not None and cut.active.max_timestamp >= timestamp else []
        for info in [*young, *active]:
            with self._open(cut, info)() as source:
                if (found := first_at_time(source, timestamp, cut.start)) is not None:
                    return min(found, cut.end)
        return cut.end

    def _segments(self, cut: LogCut, offset: int) -> Iterator[OpenSegment]:
        for info in cut.sealed[bisect_right(cut.sealed, offset, key=_end) :]:
            yield self._open(cut, info)
        if cut.active is not None:
            yield self._open(cut, cut.active)

    def _open(self, cut: LogCut, info: SegmentInfo) -> OpenSegment:
        """Only what can no longer change is mapped."""
        name = self._name_of(cut.number)
        path = segment_path(self._directory_of(cut.number), info.base, info.version)
        if info is not cut.active and self._finder.checkpoint.is_checkpointed(cut.number, info):
            return lambda: nullcontext(self._maps.get(name, SealedSegment(path, info)))
        return lambda: self._open_file(name, path, cut, info)

    def _open_file(self, name: str, path: str, cut: LogCut, info: SegmentInfo) -> AbstractContextManager[SegmentBytes]:
        learned = self._learned_of(cut.start_number, path)
        saved = load_index(self._disk, path, info) if info is not cut.active else None
        indexes = [learned.index] if saved is None else [saved]
        return closing(FileBytes(name, path, info.bytes, self._disk.open_read(path), indexes, learned))

    def _index(self, number: int, info: SegmentInfo) -> SparseIndex | None:
        """As it lies beside the segment, if it does. Who follows a log asks for them again and again."""
        path = segment_path(self._directory_of(number), info.base, info.version)
        if (path, info) not in self._indexes:
            self._indexes[path, info] = load_index(self._disk, path, info)
            if len(self._indexes) > _KEPT_INDEXES:
                self._indexes.popitem(last=False)
        return self._indexes[path, info]

    def _learned_of(self, start_number: int, path: str) -> LearnedIndex:
        key = start_number, path
        learned = self._learned.setdefault(key, LearnedIndex())
        self._learned.move_to_end(key)
        if len(self._learned) > self._learned_limit:
            self._learned.popitem(last=False)
        return learned


def _end(info: SegmentInfo) -> int:
    return info.end
