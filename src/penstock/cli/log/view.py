"""A data directory as the read-only commands see it, live, closed or crashed. Takes no lock, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from penstock.cli.directory import DataDirectory
from penstock.core.errors import NoSuchLog
from penstock.core.ports import Buffer
from penstock.core.types import LogName, LogNumber
from penstock.log.disk import RealDisk
from penstock.log.journal.slots import journal_slots
from penstock.log.names import directory_of
from penstock.log.offline.inspect import FoldedDirectory, InspectedLog, inspect_directory, segments_of
from penstock.log.records import LogSettings, SegmentInfo
from penstock.log.segments.segments import SealedSegment, segment_path
from penstock.log.upkeep.checkpoint import LogState, read_checkpoint

# The table of a live directory does not know the time of a log's newest record and stands for it with one far ahead.
_LATEST_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class LogSummary:
    """Offsets start..end may be read; `end` is the next to be given away."""

    number: LogNumber
    name: LogName
    settings: LogSettings
    start: int
    end: int
    records: int
    bytes: int
    segments: int
    epoch: int
    newest_ms: int
    """time of its newest record; 0 if it has none, or if that is not known without reading it"""
    problem: str
    """why it takes no records, if it does not"""


class DirectoryView:
    """What it returns stays good while it is kept."""

    def __init__(self, path: Path) -> None:
        """DirectoryFormat if it is not a data directory, LogDamaged if its catalogue cannot be read."""
        self.directory = DataDirectory.at(path)
        self.disk = RealDisk(path)
        self._inspected = inspect_directory(path)

    @cached_property
    def logs(self) -> list[LogSummary]:
        """By name, without the catalogue."""
        return sorted(map(self._summary, self._inspected.logs()), key=lambda log: log.name)

    def log(self, name: str) -> LogSummary:
        found = next((log for log in self.logs if log.name == name), None)
        if found is None:
            raise NoSuchLog(name)
        return found

    def journal(self) -> dict[str, object]:
        """Of a live directory only what no writing can change under our eyes."""
        slots = journal_slots(self.disk)
        facts: dict[str, object] = {
            "files": len(self.disk.list("journal")),
            "generation": slots[-1].header.generation if slots else 0,
        }
        if (look := self._inspected.journal) is not None:
            facts |= {
                "first_sequence": look.first_sequence,
                "end_sequence": look.end_sequence,
                "replay_frames": look.frames,
                "torn_bytes": look.torn_bytes,
                "problems": look.problems,
            }
        return facts

    def batches(self, log: LogSummary, start: int) -> Iterator[Buffer]:
        """Every batch from the one that holds or follows `start` on, checksums checked. LogDamaged names the place."""
        return self._inspected.batches(log.number, start)

    def offset_at_time(self, log: LogSummary, timestamp_ms: int) -> int:
        """The first offset whose record is not older than that; the end if there is none."""
        return self._inspected.offset_at_time(log.number, timestamp_ms)

    def segments(self, log: LogSummary) -> list[tuple[str, SegmentInfo]]:
        """Its files, and how many bytes of each count."""
        if isinstance(self._inspected, FoldedDirectory):
            return _files_of(self._inspected, log.number)
        directory = directory_of(log.name, log.number)
        found = next((one for one in self._inspected.logs() if one.number == log.number), None)
        infos = found.segments if found is not None else ()
        return [(segment_path(directory, info.base, info.version), info) for info in infos]

    @cached_property
    def _states(self) -> dict[int, LogState]:
        """As of the last checkpoint."""
        checkpoint = read_checkpoint(self.disk)
        return {} if checkpoint is None else {state.number: state for state in checkpoint.logs}

    def _epoch(self, number: LogNumber) -> int:
        if isinstance(self._inspected, FoldedDirectory):
            return self._inspected.written(number).bounds.epoch
        state = self._states.get(number)
        return state.epochs[-1].epoch if state is not None else 0

    def _summary(self, log: InspectedLog) -> LogSummary:
        times = [info.max_timestamp for info in log.segments if info.max_timestamp < _LATEST_MS]
        return LogSummary(
            number=log.number,
            name=log.name,
            settings=log.settings,
            start=log.start,
            end=log.end,
            records=log.records,
            bytes=log.bytes,
            segments=len(log.segments),
            epoch=self._epoch(log.number),
            newest_ms=max(times, default=0),
            problem=log.stopped,
        )


def _files_of(directory: FoldedDirectory, number: LogNumber) -> list[tuple[str, SegmentInfo]]:
    """Without the bytes that only the journal has yet."""
    found: list[tuple[str, SegmentInfo]] = []
    for segment in segments_of(directory.written(number)):
        if isinstance(segment, SealedSegment):
            found.append((segment.path, segment.info))
        elif segment.written_bytes:
            found.append((segment.path, msgspec.structs.replace(segment.info(), bytes=segment.written_bytes)))
    return found
