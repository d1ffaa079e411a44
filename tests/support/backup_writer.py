"""A process that writes to a data directory without rest, for tests that copy it meanwhile. Prints how much is
acknowledged."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from penstock.log.columns import Columns
from penstock.log.journal.journal import JournalOptions
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.records import LogSettings
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.shard import Shard

OPTIONS = ShardOptions(
    journal=JournalOptions(file_bytes=64 << 10, limit_bytes=512 << 10, max_frame_bytes=16 << 10),
    keeper=KeeperOptions(flush_bytes=2 << 10, flush_s=0.02, checkpoint_bytes=96 << 10),
    disk_reserve_bytes=0,
)
KEPT_RECORDS = 3000


async def write_for_ever(directory: Path) -> None:
    async with await Shard.open(directory, OPTIONS) as shard:
        settings = LogSettings(segment_bytes=24 << 10)
        logs = await shard.create_many([(log_name("a"), settings), (log_name("b"), settings)])
        count = 0
        while True:
            numbers = range(count, count + 20)
            await shard.commit(
                [(log, Columns.of([b"%s %d" % (log.name.encode(), i) * 8 for i in numbers])) for log in logs]
            )
            count += len(numbers)
            print(count, flush=True)
            if count % 2000 == 0:
                await shard.trim(logs[count // 2000 % 2], max(0, count - KEPT_RECORDS))


if __name__ == "__main__":
    asyncio.run(write_for_ever(Path(sys.argv[1])))
