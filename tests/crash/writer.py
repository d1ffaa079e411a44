"""A writer to be killed: several tasks commit to several logs at once, of all durabilities, alone and together, and
tell a history file what they begin and what was acknowledged. Runs until it is ended or the journal fails."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from tests.crash.history import Acked, Begun, Event, Opened, Opening, Refused, Trimmed, Trimming, encode_event, value_of

from penstock.core.errors import LogPoisoned, PenstockError
from penstock.core.logs import configure_logs
from penstock.core.types import Compression, Durability, LogName
from penstock.log.columns import Columns
from penstock.log.journal.commit import CommitOptions
from penstock.log.journal.journal import Journal, JournalOptions
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.shard import Shard

# Everything small, so that a second of load rolls, checkpoints and recycles many times.
OPTIONS = ShardOptions(
    journal=JournalOptions(file_bytes=256 << 10, limit_bytes=1 << 20, max_frame_bytes=128 << 10),
    keeper=KeeperOptions(
        flush_bytes=8 << 10, flush_s=0.05, sync_step_bytes=64 << 10, checkpoint_bytes=256 << 10, checkpoint_s=0.5
    ),
    commit=CommitOptions(sync_interval_s=0.1, unsynced_bytes=128 << 10),
    publish_budget_bytes=256 << 10,
    tail_bytes=1 << 20,
    disk_reserve_bytes=0,
)
SEGMENT_BYTES = 64 << 10
LOGS = {
    "c0": LogSettings(Durability.COMMIT, segment_bytes=SEGMENT_BYTES),
    "c1": LogSettings(Durability.COMMIT, Compression.LZ4, segment_bytes=SEGMENT_BYTES),
    "c2": LogSettings(Durability.COMMIT, Compression.ZSTD, segment_bytes=SEGMENT_BYTES),
    "i0": LogSettings(Durability.INTERVAL, segment_bytes=SEGMENT_BYTES),
    "m0": LogSettings(Durability.MEMORY, segment_bytes=SEGMENT_BYTES),
}
WRITERS = 6
# Far more than can be under way: a trim never takes what is not acknowledged yet.
KEPT_RECORDS = 2000


@dataclass
class Load:
    shard: Shard
    run: int
    history: int
    trims: bool
    logs: list[Log] = field(default_factory=list)

    async def start(self) -> None:
        known = {log.name: log for log in self.shard.logs}
        missing = [(LogName(name), settings) for name, settings in LOGS.items() if name not in known]
        self.logs = [known[LogName(name)] for name in LOGS if name in known]
        self.logs += await self.shard.create_many(missing) if missing else []
        self.tell(Opened(self.run, {log.name: log.number for log in self.logs}))
        async with asyncio.TaskGroup() as group:
            for writer in range(WRITERS):
                group.create_task(self._write(writer))

    def tell(self, event: Event) -> None:
        os.write(self.history, encode_event(event))

    async def _write(self, writer: int) -> None:
        rng = random.Random(f"{self.run}.{writer}")
        number = 0
        while self.logs:
            await self._commit(rng, writer, number)
            number += 1
            if self.trims and rng.random() < 0.02:
                await self._trim(rng)
            await asyncio.sleep(0)  # an append to a log of durability `memory` does not wait for anything

    async def _commit(self, rng: random.Random, writer: int, number: int) -> None:
        count = 1 if rng.random() < 0.5 else rng.randint(1, len(self.logs))
        logs = rng.sample(self.logs, min(count, len(self.logs)))
        parts = [(log, 1 if rng.random() < 0.5 else rng.randint(1, 12)) for log in logs]
        level = max(log.settings.durability for log in logs)
        begun = Begun(self.run, writer, number, level, [(log.name, rows) for log, rows in parts])
        columns = [
            (log, Columns.of([value_of(begun.id, part, row) for row in range(rows)]))
            for part, (log, rows) in enumerate(parts)
        ]
        self.tell(begun)
        try:
            self.tell(Acked(self.run, writer, number, list(await self.shard.commit(columns))))
        except LogPoisoned as error:
            self.tell(Refused(self.run, writer, number, error.code.value, str(error)))
            self.logs = [log for log in self.logs if log.name != error.log]
        except PenstockError as error:
            self.tell(Refused(self.run, writer, number, error.code.value, str(error)))
            raise

    async def _trim(self, rng: random.Random) -> None:
        log = rng.choice(self.logs)
        start = log.high_watermark - KEPT_RECORDS
        if start > log.start and log.fault is None:
            self.tell(Trimming(self.run, log.name, start))
            await self.shard.trim(log, start)
            self.tell(Trimmed(self.run, log.name, start))


async def run(directory: Path, history: Path, run_number: int, trims: bool) -> None:
    descriptor = os.open(history, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, encode_event(Opening(run_number)))
    async with await Shard.open(directory, OPTIONS) as shard:
        await Load(shard, run_number, descriptor, trims).start()


def lie_about_syncs() -> None:
    """A broken engine, to show that the tests see it: the journal says it is synced and is not."""

    def sync(journal: Journal) -> float:
        journal.synced_sequence = journal.next_sequence
        return time.monotonic()

    mock.patch.object(Journal, "sync", sync).start()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("history", type=Path)
    parser.add_argument("--run", type=int, default=0)
    parser.add_argument("--keep-all", action="store_true", help="never trim")
    parser.add_argument("--lie", action="store_true", help="acknowledge without syncing the journal")
    arguments = parser.parse_args()
    if arguments.lie:
        lie_about_syncs()
    configure_logs("warning", "text")
    try:
        asyncio.run(run(arguments.directory, arguments.history, arguments.run, not arguments.keep_all))
    except ExceptionGroup as errors:
        print(*(f"ended: {error}" for error in errors.exceptions), sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
