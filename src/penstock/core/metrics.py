"""Counters as plain ints: an increment costs an attribute store, and whoever exports them reads the fields."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class ShardMetrics:
    """What one shard did since it was opened. Names become `penstock_<field>`."""

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
    publishes_refused_disk: int = 0
    logs_poisoned: int = 0
    logs_stopped: int = 0
    compactions: int = 0
    compacted_records: int = 0
    retained_away_records: int = 0

    def as_dict(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self)}
