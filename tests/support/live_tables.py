"""A data directory with logs of queues that is held, written and published to its table by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.clock import FakeClock
from tests.support.small_shard import SmallShard

from penstock.core.types import Compression, Durability
from penstock.log.columns import Columns
from penstock.log.disk import DirectoryLock, RealDisk
from penstock.log.partition import Log
from penstock.log.reading.table import TableWriter, publish_from
from penstock.log.records import Compaction, Edit, LogSettings
from penstock.log.upkeep.housekeeping import Housekeeper
from penstock.queues.names import data_log


class LiveTables:
    """Segments are small: a few batches roll them."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, FakeClock()
        self.lock = DirectoryLock.acquire(root)
        self.shard = SmallShard(RealDisk(root), self.clock)
        self.table: TableWriter = publish_from(RealDisk(root), self.shard.engine.keeper)

    def create(
        self,
        queue: str,
        partition: int = 0,
        compression: Compression = Compression.NONE,
        durability: Durability = Durability.COMMIT,
        compaction: Compaction | None = None,
    ) -> Log:
        settings = LogSettings(durability, compression, segment_bytes=600, compaction=compaction)
        [log] = self.shard.engine.stage_create([(data_log("default", queue, partition), settings)], self.shard.done)
        self.shard.settle()
        return log

    def append(self, log: Log, columns: Columns) -> int:
        """One batch, in its file when this returns; a hundredth of a second later than the one before."""
        [first] = self.shard.engine.stage([(log, columns)], self.shard.done)
        self.shard.settle()
        self.clock.advance(0.01)
        return first

    def fill(self, log: Log, batches: int, rows: int = 3) -> None:
        """Values are the offsets as text, twenty times over."""
        for _ in range(batches):
            self.append(log, Columns.of(values(log.end, log.end + rows)))

    def trim(self, log: Log, start: int) -> None:
        self.shard.edit(log, Edit(start=start))

    def compact(self) -> None:
        """All logs whose settings say so, as far as their segments are sealed; readers see it when this returns."""
        assert self.shard.engine.keeper.write_checkpoint()
        Housekeeper(self.shard.engine, self.shard.disk, self.clock).run()
        self.shard.settle()

    def close(self) -> None:
        self.shard.close()
        self.table.close()
        self.lock.release()

    def die(self) -> None:
        """As a kill leaves it: no checkpoint, no clean mark, the table as it was."""
        self.shard.abandon()
        self.lock.release()


def values(start: int, stop: int) -> list[bytes]:
    return [b"%d" % offset * 20 for offset in range(start, stop)]


def written(root: Path, queue: str, batches: Sequence[Columns], compression: Compression = Compression.NONE) -> None:
    """A closed directory with one partition of a queue."""
    live = LiveTables(root)
    log = live.create(queue, 0, compression)
    for columns in batches:
        live.append(log, columns)
    live.close()
