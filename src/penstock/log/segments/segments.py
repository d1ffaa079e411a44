"""Segment files and the states they go through: one active segment that is written behind the journal, then sealed
ones."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import msgspec

from penstock.core.ports import Buffer, Clock
from penstock.kernels.folded import INDEX_STEP_BYTES, OpenSegment
from penstock.log.journal.frames import Entry
from penstock.log.records import SegmentInfo


def written_version_after(highest: int) -> int:
    """For files written because others were given up: even, and beyond what a compaction under way can make."""
    return (highest + 3) & ~1


def compacted_version_after(version: int) -> int:
    """For what compaction makes of a segment: the next odd one, so that its result can be told from all others."""
    return (version + 1) | 1


def is_compacted(info: SegmentInfo) -> bool:
    return info.version & 1 == 1


def segment_path(directory: str, base: int, version: int) -> str:
    """Version 0 is what appending makes; compaction makes odd ones, writing anew after a cut or a failure even ones."""
    return f"{directory}/{base:020d}.seg" if version == 0 else f"{directory}/{base:020d}.{version}.seg"


@dataclass(frozen=True, slots=True)
class SealedSegment:
    """Never written again. `synced_bytes` of an ActiveSegment have no counterpart here: a checkpoint that names it
    synced it."""

    path: str
    info: SegmentInfo


@dataclass(slots=True)
class SparseIndex:
    """For some batches of a segment, about one in INDEX_STEP_BYTES: first offset, byte position, greatest timestamp
    so far."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    positions: array[int] = field(default_factory=lambda: array("q"))
    timestamps: array[int] = field(default_factory=lambda: array("q"))

    def add(self, offset: int, position: int, timestamp: int) -> None:
        """Readers beside the writer look at `positions` last: an entry is complete once it is there."""
        self.offsets.append(offset)
        self.timestamps.append(timestamp)
        self.positions.append(position)

    def cut(self, position: int) -> None:
        while self.positions and self.positions[-1] >= position:
            for column in (self.positions, self.timestamps, self.offsets):
                column.pop()


class ActiveView(msgspec.Struct, frozen=True):
    """The active segment as far as it is written, for readers beside the keeper."""

    path: str
    info: SegmentInfo
    index: SparseIndex


class WrittenView(msgspec.Struct, frozen=True):
    """What of a log lies in files, at one moment; readers take the whole of it by one reference."""

    start: int
    end: int
    sealed: tuple[SealedSegment, ...] = ()
    active: ActiveView | None = None
    list_version: int = 0
    stopped: str = ""
    """why there may be records behind `end` that cannot be read here, if so"""

    def paths(self) -> list[str]:
        """Of its files."""
        active = [self.active.path] if self.active is not None else []
        return [segment.path for segment in self.sealed] + active


class ActiveSegment(OpenSegment):
    """The tail of a log in files. What append() takes is durable by its journal frame; the file is trusted up to its
    checkpoint. Keeper thread only."""

    __slots__ = ("base", "exists", "opened_at", "path", "version")

    index: SparseIndex
    pending: list[Entry]
    """taken, not yet in the file"""
    written_bytes: int
    """in the file (page cache)"""

    def __init__(
        self,
        directory: str,
        base: int,
        version: int,
        end: int,
        opened_at: float | None,
        *,
        written_bytes: int = 0,
        records: int = 0,
        first_timestamp: int = 0,
        max_timestamp: int = 0,
        exists: bool = False,
    ) -> None:
        """`opened_at` on a clock that does not jump; None for one that was begun before. `exists`: the file was
        created."""
        super().__init__(SparseIndex(), end, written_bytes, records, first_timestamp, max_timestamp)
        self.base, self.version, self.opened_at, self.exists = base, version, opened_at, exists
        self.path = segment_path(directory, base, version)

    @property
    def bytes(self) -> int:
        return self.written_bytes + self.pending_bytes

    @property
    def pending_data(self) -> list[Buffer]:
        return [entry.data for entry in self.pending]

    def age_s(self, clock: Clock) -> float:
        """Of one that was begun before, by its first record."""
        if self.opened_at is None:
            return (clock.now_ms() - self.first_timestamp) / 1000 if self.records else 0.0
        return clock.monotonic() - self.opened_at

    def drop_pending_from(self, offset: int) -> None:
        """Take back what append() took at and above `offset`."""
        while self.pending and self.pending[-1].first >= offset:
            entry = self.pending.pop()
            self.pending_bytes -= len(entry.data)
            self.records -= entry.records
        self.index.cut(self.bytes)
        positions = self.index.positions
        self.index_due = positions[-1] + INDEX_STEP_BYTES if positions else 0
        if self.pending:
            self.max_timestamp = self.pending[-1].max_timestamp
        self.end = offset

    def written(self) -> None:
        """The pending bytes are in the file."""
        self.written_bytes += self.pending_bytes
        self.pending, self.pending_bytes = [], 0

    def info(self) -> SegmentInfo:
        return SegmentInfo(
            self.base, self.version, self.end, self.bytes, self.records, self.first_timestamp, self.max_timestamp
        )

    def seal(self) -> SealedSegment:
        assert not self.pending
        return SealedSegment(self.path, self.info())

    def view(self) -> ActiveView:
        assert not self.pending
        return ActiveView(self.path, self.info(), self.index)


def reopen(directory: str, info: SegmentInfo) -> ActiveSegment:
    """A segment that was checkpointed or sealed, to be appended to again, and as old as its first record, however often
    it is reopened. Its index is filled from here on; readers scan before."""
    return ActiveSegment(
        directory,
        info.base,
        info.version,
        info.end,
        None,
        written_bytes=info.bytes,
        records=info.records,
        first_timestamp=info.first_timestamp,
        max_timestamp=info.max_timestamp,
        exists=True,
    )
