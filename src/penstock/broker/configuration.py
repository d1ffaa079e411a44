"""What was declared, as records in one compacted log: queues, groups, templates. The newest of a key is the truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.core.types import LogName, Purpose
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.partition import Log
from penstock.log.records import Compaction, LogSettings
from penstock.log.shard import Shard
from penstock.queues.names import CONFIGURATION_LOG

NAME: LogName = CONFIGURATION_LOG
_SETTINGS = LogSettings(segment_bytes=4 << 20, compaction=Compaction(lag_s=60.0, tombstone_s=3600.0))


class Switch(msgspec.Struct, frozen=True):
    """The number of partitions grew: messages at or behind `ends` were placed among more partitions than those
    before."""

    ends: dict[int, int]
    deadline_ms: int


class QueueRecord(msgspec.Struct, frozen=True):
    """`settings` as people write them; `first_partitions`: how many the queue had when it was declared."""

    incarnation: int
    settings: dict[str, Any]
    created_ms: int
    first_partitions: int
    is_auto: bool = False
    is_paused: bool = False
    switches: tuple[Switch, ...] = ()
    """those that a group may still have before it, oldest first"""
    is_deleted: bool = False
    """its logs are going; the record goes behind them"""


class GroupRecord(msgspec.Struct, frozen=True):
    """`starts`: of each partition that existed, where the group begins and where history ends for it."""

    incarnation: int
    number: int
    name: str
    filter: str | None
    created_ms: int
    starts: dict[int, tuple[int, int]]
    is_derived: bool = False
    is_paused: bool = False
    is_permanent: bool = False
    """stays though nobody uses it"""


class TemplateRecord(msgspec.Struct, frozen=True):
    match: str
    settings: dict[str, Any]


class NumbersRecord(msgspec.Struct, frozen=True):
    """The next ones to be given away. Those of deleted queues and groups are never used again: ids of messages and
    records of state logs carry them."""

    incarnation: int
    group: int


Record = QueueRecord | GroupRecord | TemplateRecord | NumbersRecord
_KINDS: dict[str, type[QueueRecord] | type[GroupRecord] | type[TemplateRecord] | type[NumbersRecord]] = {
    "numbers": NumbersRecord,
    "queue": QueueRecord,
    "group": GroupRecord,
    "template": TemplateRecord,
}


NUMBERS_KEY = "numbers:"


def queue_key(incarnation: int) -> str:
    return f"queue:{incarnation}"


def group_key(incarnation: int, number: int) -> str:
    return f"group:{incarnation}:{number}"


def template_key(match: str) -> str:
    return f"template:{match}"


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
        for key, value in self._values():
            if value:
                found[key] = msgspec.json.decode(value, type=_KINDS[key.partition(":")[0]])
            else:
                found.pop(key, None)
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
