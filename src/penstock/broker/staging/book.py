"""The book of staging: one compacted log, in which the newest record of a key is the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.broker.staging.records import (
    BookKey,
    BookRecord,
    Change,
    decode_key,
    decode_record,
    encode_key,
    encode_record,
    moved,
    time_of,
)
from penstock.core.types import LogName, Purpose
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.names import log_name
from penstock.log.partition import Log
from penstock.log.records import Compaction, LogSettings
from penstock.log.shard import Part, Shard

NAME: LogName = log_name("@staging", "book")
_SETTINGS = LogSettings(segment_bytes=4 << 20, compaction=Compaction(lag_s=60.0, tombstone_s=3600.0))
# Of what goes in one frame: far below the smallest frame there is.
_CHANGES_AT_ONCE = 200


class Book:
    """Used from the loop. Its log is made with the first record: who stages nothing has none."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._log = next((log for log in shard.logs if log.name == NAME), None)
        self._making = asyncio.Lock()

    async def log(self) -> Log:
        if self._log is None:
            async with self._making:
                if self._log is None:
                    self._log = await self._shard.create(NAME, _SETTINGS)
        return self._log

    def read(self) -> dict[BookKey, BookRecord]:
        """Everything that stands, in the order in which the keys came. Times of a clock that was ahead, and was set
        back while nobody was here, are those of now."""
        now = self._shard.timeline.now()
        found: dict[BookKey, BookRecord] = {}
        if self._log is None:
            return found
        for data in self._shard.readable(self._log, self._log.start):
            for row in Batch.parse(data):
                key = decode_key(row.key or b"")
                if row.value:
                    record = decode_record(key, row.value)
                    found[key] = moved(record, min(now - time_of(record), 0))
                else:
                    found.pop(key, None)
        return found

    async def forget(self, keys: Sequence[BookKey]) -> None:
        await self.write([(key, None) for key in keys])

    async def write(self, changes: Sequence[Change]) -> None:
        log = await self.log()
        for at in range(0, len(changes), _CHANGES_AT_ONCE):
            await self._shard.commit([self.part(log, changes[at : at + _CHANGES_AT_ONCE])], Purpose.SETTLE)

    def part(self, log: Log, changes: Sequence[Change]) -> Part:
        """For the frame that the changes belong to."""
        shift = self._shard.timeline.wall() - self._shard.timeline.now()
        values = [encode_record(None if record is None else moved(record, shift)) for _, record in changes]
        return log, Columns.of(values, keys=[encode_key(key) for key, _ in changes])
