"""A shard's threads, its housekeeping and its readers at once, on a real disk: every read must be right.

A value says which log and offset it is for, so any record can be checked by itself; what is missing shows as a hole
in a log
that nobody compacts."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.errors import OffsetOutOfRange
from penstock.core.types import Compression, Durability, LogName
from penstock.log.batch import Batch, Row
from penstock.log.columns import Columns
from penstock.log.journal.journal import JournalOptions
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.records import Compaction, LogSettings, Retention
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.shard import Shard
from penstock.log.threads import SWITCH_INTERVAL_S

OPTIONS = ShardOptions(
    journal=JournalOptions(file_bytes=1 << 20, limit_bytes=4 << 20, max_frame_bytes=512 << 10),
    keeper=KeeperOptions(flush_s=0.005, sync_step_bytes=64 << 10, checkpoint_bytes=512 << 10, max_open_files=4),
    disk_reserve_bytes=0,
    housekeeping_s=0.05,
)
SEGMENT_BYTES = 32 << 10
SETTINGS = {
    "plain": LogSettings(segment_bytes=SEGMENT_BYTES),
    "packed": LogSettings(segment_bytes=SEGMENT_BYTES, compression=Compression.LZ4),
    "quick": LogSettings(segment_bytes=SEGMENT_BYTES, durability=Durability.INTERVAL),
    "bounded": LogSettings(segment_bytes=SEGMENT_BYTES, retention=Retention(bytes=4 * SEGMENT_BYTES)),
    "compacted": LogSettings(segment_bytes=SEGMENT_BYTES, compaction=Compaction(lag_s=0.0, interval_s=0.0)),
}
KEYS = 50


@dataclass
class Stress:
    """Everything runs in one loop; `writing` keeps the offsets that a value is made for right."""

    shard: Shard
    logs: list[Log]
    rng: random.Random
    end: float
    reads: int = 0
    writes: int = 0
    writing: dict[LogName, asyncio.Lock] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    async def write(self) -> None:
        log, other = self.rng.sample(self.logs, 2)
        first, second = sorted((log, other), key=lambda log: log.number)
        async with self.writing[first.name], self.writing[second.name]:
            parts = [(each, self._columns(each)) for each in (log, other)]
            await self.shard.commit(parts)
        self.writes += 1

    async def read(self) -> None:
        log = self.rng.choice(self.logs)
        start, end = log.start, max(log.start, log.visible_end)
        try:
            found = await self.shard.read(log, self.rng.randint(start, end), self.rng.choice((1, 4_000, 1 << 20)))
        except OffsetOutOfRange:
            assert log.start > start or log.end < end
            return
        rows = [row for data in found for row in Batch.parse(data)]
        for row in rows:
            check_row(log, row)
        offsets = [row.offset for row in rows]
        assert offsets == sorted(set(offsets))
        if log.settings.compaction is None and offsets:
            assert offsets == list(range(offsets[0], offsets[-1] + 1))
        self.reads += 1

    async def trim(self) -> None:
        log = self.rng.choice(self.logs)
        await self.shard.trim(log, self.rng.randint(log.start, log.end))

    async def truncate(self) -> None:
        log = self.rng.choice(self.logs)
        async with self.writing[log.name]:
            with contextlib.suppress(OffsetOutOfRange):  # trimmed meanwhile
                await self.shard.truncate(log, self.rng.randint(max(log.start, log.end - 40), log.end))

    async def checkpoint(self) -> None:
        await self.shard.checkpoint()

    async def repeat(self, action: Callable[[], Awaitable[None]], pause_s: float) -> None:
        while not self.is_over:
            await action()
            await asyncio.sleep(self.rng.random() * pause_s)

    def _columns(self, log: Log) -> Columns:
        count = self.rng.randrange(1, 30)
        offsets = range(log.end, log.end + count)
        values = [value_of(log, offset) for offset in offsets]
        return Columns.of(values, keys=[b"%d" % (offset % KEYS) for offset in offsets])


def value_of(log: Log, offset: int) -> bytes:
    return b"%s %d " % (log.name.encode(), offset) + b"x" * (offset % 400)


def check_row(log: Log, row: Row) -> None:
    assert row.value == value_of(log, row.offset), (log.name, row.offset, row.value[:40])
    assert row.key == b"%d" % (row.offset % KEYS)


async def stress(directory: Path, seconds: float, seed: int) -> str:
    """Run it; what was done."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    async with await Shard.open(directory, OPTIONS) as shard:
        logs = await shard.create_many([(log_name(name), settings) for name, settings in SETTINGS.items()])
        locks = {log.name: asyncio.Lock() for log in logs}
        run = Stress(shard, logs, random.Random(seed), time.monotonic() + seconds, writing=locks)
        async with asyncio.TaskGroup() as tasks:
            for action, count, pause_s in (
                (run.write, 6, 0.0),
                (run.read, 6, 0.001),
                (run.trim, 1, 0.2),
                (run.truncate, 1, 0.1),
                (run.checkpoint, 1, 0.3),
            ):
                for _ in range(count):
                    tasks.create_task(run.repeat(action, pause_s))
        compactions = shard.metrics.compactions
    async with await Shard.open(directory, OPTIONS) as shard:
        for log in (shard.log(name) for name in SETTINGS):
            for data in shard.reader.batches(log, log.start):
                for row in Batch.parse(data):
                    check_row(log, row)
    return f"{run.writes} commits, {run.reads} reads, {compactions} compactions, seed {seed}"
