"""Going on behind damage in the journal: what lost frames had brought is looked for in the segments, where it mostly
lies already, and what is not found becomes a gap that is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.core.ports import Disk
from penstock.core.types import LogNumber
from penstock.log.journal.frames import Entry, edit_entry
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.offline.damage import survey
from penstock.log.records import Edit, SegmentInfo
from penstock.log.segments.keeper import Keeper
from penstock.log.segments.segments import segment_path
from penstock.log.segments.written import WrittenLog

_NO_END = 1 << 63
# Files of versions from here on were imported: they count only if a frame adopted them.
_IMPORTED_VERSION = 1 << 8


@dataclass(slots=True)
class Salvage:
    """Beside a fold: told of lost frames, and asked before an entry of a later one is taken."""

    disk: Disk
    keeper: Keeper
    lines: list[str] = field(default_factory=list)
    """what was found and what is lost, for people"""
    unknown: dict[int, int] = field(default_factory=dict)
    """entries of logs whose creation was lost, by number"""
    _has_lost: bool = False
    _filled: set[tuple[LogNumber, int]] = field(default_factory=set)
    _in_segments: dict[LogNumber, dict[int, Entry]] = field(default_factory=dict)
    _known: set[LogNumber] = field(default_factory=set)

    def frames_lost(self) -> None:
        """Before what follows: logs that they created must be known."""
        self._has_lost = True
        self._known |= set(self.keeper.logs)
        self._fill(self.keeper.logs[CATALOGUE_NUMBER], _NO_END)
        self._known |= set(self.keeper.logs)

    def make_way(self, entry: Entry) -> bool:
        """Whether the entry is to be taken: its log ends where it begins then."""
        if not self._has_lost:
            return True
        log = self.keeper.logs.get(entry.log)
        if log is None:
            if entry.log not in self._known:
                self.unknown[entry.log] = self.unknown.get(entry.log, 0) + 1
            return False
        first = _first(entry)
        if log.stopped or first is None:
            return True
        if (log.number, first) in self._filled:
            return False
        if first > log.bounds.end:
            self._fill(log, first)
        if first != log.bounds.end:
            self._jump(log, first)
        return True

    def finish(self) -> None:
        """What lost frames brought to the ends of logs, and what nothing follows."""
        if not self._has_lost:
            return
        for log in list(self.keeper.logs.values()):
            if not log.stopped:
                self._fill(log, _NO_END)
        for number, count in self.unknown.items():
            self.lines.append(f"log number {number}: its creation is lost, {count} batches of it are only kept aside")

    def _fill(self, log: WrittenLog, until: int) -> None:
        first, batches = log.bounds.end, self._batches(log)
        while (entry := batches.get(log.bounds.end)) is not None and entry.end <= until:
            self._filled.add((log.number, entry.first))
            self.keeper.take(entry)
        if log.bounds.end > first:
            self.lines.append(f"log {log.name}: offsets {first}..{log.bounds.end} were found in its segments")

    def _jump(self, log: WrittenLog, first: int) -> None:
        end = log.bounds.end
        if first > end:
            self.lines.append(f"log {log.name}: offsets {end}..{first} are lost")
        else:
            self.lines.append(f"log {log.name}: it was cut at offset {first} by a frame that is lost")
        self.keeper.take(edit_entry(log.number, Edit(end=first)))

    def _batches(self, log: WrittenLog) -> dict[int, Entry]:
        """By their first offset, those behind the checkpoint; copied, since the files are about to be written."""
        found = self._in_segments.get(log.number)
        if found is None:
            end = self.keeper.checkpointed_state(log.number).end
            found = self._in_segments[log.number] = {
                entry.first: _copied(entry)
                for base, version in self._newest_files(log).items()
                for entry in self._entries(log, base, version)
                if entry.first >= end
            }
        return found

    def _entries(self, log: WrittenLog, base: int, version: int) -> list[Entry]:
        path = segment_path(log.directory, base, version)
        file = self.disk.open_read(path)
        size = file.size()
        file.close()
        if not size:
            return []
        return survey(self.disk, log.number, path, SegmentInfo(base, version, _NO_END, size, 0, 0, 0)).batches

    def _newest_files(self, log: WrittenLog) -> dict[int, int]:
        """Base and version: a file of a higher version replaced the others."""
        newest: dict[int, int] = {}
        for name in self.disk.list(log.directory):
            parts = name.split(".")
            if parts[-1] != "seg" or not all(part.isdigit() for part in parts[:-1]):
                continue
            base, version = int(parts[0]), int(parts[1]) if len(parts) > 2 else 0
            if version < _IMPORTED_VERSION:
                newest[base] = max(newest.get(base, 0), version)
        return newest


def _first(entry: Entry) -> int | None:
    """The offset at which it continues its log; None for an edit that needs no place."""
    if entry.edit is None:
        return entry.first
    return entry.edit.adopted[0].base if entry.edit.adopted else None


def _copied(entry: Entry) -> Entry:
    times = entry.first_timestamp, entry.max_timestamp
    return Entry(entry.log, bytes(entry.data), None, entry.first, entry.end, entry.records, *times)
