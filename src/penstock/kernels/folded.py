"""The keeper's fold of batches into the segments they will be written to, in one call for all entries of a frame.

Offsets, timestamps and positions are int64. What the numbers mean, log/segments/segments.py and
log/segments/written.py say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from penstock.kernels import entry as frame
from penstock.kernels.staged import Span

# One entry of an index per this many bytes: a lookup scans at most so much. 24 bytes an entry, 24 KiB a full segment.
INDEX_STEP_BYTES = 64 << 10
_STEP_BYTES = INDEX_STEP_BYTES


class Index(Protocol):
    def add(self, offset: int, position: int, timestamp: int) -> None: ...


class OpenSegment:
    """A segment that batches are appended to."""

    def __init__(
        self,
        index: Index,
        end: int,
        written_bytes: int = 0,
        records: int = 0,
        first_timestamp: int = 0,
        max_timestamp: int = 0,
    ) -> None:
        self.end, self.written_bytes, self.records = end, written_bytes, records
        self.first_timestamp, self.max_timestamp = first_timestamp, max_timestamp
        self.index, self.index_due = index, 0
        self.pending: list[Any] = []
        self.pending_bytes = 0

    def append(self, entry: frame.FrameEntry) -> None:
        position = self.written_bytes + self.pending_bytes
        if not self.records:
            self.first_timestamp = entry.first_timestamp
        if position >= self.index_due:
            self.index.add(entry.first, position, self.max_timestamp)
            self.index_due = position + _STEP_BYTES
        self.pending.append(entry)
        self.pending_bytes += len(entry.data)
        self.records += entry.records
        self.end = entry.end
        self.max_timestamp = max(self.max_timestamp, entry.max_timestamp)


class FoldedLog:
    """A log as far as its segments have it, or will have it."""

    def __init__(self, bounds: Span) -> None:
        self.bounds = bounds
        self.segment_bytes = self.segment_age_ms = 0
        """the most that a segment holds, and how far its timestamps lie apart"""
        self.active: OpenSegment | None = None

    def has_taken(self, entry: frame.FrameEntry) -> bool:
        """Fold a batch into the active segment; False, and nothing changed, if there is none with room for it."""
        active = self.active
        if active is None or entry.end <= self.bounds.start:
            return False
        if active.records:
            size_bytes = active.written_bytes + active.pending_bytes + len(entry.data)
            if size_bytes > self.segment_bytes:
                return False
            if entry.max_timestamp - active.first_timestamp >= self.segment_age_ms:
                return False
        active.append(entry)
        self.bounds.end = entry.end
        return True


def fold(
    entries: Sequence[frame.FrameEntry],
    first: int,
    logs: Mapping[Any, FoldedLog],
    apart: int,
    large_bytes: int,
    large: list[Any],
) -> int:
    """Fold entries from the first one on into their logs, as far as nothing else is to be done: the place of the first
    that is an edit, that is of the log `apart`, or whose log is not there or has no segment for it. Logs with so much
    to write are added to `large`."""
    for i in range(first, len(entries)):
        entry = entries[i]
        log = logs.get(entry.log)
        if log is None or entry.log == apart or entry.edit is not None or not log.has_taken(entry):
            return i
        active = log.active
        if active is not None and active.pending_bytes >= large_bytes:
            large.append(log)
    return len(entries)
