"""Group commit: many who commit one message each share a sync."""

from __future__ import annotations

import asyncio

from bench.measure import Benchmark, Comparison, Run, Series, Target, interleaved
from bench.path.load import batch_columns, log_of, timed_append
from penstock.core.types import Durability
from penstock.log.shard import Shard

CONCURRENT = 64


def run(settings: Run) -> list[Comparison]:
    alone, together = settings.size(2000, 50), settings.size(40_000, 2 * CONCURRENT)
    message = batch_columns(1)
    with asyncio.Runner() as runner:
        shard = runner.run(Shard.open(settings.directory / "data"))
        log = runner.run(log_of(shard, Durability.COMMIT))
        syncs_before = shard.metrics.journal_syncs
        samples = interleaved(
            settings.rounds,
            {
                "one": lambda: runner.run(timed_append(shard, log, message, alone, 1)) / alone,
                "many": lambda: runner.run(timed_append(shard, log, message, together, CONCURRENT)) / together,
            },
        )
        syncs = shard.metrics.journal_syncs - syncs_before - settings.rounds * alone
        runner.run(shard.close())
    many = Series(f"a commit of one message, {CONCURRENT} committers", samples["many"])
    one = Series("a commit of one message, one committer", samples["one"])
    notes = {"commits a second": f"{1 / many.spread.median:,.0f} against {1 / one.spread.median:,.0f}"}
    if syncs > 0:
        notes["commits a journal sync"] = f"{settings.rounds * together / syncs:.1f} of {CONCURRENT}"
    return [Comparison(many, one, target=Target(">=", 10), notes=notes)]


BENCHMARK = Benchmark("committers", f"{CONCURRENT} concurrent committers of one 256-byte message against one", run)
