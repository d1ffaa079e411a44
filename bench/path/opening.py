"""Opening a data directory: after a clean stop whatever it holds, after a kill as far as the journal reaches."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, interleaved, seconds
from bench.path.load import BATCH_BYTES, append_batches, batch_columns
from bench.path.raw import RawFile
from bench.process import killed_after
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.shard import Shard
from penstock.log.threads import SWITCH_INTERVAL_S

_LOG = log_name("open")
_TIMES_LARGER = 16
# Of 1 GiB of journal; each opening after a kill begins a file of its own.
_JOURNAL_FILL_BYTES = 800 << 20
_NO_CHECKPOINTS = ShardOptions(keeper=KeeperOptions(checkpoint_bytes=1 << 60, checkpoint_s=float(1 << 30)))


def run(settings: Run) -> list[Comparison]:
    return [_after_clean_stop(settings), _after_kill(settings)]


def _after_clean_stop(settings: Run) -> Comparison:
    small, large = settings.directory / "small", settings.directory / "large"
    size = settings.size(64 << 20, BATCH_BYTES)
    asyncio.run(_fill(small, size))
    asyncio.run(_fill(large, size * _TIMES_LARGER))
    samples = interleaved(
        settings.rounds, {"small": partial(_open_seconds, small), "large": partial(_open_seconds, large)}
    )
    return Comparison(
        Series(f"after a clean stop, {_TIMES_LARGER} times the data", samples["large"], bytes=size * _TIMES_LARGER),
        Series("after a clean stop", samples["small"], bytes=size),
        Ratio.COST,
        Target("<=", 2.0),
        {"target": "opening is to be independent of size; below 2 times is what this can tell"},
    )


async def _fill(directory: Path, size: int) -> None:
    async with await Shard.open(directory) as shard:
        await append_batches(shard, await shard.create(_LOG), batch_columns(), max(size // BATCH_BYTES, 1))


def _open_seconds(directory: Path) -> float:
    return asyncio.run(_open_and_close(directory))


async def _open_and_close(directory: Path) -> float:
    begun = time.perf_counter()
    shard = await Shard.open(directory)
    took = time.perf_counter() - begun
    await shard.close()
    return took


def _after_kill(settings: Run) -> Comparison:
    directory, size = settings.directory / "killed", settings.size(_JOURNAL_FILL_BYTES, BATCH_BYTES)
    (journal_bytes,) = killed_after(_fill_journal, directory, size)
    raw = RawFile(settings.directory / "raw", size)
    frames: list[float] = []

    def sample() -> float:
        took, replayed = killed_after(_open_and_die, directory)
        frames.append(replayed)
        return took

    group = [bytes(1 << 20)]
    samples = interleaved(
        settings.rounds, {"killed": sample, "raw": lambda: seconds(lambda: raw.write_synced(group, max(size >> 20, 1)))}
    )
    raw.close()
    return Comparison(
        Series("after kill -9, the journal full", samples["killed"], bytes=int(journal_bytes)),
        Series("raw writev + fdatasync, 1 MiB a sync", samples["raw"], bytes=size),
        Ratio.COST,
        notes={"frames replayed": f"{min(frames):,.0f} - {max(frames):,.0f}"},
    )


def _fill_journal(sender: Connection, directory: Path, size: int) -> None:
    asyncio.run(_fill_and_die(sender, directory, size))


async def _fill_and_die(sender: Connection, directory: Path, size: int) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    shard = await Shard.open(directory, _NO_CHECKPOINTS)
    await append_batches(shard, await shard.create(_LOG), batch_columns(), max(size // BATCH_BYTES, 1))
    _die(sender, (float(shard.metrics.journal_bytes),))


def _open_and_die(sender: Connection, directory: Path) -> None:
    """Without a clean stop, so that the next one finds the same journal."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    asyncio.run(_open_timed(sender, directory))


async def _open_timed(sender: Connection, directory: Path) -> None:
    begun = time.perf_counter()
    shard = await Shard.open(directory, _NO_CHECKPOINTS)
    took = time.perf_counter() - begun
    _die(sender, (took, float(shard.metrics.replayed_frames)))


def _die(sender: Connection, result: tuple[float, ...]) -> None:
    sender.send(result)
    os.kill(os.getpid(), signal.SIGKILL)


BENCHMARK = Benchmark("opening", "opening after a clean stop and after kill -9", run)
