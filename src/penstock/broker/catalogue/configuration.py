"""What was declared, as records in one compacted log: queues, groups, templates. The newest of a key is the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from penstock.broker.catalogue.copied import CopiedLog
from penstock.core.types import LogName, Purpose
from penstock.log.engine import Effect
from penstock.log.journal.late import Part
from penstock.log.partition import Log
from penstock.log.records import Compaction, LogSettings
from penstock.log.shard import Shard
from penstock.queues.declared import Record, apply
from penstock.queues.names import CONFIGURATION_LOG

Change = tuple[str, Record | None]
NAME: LogName = CONFIGURATION_LOG
_SETTINGS = LogSettings(segment_bytes=4 << 20, compaction=Compaction(lag_s=60.0, tombstone_s=3600.0))


class Configuration:
    """The log of what was declared. Used from the loop."""

    def __init__(self, shard: Shard, copied: CopiedLog) -> None:
        self._shard, self._copied = shard, copied

    @classmethod
    async def open(cls, shard: Shard) -> Configuration:
        """A broker that lost some of it to damage of both copies starts with the rest, and says so."""
        return cls(shard, await CopiedLog.open(shard, NAME, _SETTINGS, may_lose=True))

    @property
    def log(self) -> Log:
        return self._copied.log

    @property
    def has_lost(self) -> bool:
        return self._copied.has_lost

    def read(self) -> dict[str, Record]:
        """Everything that stands, by key, in the order in which the keys came."""
        found: dict[str, Record] = {}
        apply(found, ((key.decode(), value) for key, value in self._copied.rows()))
        return found

    async def write(self, *changes: Change, logs: Sequence[tuple[Log, LogSettings]] = ()) -> None:
        """All in one commit; None deletes. `logs` follow the records: their settings are in the same frame."""
        records = [_encoded(change) for change in changes]
        if logs:
            await self._shard.change_many(logs, self._copied.parts(records))
        else:
            await self._copied.write(records)

    async def write_creating(
        self,
        changes: Sequence[Change],
        logs: Sequence[tuple[LogName, LogSettings]],
        beside: Callable[[], list[Part]] = list,
    ) -> list[Log]:
        """write() in one commit with the making of logs, and with what others write `beside`."""
        parts = [*self._copied.parts([_encoded(change) for change in changes]), *beside()]
        if logs:
            return await self._shard.create_many(logs, parts)
        await self._shard.commit(parts, Purpose.SETTLE)
        return []

    async def write_deleting(self, changes: Sequence[Change], logs: Sequence[Log], staged: Effect) -> None:
        """write() in one commit with the end of logs. `staged` as in Shard.delete_many()."""
        parts = self._copied.parts([_encoded(change) for change in changes])
        await self._shard.delete_many(logs, parts, staged)


def _encoded(change: Change) -> tuple[str, bytes]:
    key, record = change
    return key, b"" if record is None else msgspec.json.encode(record)
