"""Counters as plain ints: an increment costs an attribute store, and whoever exports them reads the fields."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

LATENCY_BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
"""p99 of a publish under 10 ms and of a delivery under 5 ms can be told from their neighbours"""
GROUP_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)


class Histogram:
    """How many observations lie at or below each bound and above the one before it; the last count is of those above
    all bounds. Written by one thread at a time, read by any."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = array("Q", bytes(8 * (len(bounds) + 1)))
        self.total = 0.0
        """sum of all observations"""

    def observe(self, value: float, count: int = 1) -> None:
        """`count` things of that value at once."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    @property
    def count(self) -> int:
        return sum(self.counts)

    def add(self, other: Histogram) -> None:
        """All that another one of the same bounds has seen."""
        self.counts = array("Q", map(int.__add__, self.counts, other.counts))
        self.total += other.total


@dataclass(slots=True)
class ShardMetrics:
    """What one shard did since it was opened."""

    frames: int = 0
    records: int = 0
    batch_bytes: int = 0
    """bytes of batches taken; the base of write amplification"""
    journal_bytes: int = 0
    journal_writes: int = 0
    journal_syncs: int = 0
    journal_sync_ns: int = 0
    journal_sync_ns_max: int = 0
    journal_rolls: int = 0
    journal_waits: int = 0
    """group commits that had to wait for a checkpoint to free journal space"""
    segment_bytes: int = 0
    segment_syncs: int = 0
    segments_sealed: int = 0
    segments_removed: int = 0
    checkpoints: int = 0
    checkpoint_ns: int = 0
    replayed_frames: int = 0
    replay_ns: int = 0
    read_bytes: int = 0
    """of batches read for consumers and those who browse"""
    admission_waits: int = 0
    """commits that had to wait for room in memory"""
    publishes_refused_disk: int = 0
    commits_put_off: int = 0
    """group commits that had to wait because the journal could not be written: no room, no descriptors"""
    housekeeping_failures: int = 0
    logs_poisoned: int = 0
    logs_stopped: int = 0
    compactions: int = 0
    compaction_failures: int = 0
    compacted_records: int = 0
    compacted_bytes: int = 0
    retained_away_records: int = 0
    retained_away_bytes: int = 0
    journal_sync_s: Histogram = field(default_factory=Histogram)
    commit_frames: Histogram = field(default_factory=lambda: Histogram(GROUP_BOUNDS))
    """frames of each group commit"""


@dataclass(slots=True)
class ReloadMetrics:
    """What became of changed configurations since the server was started."""

    reloads: int = 0
    failures: int = 0
    """the old configuration stayed"""
    last_success_ms: int = 0
    last_failure_ms: int = 0
