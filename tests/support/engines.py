"""An engine over a simulated disk, driven by plain calls: small files, a clock that moves when told to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.support.clock import FakeClock
from tests.support.simdisk import SimDisk

from penstock.core.errors import PenstockError
from penstock.core.metrics import ShardMetrics
from penstock.core.types import Purpose
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.engine import Engine
from penstock.log.journal.journal import JournalOptions
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.segments.index import places
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.upkeep.recovery import recover

SMALL = ShardOptions(
    journal=JournalOptions(file_bytes=16 << 10, limit_bytes=128 << 10, max_frame_bytes=8 << 10),
    keeper=KeeperOptions(flush_bytes=1 << 10, sync_step_bytes=4 << 10, checkpoint_bytes=32 << 10),
    disk_reserve_bytes=0,
)


@dataclass
class Outcome:
    """What a commit's `done` was called with."""

    calls: list[PenstockError | None] = field(default_factory=list)

    def __call__(self, error: PenstockError | None) -> None:
        self.calls.append(error)

    @property
    def is_acknowledged(self) -> bool:
        return self.calls == [None]


def open_engine(disk: SimDisk, options: ShardOptions = SMALL, clock: FakeClock | None = None) -> Engine:
    clock, metrics = clock or FakeClock(), ShardMetrics()
    opened = recover(disk, clock, options, metrics)
    return Engine(disk, clock, options, metrics, opened, lambda call: call())


def close_engine(engine: Engine) -> None:
    engine.commit.step(sync=True)
    assert engine.keeper.write_checkpoint(clean=True)
    engine.journal.close()
    engine.keeper.close()


def make_log(engine: Engine, name: str = "a", settings: LogSettings | None = None) -> Log:
    [log] = engine.stage_create([(log_name(name), settings or LogSettings())], Outcome())
    engine.commit.step()
    return log


def put(engine: Engine, log: Log, *values: bytes, purpose: Purpose = Purpose.PUBLISH) -> Outcome:
    outcome = Outcome()
    engine.stage([(log, Columns.of(list(values)))], outcome, purpose)
    return outcome


def values_of(engine: Engine, name: str = "a") -> list[tuple[int, bytes]]:
    """Every record that lies in the log's segment files, checked."""
    engine.keeper.step()
    engine.keeper.flush_all()
    written = engine.keeper.logs[engine.catalogue.number_of(name)]
    found: list[tuple[int, bytes]] = []
    for path, size in _files(engine, written.number):
        data = engine.keeper.files.map(path)
        for place in places(data, 0, size):
            batch = Batch.parse(data[place.position : place.position + place.bytes])
            found += [(row.offset, row.value) for row in batch if row.offset >= written.bounds.start]
    return found


def with_reserve(options: ShardOptions, reserve_bytes: int) -> ShardOptions:
    return replace(options, disk_reserve_bytes=reserve_bytes)


def _files(engine: Engine, number: int) -> list[tuple[str, int]]:
    view = next(view for log, view in engine.keeper.views.items() if log == number)
    files = [(segment.path, segment.info.bytes) for segment in view.sealed]
    return [*files, (view.active.path, view.active.info.bytes)] if view.active is not None else files
