"""A queue that is in memory alone: exclusive ones of AMQP, and those that are not durable. Nothing of it is stored, and
it is gone when the broker is."""

from __future__ import annotations

from penstock.broker.feed.stored import StoredCache
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.core.errors import InvalidSetting
from penstock.core.types import LogName
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.shard import Shard
from penstock.log.volatile import VolatileMemory
from penstock.queues.declared import QueueRecord
from penstock.queues.settings import QueueSettings


class VolatileQueue(Queue):
    """Of one partition. Messages leave memory when all groups have settled them."""

    is_volatile = True

    def __init__(
        self,
        shard: Shard,
        cache: StoredCache,
        settings: QueueSettings,
        record: QueueRecord,
        changed: set[Queue],
        memory: VolatileMemory,
        owner: object | None,
    ) -> None:
        super().__init__(shard, cache, settings, record, changed)
        self.owner = owner
        self.made_ms = shard.timeline.now()
        self.log = memory.log(LogName(settings.name))
        self.next_group = 1
        self.adopt(Unit(shard, cache, settings.name, 0, self.log, None))

    def _watch_floor(self, unit: Unit) -> None:
        """It lets go of what is settled by itself."""

    @property
    def logs(self) -> list[Log]:
        """No frame knows of any."""
        return []

    def changed_logs(self, settings: QueueSettings) -> list[tuple[Log, LogSettings]]:
        return []

    def retain(self, now: int) -> None:
        self.retained_ms = now

    def purge(self) -> None:
        self.log.settled_below(self.log.end)

    def end_it(self) -> None:
        """What holds itself would wait for the garbage collector, thousands a second."""
        self.log.end_it()
        self._on_commit = None


def check_volatile(settings: QueueSettings) -> None:
    """InvalidSetting for what only a stored queue can have."""
    if settings.partitions != 1:
        raise InvalidSetting("partitions", f"{settings.partitions} of a queue that is in memory alone: it has 1")
    if settings.compaction.enabled:
        raise InvalidSetting("compaction.enabled", "a queue that is in memory alone has no files: disable it")
