"""All retained messages, namespace by namespace."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import unquote

from penstock.broker.retained.space import RetainedSpace
from penstock.core.errors import PenstockError
from penstock.core.types import Durability, LogName
from penstock.log.names import log_name
from penstock.log.partition import Log
from penstock.log.records import Compaction, LogSettings
from penstock.log.shard import Shard
from penstock.log.upkeep.faults import Telling

logger = logging.getLogger("penstock.broker.retained")

_FAMILY = "@retained"


class Retained:
    """Use Retained.open(), from the shard's loop."""

    def __init__(self, shard: Shard, durability: Durability) -> None:
        self._shard = shard
        self._settings = _settings(durability)
        self.spaces: dict[str, RetainedSpace] = {}
        self._making: dict[str, asyncio.Task[RetainedSpace]] = {}
        self._telling = Telling(logger)

    @classmethod
    async def open(cls, shard: Shard, durability: Durability | None = Durability.COMMIT) -> Retained:
        """Read the topics of all that is retained. With None, logs stay as durable as they are."""
        retained = cls(shard, Durability.COMMIT if durability is None else durability)
        prefix = _name("x").removesuffix("x")
        for log in shard.logs:
            if log.name.startswith(prefix):
                retained._adopt(log)
        shard.reader.maps.clear()  # everything was read once; what is read again is mapped again
        if durability is not None:
            await retained.change(durability)
        return retained

    async def change(self, durability: Durability) -> None:
        """From now on all logs are so durable."""
        self._settings = _settings(durability)
        await self._shard.change_different([(space.log, self._settings) for space in self.spaces.values()])

    def close(self) -> None:
        for space in self.spaces.values():
            space.close()

    async def space(self, namespace: str = "default") -> RetainedSpace:
        """Its log is made when it is first asked for."""
        found = self.spaces.get(namespace)
        if found is not None:
            return found
        task = self._making.get(namespace)
        if task is None:
            task = self._making[namespace] = asyncio.ensure_future(self._make(namespace))
        return await asyncio.shield(task)

    @property
    def count(self) -> int:
        return sum(space.count for space in self.spaces.values())

    @property
    def message_bytes(self) -> int:
        return sum(space.message_bytes for space in self.spaces.values())

    async def keep_up(self, now: int) -> None:
        """Every minute or so: what expired is taken away."""
        for name, space in list(self.spaces.items()):
            try:
                await space.keep_up(now)
            except PenstockError as error:
                self._telling.warn("upkeep", "upkeep of retained messages failed namespace=%s error=%s", name, error)

    async def _make(self, namespace: str) -> RetainedSpace:
        try:
            space = self._adopt(await self._shard.create(_name(namespace), self._settings))
            await self._shard.change_different([(space.log, self._settings)])  # they were changed meanwhile
            return space
        finally:
            del self._making[namespace]

    def _adopt(self, log: Log) -> RetainedSpace:
        space = RetainedSpace(self._shard, log)
        space.restore()
        self.spaces[_namespace(log.name)] = space
        return space


def _settings(durability: Durability) -> LogSettings:
    # A value that changes often is kept at most a minute beyond its time: nobody reads the log for its history.
    return LogSettings(
        durability=durability, segment_bytes=16 << 20, compaction=Compaction(lag_s=60.0, tombstone_s=3600.0)
    )


def _name(namespace: str) -> LogName:
    return log_name(_FAMILY, namespace)


def _namespace(name: LogName) -> str:
    return unquote(name.rpartition("/")[2])
