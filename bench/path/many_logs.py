"""Ten thousand logs in one shard: what each costs, and what stays bounded."""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit, interleaved
from bench.path.load import MESSAGE_BYTES, append_batches, batch_columns
from bench.process import isolated, open_files, resident_bytes
from bench.report import number_text
from penstock.log.columns import Columns
from penstock.log.names import log_name
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.shard import Shard

_CONCURRENT = 256
# Beside the files of segments: journal, lock, table, the loop's and the interpreter's own.
_OTHER_FILES = 24


@dataclass(slots=True)
class _Life:
    """What one directory of that many logs took, from creation to reopening."""

    logs: int
    create_s: float = 0.0
    append_s: float = 0.0
    checkpoint_s: float = 0.0
    close_s: float = 0.0
    open_s: float = 0.0
    empty_bytes_a_log: float = 0.0
    bytes_a_log: float = 0.0
    open_files: int = 0


def run(settings: Run) -> list[Comparison]:
    logs = settings.size(10_000)
    lives: dict[int, list[_Life]] = {1: [], logs: []}

    def sample(count: int) -> float:
        directory = settings.directory / "data"
        life = isolated(_live, directory, count, logs)
        shutil.rmtree(directory)
        lives[count].append(life)
        return life.append_s

    interleaved(settings.rounds, {"one": lambda: sample(1), "many": lambda: sample(logs)})
    return _comparisons(lives[1], lives[logs], logs)


def _live(directory: Path, count: int, messages: int) -> _Life:
    return asyncio.run(_live_async(directory, _Life(count), messages))


async def _live_async(directory: Path, life: _Life, messages: int) -> _Life:
    shard = await Shard.open(directory)
    message, before, clock = batch_columns(1), resident_bytes(), time.perf_counter
    begun = clock()
    logs = await shard.create_many([(log_name("many", str(number)), LogSettings()) for number in range(life.logs)])
    life.create_s = clock() - begun
    life.empty_bytes_a_log = (resident_bytes() - before) / life.logs
    begun = clock()
    await _append_to_each(shard, logs, message, messages)
    life.append_s = clock() - begun
    begun = clock()
    await shard.checkpoint()
    life.checkpoint_s = clock() - begun
    life.bytes_a_log = (resident_bytes() - before) / life.logs
    life.open_files = open_files()
    begun = clock()
    await shard.close()
    life.close_s = clock() - begun
    begun = clock()
    shard = await Shard.open(directory)
    life.open_s = clock() - begun
    await shard.close()
    return life


async def _append_to_each(shard: Shard, logs: list[Log], message: Columns, messages: int) -> None:
    """One message to each; all of them to the only one, where there is one."""
    if len(logs) == 1:
        await append_batches(shard, logs[0], message, messages, _CONCURRENT)
        return
    left = iter(logs)

    async def writer() -> None:
        for log in left:
            await shard.append(log, message)

    await asyncio.gather(*[writer() for _ in range(_CONCURRENT)])


def _comparisons(one: list[_Life], many: list[_Life], logs: int) -> list[Comparison]:
    def times(name: str, field_name: str, size: int = 0) -> Comparison:
        subject = tuple(float(getattr(life, field_name)) for life in many)
        baseline = tuple(float(getattr(life, field_name)) for life in one)
        return Comparison(
            Series(f"{name}, {logs:,} logs", subject, bytes=size), Series("one log", baseline, bytes=size), Ratio.COST
        )

    files = tuple(float(life.open_files) for life in many)
    bound = float(KeeperOptions().max_open_files + _OTHER_FILES)
    resident = {
        "resident a log, empty / with a message": " / ".join(
            number_text(sorted(values)[len(values) // 2], Unit.BYTES)
            for values in ([life.empty_bytes_a_log for life in many], [life.bytes_a_log for life in many])
        )
    }
    return [
        times("create in one commit", "create_s"),
        times(f"{logs:,} commits of a message, {_CONCURRENT} at a time", "append_s", logs * MESSAGE_BYTES),
        times("checkpoint", "checkpoint_s"),
        times("clean stop", "close_s"),
        times("open after a clean stop", "open_s"),
        Comparison(
            Series(f"open files, {logs:,} logs written to", files, Unit.COUNT),
            Series("as many as may be open", (bound,) * len(files), Unit.COUNT),
            Ratio.COST,
            Target("<=", 1.0),
            resident,
        ),
    ]


BENCHMARK = Benchmark("many-logs", "10,000 logs: create, append a message to each, memory, open files, reopen", run)
