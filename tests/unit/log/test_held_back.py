"""Logs that are written for checkpoints alone: what is deleted before one was never in a segment."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

from tests.support.clock import FakeClock
from tests.support.engines import SMALL, Outcome, make_log, open_engine, put, values_of
from tests.support.loop import run
from tests.support.simdisk import SimDisk
from tests.support.small_shard import SmallShard

from penstock.log.columns import Columns
from penstock.log.disk import DirectoryLock, RealDisk
from penstock.log.engine import Engine
from penstock.log.journal.journal import JournalOptions
from penstock.log.names import log_name
from penstock.log.outside import DirectoryReader
from penstock.log.partition import Log
from penstock.log.reading.table import publish_from
from penstock.log.shard import Shard

LATE = replace(SMALL, keeper=replace(SMALL.keeper, checkpoint_bytes=1 << 20, flush_s=0.0))
ROWS = [b"%d" % number * 100 for number in range(20)]


def held_log(engine: Engine) -> Log:
    log = make_log(engine, "held")
    engine.hold_back(log)
    return log


def fill(engine: Engine, *logs: Log) -> None:
    """More than what is written at once."""
    for row in ROWS:
        for log in logs:
            put(engine, log, row)
        engine.commit.step()
        engine.keeper.step()


def segments(engine: Engine, log: Log) -> int:
    """Bytes of it in files."""
    view = engine.keeper.views[log.number]
    return 0 if view.active is None else view.active.info.bytes


def test_it_is_in_no_file_until_there_is_a_checkpoint() -> None:
    engine = open_engine(SimDisk(), LATE)
    held, other = held_log(engine), make_log(engine, "other")
    fill(engine, held, other)
    engine.keeper.flush_all()
    assert segments(engine, held) == 0
    assert segments(engine, other) > 0
    assert held.high_watermark == len(ROWS)
    assert len(held.tail) == len(ROWS), "read from there meanwhile"
    assert engine.keeper.write_checkpoint()
    assert segments(engine, held) > 0
    assert not held.tail
    assert [value for _, value in values_of(engine, "held")] == ROWS


def test_one_that_is_deleted_before_was_never_in_a_file() -> None:
    disk = SimDisk()
    engine = open_engine(disk, LATE)
    held = held_log(engine)
    fill(engine, held)
    engine.stage_delete(held, Outcome())
    engine.commit.step()
    engine.keeper.step()
    assert engine.keeper.write_checkpoint()
    assert not any("held" in name for name in disk.list("logs"))
    assert engine.usage.tail == 0
    again = held_log(engine)
    assert engine.keeper.held == {again.number}, "those that are gone are forgotten"


def test_a_crash_loses_nothing_of_it() -> None:
    for seed in range(10):
        disk = SimDisk()
        engine = open_engine(disk, LATE)
        fill(engine, held_log(engine))
        reopened = open_engine(disk.crash(random.Random(seed)), LATE)
        assert [value for _, value in values_of(reopened, "held")] == ROWS


def test_it_keeps_no_other_log_from_readers_in_other_processes(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path)
    shard = SmallShard(RealDisk(tmp_path), options=replace(LATE, journal=replace(SMALL.journal, limit_bytes=1 << 20)))
    table = publish_from(RealDisk(tmp_path), shard.engine.keeper)
    held, other = held_log(shard.engine), make_log(shard.engine, "other")
    fill(shard.engine, held, other)
    shard.engine.keeper.flush_all()
    reader = DirectoryReader(tmp_path)
    assert (reader.cut(held.number).end, reader.cut(other.number).end) == (0, len(ROWS))
    assert shard.engine.keeper.write_checkpoint()
    assert reader.cut(held.number).end == len(ROWS)
    shard.close()
    table.close()
    lock.release()


def test_it_is_written_when_somebody_waits_for_room(tmp_path: Path) -> None:
    """The clock stands still and there is room in the journal: no checkpoint is due."""

    async def main() -> None:
        journal, keeper = JournalOptions(256 << 10, 8 << 20, 128 << 10), replace(LATE.keeper, checkpoint_bytes=1 << 30)
        options = replace(SMALL, journal=journal, keeper=keeper, tail_bytes=512 << 10)
        async with await Shard.open(tmp_path, options, FakeClock()) as shard:
            log = await shard.create(log_name("held"))
            shard.hold_back(log)
            async with asyncio.timeout(60):
                for _ in range(20):
                    await shard.append(log, Columns.of([bytes(100_000)]))
            assert shard.metrics.admission_waits
            assert shard.stored_bytes(log)

    run(main())
