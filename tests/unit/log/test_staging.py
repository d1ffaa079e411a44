"""What is staged within one turn of the loop."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

from tests.support.loop import run

from penstock.log.columns import Columns
from penstock.log.names import log_name
from penstock.log.partition import Log
from penstock.log.shard import Shard, resolve


def stage_with_time_between(shard: Shard, log: Log, futures: list[asyncio.Future[None]]) -> None:
    for number, future in enumerate(futures):
        assert shard.stage_now([(log, Columns.of([b"%d" % number]))], partial(resolve, future)) == [number]
        time.sleep(0.005)  # a storage thread that were awake would take it


def test_all_that_is_staged_in_a_turn_of_the_loop_is_one_sync(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path) as shard:
            log = await shard.create(log_name("a"))
            before = shard.metrics.journal_syncs
            futures: list[asyncio.Future[None]] = [asyncio.get_running_loop().create_future() for _ in range(3)]
            stage_with_time_between(shard, log, futures)
            await asyncio.gather(*futures)
            assert shard.metrics.journal_syncs == before + 1

    run(main())
