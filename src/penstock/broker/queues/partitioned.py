"""The partitions of a queue, and who is told that there is more in them: what a group needs of its queue."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from penstock.broker.feed.stored import StoredCache
from penstock.broker.queues.gate import Gate
from penstock.broker.queues.unit import Unit
from penstock.core.descriptions import Tally
from penstock.core.metrics import Histogram
from penstock.core.queue_paths import queue_topic
from penstock.core.types import LogName, LogNumber
from penstock.kernels.takers import NO_LIMIT, Taker
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.shard import Shard
from penstock.queues.deadletter import Reason
from penstock.queues.declared import QueueRecord
from penstock.queues.names import data_log, message_id_prefix, snapshots_log, state_log
from penstock.queues.settings import Overflow, QueueSettings, Unkeyed, log_settings


class Listener(Protocol):
    def notify_all(self, partitions: Sequence[int]) -> None:
        """There may be something to read there, or the queue was deleted. Called where the commit is told: quickly."""
        ...


class Head(Protocol):
    """Of a queue that messages leave without a consumer: see broker/letters/heads."""

    def notify_all(self, partitions: Sequence[int]) -> None: ...

    def returned(self, partitions: Sequence[int]) -> None: ...

    def look_at_all(self) -> None: ...


class PartitionedQueue(Taker):
    """Used from the loop."""

    gate: Gate
    is_volatile: bool
    units: dict[int, Unit]
    is_deleted: bool
    used_ms: int
    """when messages were last published to it, or handed out"""

    def __init__(self, shard: Shard, cache: StoredCache, settings: QueueSettings, record: QueueRecord) -> None:
        super().__init__(Gate(), None)
        self.cache, self.record = cache, record
        self._set(settings)
        self.own = settings
        """as they are stored; `settings` is what counts, with a policy laid over them"""
        self.listening: dict[Listener, None] = {}
        """groups of which somebody waits for messages, and others who look on"""
        self.is_paused = record.is_paused
        self.past = Tally()
        """what groups counted that are deleted"""
        self.dead_lettered: Counter[Reason] = Counter()
        self.delivery_latency = Histogram()
        """from the commit of a message to its first delivery to a group"""
        self.head: Head | None = None
        self._shard = shard
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._turn = 0
        self._prefixes = _prefixes(settings.name)
        self._id_prefixes: dict[int, str] = {}
        self._partitions: dict[LogNumber, int] = {}
        """by the number of their data log"""
        self._on_commit: Callable[[list[Log]], None] | None = None
        """one for all its logs, so that they are told together"""

    def _set(self, settings: QueueSettings) -> None:
        limits, depth = settings.limits, settings.limits.max_queue_depth
        self.settings, self.partitions = settings, settings.partitions
        self.refuses_ready = settings.limits_ready and settings.overflow is not Overflow.DROP_OLDEST
        self.depth_limit = depth if depth is not None else 0 if self.refuses_ready else NO_LIMIT
        self.largest_value = limits.max_message_size_bytes
        self.spreads = settings.unkeyed is Unkeyed.SPREAD

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def namespace(self) -> str:
        return self.settings.namespace

    @property
    def incarnation(self) -> int:
        return self.record.incarnation

    @property
    def is_unmade(self) -> bool:
        """It is not there: see Declaring.unmade()."""
        return not self.record.incarnation

    def message_id_prefix(self, partition: int) -> str:
        found = self._id_prefixes.get(partition)
        if found is None:
            found = self._id_prefixes[partition] = message_id_prefix(self.name, self.incarnation, partition)
        return found

    def routing_key(self, topic: bytes) -> bytes:
        """What follows the queue's name in a topic that names it; else the topic."""
        for prefix in self._prefixes:
            if topic == prefix:
                return b""
            if topic.startswith(prefix + b"/"):
                return topic[len(prefix) + 1 :]
        return topic

    # Partitions

    async def unit(self, partition: int) -> Unit:
        """Made when it is first needed: an unused partition costs nothing."""
        if partition not in self.units:
            await self._opened([partition])
        return self.units[partition]

    async def _opened(self, partitions: Sequence[int]) -> None:
        """Those that are not there and that nobody is making yet are made in one commit."""
        lacking = [partition for partition in partitions if partition not in self.units]
        if anew := [partition for partition in lacking if partition not in self._opening]:
            task = asyncio.ensure_future(self._create(anew))
            self._opening.update(dict.fromkeys(anew, task))
        for task in {self._opening[partition] for partition in lacking}:
            await asyncio.shield(task)

    async def make(self, partitions: Sequence[int]) -> None:
        """Those that are needed, together, unless it is deleted meanwhile."""
        await self.gate.enter()
        try:
            if not self.is_deleted:
                await self._opened(partitions)
        finally:
            self.gate.leave()

    async def _create(self, partitions: Sequence[int]) -> None:
        try:
            self.adopt_logs(partitions, await self._shard.create_many(wanted_logs(self.settings, partitions)))
        finally:
            for partition in partitions:
                del self._opening[partition]

    def adopt_logs(self, partitions: Sequence[int], logs: Sequence[Log]) -> None:
        """Those that wanted_logs() said."""
        for place, partition in enumerate(partitions):
            data, state = logs[2 * place : 2 * place + 2]
            self.adopt(Unit(self._shard, self.cache, self.name, partition, data, state))

    async def all_opened(self) -> None:
        """Returns when no partition is being made."""
        while self._opening:
            await asyncio.wait(set(self._opening.values()))

    @property
    def logs(self) -> list[Log]:
        """Of all partitions."""
        found = [log for unit in self.units.values() for log in (unit.data, unit.state, unit.snapshots)]
        return [log for log in found if log is not None]

    def adopt(self, unit: Unit) -> None:
        self.units[unit.partition] = unit
        self._partitions[unit.data.number] = unit.partition
        unit.data.on_commit = self._on_commit = self._on_commit or self._notify_of
        unit.data.listening = self.listening

    async def snapshots(self, unit: Unit) -> None:
        """Make the log for the unit's snapshots."""
        if unit.snapshots is None:
            name = snapshots_log(self.namespace, self.name, unit.partition)
            unit.snapshots = await self._shard.create(name, state_settings(log_settings(self.settings)))
            if changed := self.changed_logs(self.settings):
                await self._shard.change_many(changed)  # the queue was changed meanwhile

    def changed_logs(self, settings: QueueSettings) -> list[tuple[Log, LogSettings]]:
        """The logs whose settings are not those that the queue's decide, with these."""
        data = log_settings(settings)
        state = state_settings(data)
        wanted = [
            (log, follows)
            for unit in self.units.values()
            for log, follows in ((unit.data, data), (unit.state, state), (unit.snapshots, state))
        ]
        return [(log, follows) for log, follows in wanted if log is not None and log.settings != follows]

    def units_in_turn(self) -> Iterator[Unit]:
        """Each call begins with another one."""
        units = list(self.units.values())
        self._turn += 1
        for i in range(len(units)):
            yield units[(self._turn + i) % len(units)]

    def notify(self, partition: int) -> None:
        self._notify([partition])

    def _notify_of(self, logs: list[Log]) -> None:
        partitions = self._partitions
        self._notify([partitions[log.number] for log in logs])

    def _notify(self, partitions: Sequence[int]) -> None:
        for listener in list(self.listening):
            listener.notify_all(partitions)

    def notify_of_end(self) -> None:
        """It was deleted."""
        self._notify(())


def wanted_logs(settings: QueueSettings, partitions: Sequence[int]) -> list[tuple[LogName, LogSettings]]:
    """The logs that partitions begin with."""
    space, name, data = settings.namespace, settings.name, log_settings(settings)
    state = state_settings(data)
    return [
        wanted
        for partition in partitions
        for wanted in ((data_log(space, name, partition), data), (state_log(space, name, partition), state))
    ]


def state_settings(data: LogSettings) -> LogSettings:
    """A state log is as durable as the messages it speaks of, and is let go of only behind snapshots."""
    return LogSettings(durability=data.durability, segment_bytes=8 << 20)


def _prefixes(name: str) -> tuple[bytes, ...]:
    return (queue_topic(name).encode(),)
