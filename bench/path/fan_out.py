"""One commit over many logs: one frame, one sync, whatever their number."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from statistics import median

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, interleaved
from bench.path.load import batch_columns
from penstock.log.columns import Columns
from penstock.log.names import log_name
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.shard import Shard

_TARGETS = {10: 2.0, 100: 6.0, 1000: 50.0}
_COMMITS = {1: 1000, 10: 1000, 100: 400, 1000: 60}


def run(settings: Run) -> list[Comparison]:
    message = batch_columns(1)
    with asyncio.Runner() as runner:
        shard = runner.run(Shard.open(settings.directory / "data"))
        names = [(log_name("fan", str(number)), LogSettings()) for number in range(max(_TARGETS))]
        logs = runner.run(shard.create_many(names))

        def sample(width: int) -> float:
            commits = settings.size(_COMMITS[width], 5)
            return runner.run(_commit_seconds(shard, logs[:width], message, commits))

        samples = interleaved(settings.rounds, {str(width): partial(sample, width) for width in _COMMITS})
        runner.run(shard.close())
    one = Series("a commit to one log", samples["1"])
    return [
        Comparison(
            Series(f"a commit over {width} logs", samples[str(width)]), one, Ratio.COST, Target("<=", _TARGETS[width])
        )
        for width in _TARGETS
    ]


async def _commit_seconds(shard: Shard, logs: list[Log], message: Columns, commits: int) -> float:
    """The median of so many commits, one at a time. What they left to the keeper is done before the next sample."""
    parts = [(log, message) for log in logs]
    times = []
    for _ in range(commits):
        begun = time.perf_counter()
        await shard.commit(parts)
        times.append(time.perf_counter() - begun)
    await shard.checkpoint()
    return median(times)


BENCHMARK = Benchmark("fan-out", "one commit of a 256-byte message to each of 10, 100, 1,000 logs against one log", run)
