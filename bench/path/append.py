"""Appending in batches, in each durability, against the bare system calls."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial

from bench.measure import Benchmark, Comparison, Run, Series, Target, Unit, interleaved, seconds
from bench.path.load import BATCH_BYTES, IN_FLIGHT, append_batches, batch_columns, log_of
from bench.path.raw import RawFile
from bench.report import number_text
from penstock.core.types import Durability
from penstock.log import batch as batches
from penstock.log.columns import Columns
from penstock.log.partition import Log
from penstock.log.shard import Shard

_CHECKPOINTED = "commit, segments synced and checkpointed too"
# Who writes without a shard syncs each batch: that is what the target is held against. The shard gathers batches that
# are
# in flight for one sync; the other baseline does the same by hand, as nobody but a group commit could.
_RAW_GROUPED = f"raw writev + fdatasync, {IN_FLIGHT} batches a sync"
_RAW_SINGLE = "raw writev + fdatasync, one batch a sync"


@dataclass(slots=True)
class _Appends:
    """One shard for all rounds; every sample ends with a checkpoint, so that nothing is left to disturb the next."""

    runner: asyncio.Runner
    shard: Shard
    columns: Columns
    count: int
    checkpointed: list[float]

    def seconds(self, log: Log) -> float:
        return self.runner.run(self._append(log))

    async def _append(self, log: Log) -> float:
        begun = time.perf_counter()
        await append_batches(self.shard, log, self.columns, self.count)
        took = time.perf_counter() - begun
        await self.shard.checkpoint()
        if log.settings.durability is Durability.COMMIT:
            self.checkpointed.append(time.perf_counter() - begun)
        return took


def run(settings: Run) -> list[Comparison]:
    count = settings.size(2000, IN_FLIGHT) // IN_FLIGHT * IN_FLIGHT
    columns = batch_columns()
    batch = batches.encode(columns)
    raw = RawFile(settings.directory / "raw", count * len(batch))
    with asyncio.Runner() as runner:
        shard = runner.run(Shard.open(settings.directory / "data"))
        logs = {level: runner.run(log_of(shard, level)) for level in reversed(Durability)}
        appends = _Appends(runner, shard, columns, count, [])
        samples = interleaved(
            settings.rounds,
            {
                _RAW_GROUPED: lambda: seconds(lambda: raw.write_synced([batch] * IN_FLIGHT, count // IN_FLIGHT)),
                _RAW_SINGLE: lambda: seconds(lambda: raw.write_synced([batch], count)),
            }
            | {level.name.lower(): partial(appends.seconds, log) for level, log in logs.items()},
        )
        notes = _notes(shard)
        runner.run(shard.close())
    raw.close()
    samples[_CHECKPOINTED] = tuple(appends.checkpointed)
    return _comparisons(samples, count * BATCH_BYTES, notes)


def _comparisons(samples: dict[str, tuple[float, ...]], size: int, notes: dict[str, str]) -> list[Comparison]:
    def against(
        name: str, baseline: str, target: Target | None = None, said: dict[str, str] | None = None
    ) -> Comparison:
        subject, raw = Series(name, samples[name], bytes=size), Series(baseline, samples[baseline], bytes=size)
        return Comparison(subject, raw, target=target, notes=said or {})

    return [
        against("commit", _RAW_SINGLE, Target(">=", 0.4), notes),
        against("commit", _RAW_GROUPED),
        *[against(name, _RAW_GROUPED) for name in (_CHECKPOINTED, "interval", "memory")],
    ]


def _notes(shard: Shard) -> dict[str, str]:
    metrics = shard.metrics
    written = metrics.journal_bytes + metrics.segment_bytes
    return {
        "bytes written per byte taken": f"{written / metrics.batch_bytes:.3f} "
        f"(journal {metrics.journal_bytes / metrics.batch_bytes:.3f}, "
        f"segments {metrics.segment_bytes / metrics.batch_bytes:.3f})",
        "a journal sync, all durabilities": f"{metrics.frames / metrics.journal_syncs:.1f} commits, "
        f"{number_text(metrics.journal_sync_ns / metrics.journal_syncs * 1e-9, Unit.SECONDS)} on average",
        "journal waits for a checkpoint": str(metrics.journal_waits),
    }


BENCHMARK = Benchmark("append", f"256-byte messages in batches of 500, {IN_FLIGHT} appends in flight", run)
