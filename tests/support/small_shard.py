"""A shard driven by hand, with everything small: a few hundred bytes are enough to roll segments."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.clock import FakeClock

from penstock.core.errors import PenstockError
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Buffer, Disk
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.engine import Engine
from penstock.log.journal.journal import JournalOptions
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.reading.reading import LogReader
from penstock.log.records import Edit, LogSettings
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.upkeep.recovery import recover

SMALL = ShardOptions(
    journal=JournalOptions(file_bytes=64 << 10, limit_bytes=256 << 10, max_frame_bytes=32 << 10),
    keeper=KeeperOptions(flush_s=0.0),
    disk_reserve_bytes=0,
)


@dataclass
class SmallShard:
    """An engine without threads: settle() does what they would do."""

    disk: Disk
    clock: FakeClock = field(default_factory=FakeClock)
    options: ShardOptions = SMALL
    engine: Engine = field(init=False)
    reader: LogReader = field(init=False)
    errors: list[PenstockError] = field(default_factory=list)

    def __post_init__(self) -> None:
        metrics = ShardMetrics()
        opened = recover(self.disk, self.clock, self.options, metrics)
        self.engine = Engine(self.disk, self.clock, self.options, metrics, opened, lambda call: call())
        self.reader = LogReader(self.disk, self.engine.keeper.views, cache_segments=4)

    def create(self, name: str, settings: LogSettings | None = None) -> Log:
        [log] = self.engine.stage_create([(log_name(name), settings or LogSettings(segment_bytes=600))], self.done)
        self.commit()
        return log

    def append(self, log: Log, *values: bytes) -> int:
        """One commit of one batch; its first offset."""
        [first] = self.engine.stage([(log, Columns.of(list(values)))], self.done)
        return first

    def edit(self, log: Log, edit: Edit) -> None:
        self.engine.stage_edit(log, edit, self.done)
        self.settle()

    def cut(self, log: Log, end: int) -> None:
        """Cut the log at a batch's first offset."""
        self.engine.stage_truncate(log, end, end, None, self.done)
        self.settle()

    def commit(self) -> None:
        self.engine.commit.step(sync=True)

    def settle(self) -> None:
        """All that was staged is in the segment files, and the loop knows."""
        self.commit()
        self.engine.keeper.step()

    def close(self) -> None:
        self.settle()
        assert self.engine.keeper.write_checkpoint(clean=True)
        self.engine.keeper.close()
        self.engine.journal.close()

    def abandon(self) -> None:
        """What a kill leaves: nothing is finished, files are closed by the system."""
        self.engine.keeper.close()
        self.engine.journal.close()

    def values(self, log: Log, offset: int = 0, max_bytes: int = 1 << 20) -> list[tuple[int, bytes]]:
        return rows(self.reader.read(log, offset, max_bytes))

    def done(self, error: PenstockError | None) -> None:
        if error is not None:
            self.errors.append(error)


def rows(batches: list[Buffer]) -> list[tuple[int, bytes]]:
    """Offset and value of every record."""
    return [(row.offset, row.value) for batch in batches for row in Batch.parse(batch)]
