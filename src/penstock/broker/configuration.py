"""What was declared, as records in one compacted log: queues, groups, templates. The newest of a key is the truth."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from penstock.core.types import LogName, Purpose
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.partition import Log
from penstock.log.records import Compaction, LogSettings
from penstock.log.shard import Shard
from penstock.queues.declared import Record, apply
from penstock.queues.names import CONFIGURATION_LOG

NAME: LogName = CONFIGURATION_LOG
_SETTINGS = LogSettings(segment_bytes=4 << 20, compaction=Compaction(lag_s=60.0, tombstone_s=3600.0))


class Configuration:
    """The log of what was declared. Used from the loop."""

    def __init__(self, shard: Shard, log: Log) -> None:
        self._shard, self.log = shard, log

    @classmethod
    async def open(cls, shard: Shard) -> Configuration:
        found = next((log for log in shard.logs if log.name == NAME), None)
        return cls(shard, found if found is not None else await shard.create(NAME, _SETTINGS))

    def read(self) -> dict[str, Record]:
        """Everything that stands, by key, in the order in which the keys came."""
        found: dict[str, Record] = {}
        apply(found, self._values())
        return found

    async def write(self, *changes: tuple[str, Record | None]) -> None:
        """All in one commit; None deletes."""
        await self._shard.append(self.log, columns_of(changes), Purpose.SETTLE)

    def _values(self) -> Iterator[tuple[str, bytes]]:
        for data in self._shard.reader.batches(self.log, self.log.start):
            for row in Batch.parse(data):
                if row.key is not None:
                    yield row.key.decode(), row.value


def columns_of(changes: tuple[tuple[str, Record | None], ...]) -> Columns:
    values = [b"" if record is None else msgspec.json.encode(record) for _, record in changes]
    return Columns.of(values, keys=[key.encode() for key, _ in changes])
