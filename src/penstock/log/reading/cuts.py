"""How far a process that does not hold the directory may read a log: by a live broker's table, or by the checkpoint."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from penstock.core.errors import DirectoryFormat
from penstock.core.ports import Disk
from penstock.core.types import LogNumber
from penstock.log.disk import DirectoryLock, Following, RealDisk
from penstock.log.offline.check import known_checkpoint
from penstock.log.reading.manifest import Manifest, read_manifest
from penstock.log.reading.table import TableReader, TableRow, holder_mark
from penstock.log.records import SegmentInfo
from penstock.log.segments.segments import segment_path
from penstock.log.upkeep.checkpoint import PATH as CHECKPOINT_PATH
from penstock.log.upkeep.checkpoint import Checkpoint, LogState
from penstock.log.upkeep.copies import copy_paths
from penstock.log.upkeep.format_file import is_ours

DirectoryOf = Callable[[int], str]
Identity = tuple[int, ...]


class DirectoryState(enum.Enum):
    LIVE = "live"
    """a broker has it open: read to its table"""
    STARTING = "starting"
    """a broker is opening it: read to the checkpoint"""
    CLOSED = "closed"
    """there is nothing behind the checkpoint"""
    CRASHED = "crashed"
    """read to the checkpoint; what the journal holds behind it is there again once a broker opened the directory"""


class LookAgain(Exception):
    """What was read does not fit together because it is being changed. The text says what did not fit."""


@dataclass(frozen=True, slots=True)
class LogCut:
    """A log as far as it may be read."""

    number: LogNumber
    start: int
    end: int
    records: int
    """in its segments; those of a first batch that `start` lies inside count whole"""
    sealed: tuple[SegmentInfo, ...]
    active: SegmentInfo | None
    start_number: int


def checkpoint_identity(root: Path) -> Identity:
    """Of the files, which are never changed, only replaced."""
    found: list[int] = []
    for path in copy_paths(CHECKPOINT_PATH):
        try:
            facts = (root / path).stat()
        except FileNotFoundError:
            found += (0, 0, 0)
        else:
            found += (facts.st_ino, facts.st_mtime_ns, facts.st_size)
    return tuple(found)


class CheckpointFile:
    """The checkpoint, read again when it was replaced."""

    def __init__(self, disk: RealDisk) -> None:
        self._disk = disk
        self._identity: Identity | None = None
        self._checkpoint = Checkpoint(0, 0, 0, 1, True, ())
        self._states: dict[int, LogState] = {}
        self._sealed: dict[int, frozenset[SegmentInfo]] = {}

    @property
    def identity(self) -> Identity:
        """Changes when the checkpoint does."""
        return checkpoint_identity(self._disk.root)

    def read(self) -> Checkpoint:
        """As it is now; an empty one in a directory that has none yet."""
        identity = self.identity
        if identity != self._identity:
            self._checkpoint = known_checkpoint(self._disk)
            self._states = {state.number: state for state in self._checkpoint.logs}
            self._sealed, self._identity = {}, identity
        return self._checkpoint

    def state(self, number: int) -> LogState | None:
        self.read()
        return self._states.get(number)

    def is_checkpointed(self, number: int, info: SegmentInfo) -> bool:
        """Whether the segment is sealed and synced, so that nothing will ever change in it."""
        known = self._sealed.get(number, frozenset())
        if info in known:
            return True
        state = self.state(number)
        self._sealed[number] = frozenset(state.sealed if state is not None else ())
        return info in self._sealed[number]


class TableCuts:
    """By the table of the broker that holds the directory."""

    state = DirectoryState.LIVE
    identity = None

    def __init__(self, disk: Disk, table: TableReader, directory_of: DirectoryOf) -> None:
        self._disk, self.table, self._directory_of = disk, table, directory_of
        self._manifests: dict[int, Manifest] = {}

    def all(self) -> dict[int, tuple[int, int, int]]:
        """Start, end and records of every log, at one cut."""
        rows = self.table.rows()
        if rows is None:
            raise LookAgain("the table is being written all the time")
        return {row.number: (row.start, row.end, row.sealed_records + row.active_records) for row in rows}

    def cut(self, number: int) -> LogCut | None:
        row = self.table.row(number)
        if row is None:
            return None
        sealed = self._manifest(row).sealed if row.sealed_count else ()
        active = None
        if row.active_base >= 0:
            base, version, size, records = row.active_base, row.active_version, row.active_bytes, row.active_records
            active = SegmentInfo(base, version, row.end, size, records, 0, _UNKNOWN_TIMESTAMP)
        records = row.sealed_records + row.active_records
        return LogCut(LogNumber(number), row.start, row.end, records, sealed, active, self.table.start_number)

    def _manifest(self, row: TableRow) -> Manifest:
        wanted = self.table.start_number, row.list_version
        manifest = self._manifests.get(row.number)
        if manifest is None or (manifest.start_number, manifest.list_version) != wanted:
            manifest = read_manifest(self._disk, self._directory_of(row.number))
        if manifest is None or (manifest.start_number, manifest.list_version) != wanted:
            raise LookAgain(f"the list of segments of log {row.number} is not that of the table")
        self._manifests[row.number] = manifest
        return manifest


class CheckpointCuts:
    """By the checkpoint: all there is after a clean close, all that may be trusted after a crash."""

    def __init__(self, disk: Disk, file: CheckpointFile, directory_of: DirectoryOf, is_held: bool) -> None:
        self._disk, self._file, self._directory_of = disk, file, directory_of
        self.identity = file.identity
        self._checkpoint = file.read()
        closed = DirectoryState.CLOSED if self._checkpoint.clean else DirectoryState.CRASHED
        self.state = DirectoryState.STARTING if is_held else closed

    def all(self) -> dict[int, tuple[int, int, int]]:
        return {state.number: (state.start, state.end, _records(state)) for state in self._checkpoint.logs}

    def cut(self, number: int) -> LogCut | None:
        state = self._file.state(number)
        if state is None:
            return None
        start, sealed, active = state.start, state.sealed, state.active
        if self.state is not DirectoryState.CLOSED and (gone := self._trimmed(state)):
            sealed = sealed[gone:]
            active = active if gone <= len(state.sealed) else None
            first = next(iter((*sealed, *filter(None, (active,)))), None)
            start = max(start, first.base if first is not None else state.end)
        opened = self._checkpoint.start_number
        return LogCut(LogNumber(number), start, state.end, _records(state), sealed, active, opened)

    def _trimmed(self, state: LogState) -> int:
        """How many segments are missing in front, the active one too if it comes to that: a trim unlinks at once, as
        soon as the journal has it."""
        directory = self._directory_of(state.number)
        segments = (*state.sealed, *filter(None, (state.active,)))
        missing = takewhile(
            lambda info: not self._disk.exists(segment_path(directory, info.base, info.version)), segments
        )
        return sum(1 for _ in missing)


Cuts = TableCuts | CheckpointCuts

_UNKNOWN_TIMESTAMP = (1 << 63) - 1


class CutFinder:
    """Knows at each moment by what the directory is to be read."""

    def __init__(self, disk: RealDisk, directory_of: DirectoryOf, follows: bool = False) -> None:
        """`follows`: a live broker is to show what is new soon; close() it."""
        if not is_ours(disk):
            raise DirectoryFormat(f"{disk.root} is not a Penstock data directory: it has no file 'format'")
        self._disk, self._directory_of = disk, directory_of
        self.checkpoint = CheckpointFile(disk)
        self._cuts: Cuts | None = None
        self._follows = follows
        self._following: Following | None = None

    def close(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            following.end()

    def find(self) -> Cuts:
        holder = DirectoryLock.holder(self._disk.root)
        if holder is None:
            self._cuts = self._by_checkpoint(is_held=False)
        elif not self._is_current(holder_mark(holder)):
            self._cuts = self._by_table(holder_mark(holder)) or self._by_checkpoint(is_held=True)
        assert self._cuts is not None
        return self._cuts

    def _is_current(self, mark: int) -> bool:
        cuts = self._cuts
        return isinstance(cuts, TableCuts) and cuts.table.is_current and cuts.table.holder == mark

    def _by_table(self, mark: int) -> TableCuts | None:
        table = TableReader.open(self._disk)
        if table is None or not table.is_current or table.holder != mark:
            return None
        if self._follows:
            self.close()
            self._following = Following(self._disk.root)
        return TableCuts(self._disk, table, self._directory_of)

    def _by_checkpoint(self, *, is_held: bool) -> CheckpointCuts:
        cuts = self._cuts
        identity = self.checkpoint.identity
        same = isinstance(cuts, CheckpointCuts) and cuts.identity == identity
        if same and isinstance(cuts, CheckpointCuts) and (cuts.state is DirectoryState.STARTING) == is_held:
            return cuts
        return CheckpointCuts(self._disk, self.checkpoint, self._directory_of, is_held)


def _records(state: LogState) -> int:
    return sum(info.records for info in state.sealed) + (state.active.records if state.active is not None else 0)
