"""How a shard is run. Defaults are for a server; tests make everything small."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.log.journal.commit import CommitOptions
from penstock.log.journal.journal import JournalOptions
from penstock.log.segments.keeper import KeeperOptions


@dataclass(frozen=True, slots=True)
class ShardOptions:
    journal: JournalOptions = field(default_factory=JournalOptions)
    keeper: KeeperOptions = field(default_factory=KeeperOptions)
    commit: CommitOptions = field(default_factory=CommitOptions)
    publish_budget_bytes: int = 64 << 20
    """publishes staged and not yet in the journal"""
    settle_budget_bytes: int = 16 << 20
    tail_bytes: int = 256 << 20
    """what may wait in memory to be written to its segment; publishes wait beyond it, settlements beyond twice as
    much"""
    recent_bytes: int = 64 << 20
    """batches that stay in memory after they were written, for groups that are a little behind"""
    disk_reserve_bytes: int | None = None
    """publishes are refused when less is free; None: the greater of 1 GiB and 5 % of the disk"""
    housekeeping_s: float = 60.0
    """how often retention and compaction look at the logs; 0: never by themselves"""

    @property
    def tail_limit_bytes(self) -> int:
        """No log holds more than a quarter of the journal, because all of them together do not."""
        return min(self.tail_bytes, self.journal.limit_bytes // 4)

    def reserve(self, total_bytes: int) -> int:
        return max(1 << 30, total_bytes // 20) if self.disk_reserve_bytes is None else self.disk_reserve_bytes
