"""A sink for the crash tests: stages and commits epoch after epoch, going on behind the last that it noted, as Spark.
`python -m tests.crash.staging_worker DIRECTORY NOTES EPOCHS`"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.broker import SMALL

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.queues.queue import Queue
from penstock.log.columns import Columns

QUEUES = {"one": 1, "three": 3}
ROWS = 40


def rows_of(epoch: int, queue: str) -> list[bytes]:
    """Every third epoch is larger than a frame."""
    size = 3000 if epoch % 3 == 0 else 20
    return [f"{queue}.{epoch}.{number}.".encode().ljust(size, b".") for number in range(ROWS)]


def noted(notes: Path) -> int:
    return notes.stat().st_size if notes.exists() else 0


def note(notes: Path) -> None:
    with notes.open("ab") as file:
        file.write(b".")


async def commit(broker: Broker, queues: list[Queue], epoch: int) -> None:
    halves = [(queue, half) for queue in queues for half in _halves(rows_of(epoch, queue.name))]
    columns = [(queue, Columns.of(half, keys=[row[:12] for row in half])) for queue, half in halves]
    ranges = [await broker.staging.stage(queue, mine) for queue, mine in columns]
    await broker.staging.commit("sink", epoch, ranges)


def _halves(rows: list[bytes]) -> list[list[bytes]]:
    return [rows[: ROWS // 2], rows[ROWS // 2 :]]


async def main(directory: Path, notes: Path, epochs: int) -> None:
    async with await Broker.open(directory, BrokerOptions(shard=SMALL)) as broker:
        queues = [
            await broker.declare({"name": name, "partitions": count}, if_absent=True) for name, count in QUEUES.items()
        ]
        # The epoch that was under way is done again, whatever became of it.
        for epoch in range(noted(notes), epochs):
            await commit(broker, queues, epoch)
            note(notes)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
