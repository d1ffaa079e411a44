"""A data directory as jobs see it: its logs at one cut, the journal folded in where nobody has it open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from penstock.core.errors import LogDamaged, OffsetOutOfRange
from penstock.core.ports import Buffer
from penstock.core.types import LogName, LogNumber
from penstock.log.disk import RealDisk
from penstock.log.names import directory_of
from penstock.log.offline.inspect import FoldedDirectory, InspectedLog, Inspection, LiveDirectory, inspect_directory
from penstock.log.outside import DirectoryReader
from penstock.log.reading.cuts import DirectoryState, checkpoint_identity
from penstock.log.records import EpochStart, SegmentInfo
from penstock.log.segments.segments import segment_path
from penstock.log.upkeep.checkpoint import read_checkpoint

# Files that an import wrote have versions that are multiples of this (log/segments/side_segments.py), and no holes.
_IMPORTED_VERSIONS = 1 << 8


@dataclass(frozen=True, slots=True)
class LogFacts:
    """A log as far as it could be read when the job was planned; it can be pickled."""

    number: LogNumber
    name: LogName
    start: int
    end: int
    records: int
    size_bytes: int
    epochs: tuple[EpochStart, ...]
    """of a live log as of its last checkpoint"""
    segments: tuple[SegmentInfo, ...]
    has_compaction: bool
    stopped: str = ""

    @property
    def may_have_holes(self) -> bool:
        """Compaction removed records, or a log that it worked on was written anew after a cut."""
        return self.has_compaction or any(info.version % _IMPORTED_VERSIONS for info in self.segments)

    def path(self, info: SegmentInfo) -> str:
        return segment_path(directory_of(self.name, self.number), info.base, info.version)

    def file_at(self, offset: int) -> str:
        """The file that an offset lies in, or should; empty if there is none."""
        found = next((info for info in self.segments if info.base <= offset < info.end), None)
        return "" if found is None else self.path(found)

    def is_skipped(self, offset: int) -> bool:
        """Whether it was passed over on purpose, after a crash or by a repair, and names no record."""
        return any(epoch.previous_end <= offset < epoch.start for epoch in self.epochs)


@dataclass(frozen=True, slots=True)
class Place:
    """A directory in one state, for pieces to open where they are done."""

    path: str
    mark: str

    def opened(self) -> Inspection:
        """To read it. One thread; kept for the next piece that is done in this process."""
        return _opened(self.path, self.mark)

    def batches(self, log: LogFacts, start: int | None = None) -> Iterator[Buffer]:
        """Checked ones, from the one that holds or follows `start` on, to the end of the log as it was planned. What
        was trimmed since is passed over. LogDamaged."""
        opened, offset = self.opened(), log.start if start is None else start
        while offset < log.end:
            try:
                yield from opened.batches(log.number, offset, log.end)
            except OffsetOutOfRange as error:
                offset = error.start
            except FileNotFoundError as error:
                raise LogDamaged(log.name, str(error.filename), 0, "the file is missing") from error
            else:
                return


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    """All logs at one cut. `mark` tells one state of a closed directory from the next."""

    path: str
    state: DirectoryState
    mark: str
    logs: dict[LogName, LogFacts]

    @classmethod
    def of(cls, path: Path) -> DirectoryFacts:
        """DirectoryFormat if it is no data directory, LogDamaged if its catalogue cannot be read."""
        inspection = inspect_directory(path)
        epochs = _epochs(path, inspection)
        cut = _cut(inspection)
        logs = {
            log.name: _facts(log, cut, epochs.get(log.number, ())) for log in inspection.logs() if log.number in cut
        }
        return cls(str(path), inspection.state, _mark(path, inspection.state), logs)

    @property
    def is_live(self) -> bool:
        return self.state in (DirectoryState.LIVE, DirectoryState.STARTING)

    def has_changed(self) -> bool:
        """Whether somebody opened a directory that was open nowhere."""
        path = Path(self.path)
        return not self.is_live and _mark(path, DirectoryReader(path).state) != self.mark

    @property
    def place(self) -> Place:
        """By its whole path: pieces may be done in another working directory."""
        return Place(str(Path(self.path).resolve()), self.mark)


@lru_cache(maxsize=1)
def _opened(path: str, mark: str) -> Inspection:
    """Folding a journal takes as long as reading it."""
    return inspect_directory(Path(path))


def _mark(path: Path, state: DirectoryState) -> str:
    return ":".join(map(str, (state.value, *checkpoint_identity(path))))


def _epochs(path: Path, inspection: Inspection) -> dict[int, tuple[EpochStart, ...]]:
    if isinstance(inspection, FoldedDirectory):
        return {number: tuple(inspection.written(number).bounds.epochs) for number in inspection.numbers()}
    checkpoint = read_checkpoint(RealDisk(path))
    return {} if checkpoint is None else {state.number: state.epochs for state in checkpoint.logs}


def _cut(inspection: Inspection) -> dict[int, tuple[int, int]]:
    """Start and end of every log, of a live directory all at one moment."""
    logs = inspection.reader.logs() if isinstance(inspection, LiveDirectory) else inspection.logs()
    return {log.number: (log.start, log.end) for log in logs}


def _facts(log: InspectedLog, cut: dict[int, tuple[int, int]], epochs: tuple[EpochStart, ...]) -> LogFacts:
    has_compaction = log.settings.compaction is not None
    counts = log.records, log.bytes
    return LogFacts(log.number, log.name, *cut[log.number], *counts, epochs, log.segments, has_compaction, log.stopped)
