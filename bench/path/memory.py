"""Resident memory while far more than fits into it passes through a log with retention."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit
from bench.path.load import BATCH_BYTES, append_batches, batch_columns
from bench.process import peak_resident_bytes, resident_bytes
from bench.report import number_text
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.records import LogSettings, Retention
from penstock.log.shard import Shard

_TOTAL_BYTES, _QUICK_BYTES = 10 << 30, 200 << 20
# Between phases everything is written and checkpointed; inside one the keeper may fall behind.
_PHASES, _SAMPLES_A_PHASE = 5, 32
# What is kept is far less than what passes, so that memory that followed what was written would show.
_KEPT_BYTES = 512 << 20
_OPTIONS = ShardOptions(housekeeping_s=1.0)
# What allocator and interpreter take beside the bytes that the options allow to wait in memory.
_OTHER_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _Phase:
    busy: tuple[float, ...]
    """resident while appending without a pause"""
    at_rest: float


def run(settings: Run) -> list[Comparison]:
    total = _QUICK_BYTES if settings.quick else _TOTAL_BYTES
    before = resident_bytes()
    with asyncio.Runner() as runner:
        shard = runner.run(Shard.open(settings.directory / "data", _OPTIONS))
        retention = LogSettings(retention=Retention(bytes=_KEPT_BYTES))
        log = runner.run(shard.create(log_name("memory"), retention))
        phases = [runner.run(_pass_through(shard, log, total // _PHASES)) for _ in range(_PHASES)]
        kept = f"{log.end - log.start:,} of {log.end:,}"
        runner.run(shard.close())
    notes = {"before opening": number_text(before, Unit.BYTES), "records kept of those written": kept}
    return [_at_rest(phases, notes), _at_full_speed(phases), _peak(before)]


async def _pass_through(shard: Shard, log: Log, size: int) -> _Phase:
    columns, busy = batch_columns(), list[float]()
    for _ in range(_SAMPLES_A_PHASE):
        await append_batches(shard, log, columns, size // _SAMPLES_A_PHASE // BATCH_BYTES)
        busy.append(float(resident_bytes()))
    await shard.checkpoint()
    return _Phase(tuple(busy), float(resident_bytes()))


def _at_rest(phases: list[_Phase], notes: dict[str, str]) -> Comparison:
    """The first fifth has filled every buffer once."""
    return Comparison(
        Series("resident at rest, after each later fifth", tuple(phase.at_rest for phase in phases[1:]), Unit.BYTES),
        Series("resident at rest, after the first fifth", (phases[0].at_rest,), Unit.BYTES),
        Ratio.COST,
        Target("<=", 1.25),
        notes,
    )


def _at_full_speed(phases: list[_Phase]) -> Comparison:
    return Comparison(
        Series("resident while appending, last fifth", phases[-1].busy, Unit.BYTES),
        Series("resident while appending, first fifth", phases[0].busy, Unit.BYTES),
        Ratio.COST,
    )


def _peak(before: int) -> Comparison:
    """The keeper may fall behind as far as the options let it, and no further."""
    allowed = float(before + _OPTIONS.tail_bytes + _OPTIONS.publish_budget_bytes + _OTHER_BYTES)
    return Comparison(
        Series("resident, peak", (float(peak_resident_bytes()),), Unit.BYTES),
        Series("what may wait in memory, and 64 MiB", (allowed,), Unit.BYTES),
        Ratio.COST,
        Target("<=", 1.0),
    )


BENCHMARK = Benchmark("memory", "resident memory while 10 GiB pass through a log with retention", run)
