"""How long a sync of the journal takes while segments are synced and checkpointed beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from unittest import mock

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit, interleaved
from bench.path.load import BATCH_BYTES, batch_columns
from bench.report import number_text
from penstock.log.journal.journal import DIRECTORY, Journal, JournalOptions
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.shard import Shard

OFFERED_BYTES_A_SECOND = 100_000_000
# Five rounds make 60 s of load with the checkpointer and 60 s without.
_ROUND_S, _QUICK_ROUND_S = 12.0, 1.0
# A round without checkpoints must fit, or the journal would wait for one.
_JOURNAL = JournalOptions(limit_bytes=48 * (32 << 20))
_AT_WORK = ShardOptions(journal=_JOURNAL)
_NONE = replace(
    _AT_WORK, keeper=KeeperOptions(sync_step_bytes=1 << 60, checkpoint_bytes=1 << 60, checkpoint_s=float(1 << 30))
)


def run(settings: Run) -> list[Comparison]:
    directory, round_s = settings.directory / "data", _QUICK_ROUND_S if settings.quick else _ROUND_S
    with asyncio.Runner() as runner:
        runner.run(_prepare(directory, settings.size(_JOURNAL.limit_bytes // _JOURNAL.file_bytes, 6)))
        pooled: dict[str, list[float]] = {"work": [], "none": []}
        taken: dict[str, list[float]] = {"work": [], "none": []}

        def sample(name: str, options: ShardOptions) -> float:
            with _journal_syncs() as times:
                taken[name].append(runner.run(_offer(directory, options, round_s)))
            pooled[name] += times
            return _percentile(times, 0.999)

        samples = interleaved(
            settings.rounds, {"work": partial(sample, "work", _AT_WORK), "none": partial(sample, "none", _NONE)}
        )
    notes = {f"all rounds, {name}": _summary(pooled[key], taken[key]) for key, name in _NAMES.items()}
    work, none = (
        Series(f"journal sync p99.9, {_NAMES['work']}", samples["work"]),
        Series(_NAMES["none"], samples["none"]),
    )
    return [Comparison(work, none, Ratio.COST, Target("<=", 10), notes)]


_NAMES = {"work": "checkpointer at work", "none": "no segment syncs, no checkpoints"}


async def _prepare(directory: Path, slots: int) -> None:
    """A journal as it is after some time: as many files as it may have, so that none is allocated while measuring."""
    await (await Shard.open(directory, _AT_WORK)).close()
    present = len(list((directory / DIRECTORY).iterdir()))
    zeros = bytes(1 << 20)
    for number in range(present, slots):
        with (directory / DIRECTORY / f"{number:04d}").open("wb") as file:
            for _ in range(_JOURNAL.file_bytes >> 20):
                file.write(zeros)


async def _offer(directory: Path, options: ShardOptions, duration_s: float) -> float:
    """Bytes a second that were taken, of OFFERED_BYTES_A_SECOND in batches of 500 at even intervals."""
    shard = await Shard.open(directory, options)
    log = await shard.create(log_name("load"))
    columns, every_s = batch_columns(), BATCH_BYTES / OFFERED_BYTES_A_SECOND
    appends: set[asyncio.Task[int]] = set()
    begun, offered = time.perf_counter(), 0
    while (now := time.perf_counter() - begun) < duration_s:
        for _ in range(offered, int(now / every_s)):
            task: asyncio.Task[int] = asyncio.ensure_future(shard.append(log, columns))
            appends.add(task)
            task.add_done_callback(appends.discard)
            offered += 1
        await asyncio.sleep(every_s / 2)
    await asyncio.gather(*appends)
    took = time.perf_counter() - begun
    await shard.delete(log)
    await shard.close()
    return offered * BATCH_BYTES / took


@contextmanager
def _journal_syncs() -> Iterator[list[float]]:
    """Seconds of every sync of a group commit; those of the headers of new files are not counted."""
    times: list[float] = []
    sync = Journal.sync

    def timed(journal: Journal) -> None:
        waiting = journal.synced_sequence != journal.next_sequence
        begun = time.perf_counter()
        sync(journal)
        if waiting:
            times.append(time.perf_counter() - begun)

    with mock.patch.object(Journal, "sync", timed):
        yield times


def _percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]


def _summary(times: list[float], rates: list[float]) -> str:
    parts = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    text = ", ".join(f"{name} {number_text(_percentile(times, share), Unit.SECONDS)}" for name, share in parts.items())
    return f"{len(times):,} syncs, {text}; {number_text(median(rates), Unit.BYTES)}/s taken"


BENCHMARK = Benchmark("sync-latency", "journal sync p99.9 with the checkpointer at work, 100 MB/s offered", run)
