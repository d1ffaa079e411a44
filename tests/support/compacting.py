"""A shard on a simulated disk without threads, and the records of its logs as a reader would find them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.clock import FakeClock
from tests.support.simdisk import SimDisk

from penstock.core.errors import PenstockError
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Disk
from penstock.core.types import LogNumber
from penstock.log.batch import Batch, Row, below_offset
from penstock.log.columns import Columns
from penstock.log.engine import Engine
from penstock.log.journal.journal import JournalOptions
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.records import Compaction, Edit, LogSettings, SegmentInfo
from penstock.log.segments.index import places
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.segments.segments import ActiveView, SealedSegment, WrittenView
from penstock.log.upkeep.housekeeping import Housekeeper, Task
from penstock.log.upkeep.recovery import recover

OPTIONS = ShardOptions(
    journal=JournalOptions(file_bytes=64 << 10, limit_bytes=256 << 10, max_frame_bytes=32 << 10),
    keeper=KeeperOptions(flush_bytes=1, flush_s=0.0, checkpoint_s=1e9),
    disk_reserve_bytes=0,
)

# Appending seals a segment every few records, and nothing waits: tests that are about lag and such say so.
EAGER = Compaction(lag_s=0.0, tombstone_s=0.0, dirty_ratio=0.0, interval_s=0.0)


def segments_of(view: WrittenView) -> list[SealedSegment | ActiveView]:
    return [*view.sealed, *([view.active] if view.active is not None else [])]


def view_records(disk: Disk, view: WrittenView) -> list[Row]:
    found: list[Row] = []
    for segment in segments_of(view):
        data = disk.open_read(segment.path).map()[: segment.info.bytes]
        rows = [
            row for place in places(data, 0, len(data)) for row in Batch.parse(data[place.position :][: place.bytes])
        ]
        check_segment(segment.info, rows)
        found += rows
    return found


def check_segment(info: SegmentInfo, rows: Sequence[Row]) -> None:
    """A segment is what the list says of it."""
    assert len(rows) == info.records
    assert all(info.base <= row.offset < info.end for row in rows)
    assert all(info.first_timestamp <= row.timestamp <= info.max_timestamp for row in rows)


@dataclass(slots=True)
class OpenShard:
    disk: SimDisk
    clock: FakeClock
    engine: Engine = field(init=False)
    housekeeper: Housekeeper = field(init=False)
    errors: list[PenstockError | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        metrics = ShardMetrics()
        recovered = recover(self.disk, self.clock, OPTIONS, metrics)
        self.engine = Engine(self.disk, self.clock, OPTIONS, metrics, recovered, lambda call: call())
        self.housekeeper = Housekeeper(self.engine, self.disk, self.clock)

    def create(self, name: str, settings: LogSettings) -> Log:
        [log] = self.engine.stage_create([(log_name(name), settings)], self.errors.append)
        self.commit()
        return log

    def log(self, name: str) -> Log:
        return self.engine.log(log_name(name))

    def append(self, log: Log, *records: tuple[bytes, bytes], properties: Sequence[bytes] | None = None) -> int:
        """Records of (key, value) in one batch, committed."""
        columns = Columns.of([value for _, value in records], keys=[key for key, _ in records], properties=properties)
        [offset] = self.engine.stage([(log, columns)], self.errors.append)
        self.commit()
        return offset

    def commit(self) -> None:
        self.engine.commit.step(sync=True)

    def write(self) -> None:
        """All that is committed is in the segments."""
        self.engine.commit.step(sync=True)
        self.engine.keeper.step()

    def checkpoint(self) -> None:
        self.write()
        assert self.engine.keeper.write_checkpoint()

    def seal(self, log: Log) -> None:
        """The log's last segment becomes a sealed, checkpointed one."""
        self.write()
        self.clock.advance(log.settings.segment_age_s)
        self.checkpoint()
        assert self.view(log).active is None

    def compact(self) -> None:
        """Checkpoint, then all the housekeeping that is due, folded."""
        self.checkpoint()
        self.housekeeper.run()
        self.write()

    def plan(self, log: Log) -> Task | None:
        """A compaction of that log; those of others are done at once."""
        self.housekeeper.retain()
        while (task := self.housekeeper.plan()) is not None and task.log is not log:
            self.housekeeper.finish(task, self.housekeeper.perform(task))
        return task

    def trim(self, log: Log, start: int) -> None:
        self.engine.stage_edit(log, Edit(start=start), self.errors.append)
        self.commit()

    def truncate(self, log: Log, end: int) -> None:
        """As the shard does it: at a batch boundary, with the head of a batch that is cut in two."""
        self.write()
        at_batch, head = end, None
        for batch in self._batches(log):
            first, stop = Batch.parse(batch).header.base_offset, Batch.parse(batch).next_offset
            if first < end < stop:
                at_batch, head = first, below_offset(batch, end)
        self.engine.stage_truncate(log, end, at_batch, head, self.errors.append)
        self.commit()

    def view(self, log: Log) -> WrittenView:
        return self.engine.keeper.views[LogNumber(log.number)]

    def records(self, log: Log) -> list[Row]:
        self.write()
        return [row for row in view_records(self.disk, self.view(log)) if row.offset >= log.start]

    def pairs(self, log: Log) -> list[tuple[int, bytes | None, bytes]]:
        return [(row.offset, row.key, row.value) for row in self.records(log)]

    def segment_files(self, log: Log) -> list[str]:
        paths = [segment.path for segment in self.view(log).sealed]
        directory = paths[0].rpartition("/")[0] if paths else ""
        return [name for name in self.disk.list(directory) if name.endswith(".seg")]

    def _batches(self, log: Log) -> list[memoryview]:
        view = self.view(log)
        maps = [self.disk.open_read(segment.path).map()[: segment.info.bytes] for segment in segments_of(view)]
        return [data[place.position :][: place.bytes] for data in maps for place in places(data, 0, len(data))]
