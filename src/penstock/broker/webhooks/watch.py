"""Looks now and then for what nobody reports: queues that are full, groups that lag, logs that take no more, a disk
that is nearly full. Each is told once when it begins, and not again for a while however often it comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from penstock.broker.alarms import Alarms
from penstock.broker.queues.group import Group
from penstock.broker.queues.partitioned import PartitionedQueue
from penstock.broker.queues.queue import Queue
from penstock.broker.webhooks.events import Event
from penstock.broker.webhooks.webhooks import Webhooks
from penstock.core.errors import LogPoisoned
from penstock.log.shard import Shard

LOOK_MS = 1000
QUIET_MS = 60_000
"""so long nothing is told again of one queue, group, log or disk"""
_QUEUES_EVERY = 5
# Looked at in one turn of the loop.
_QUEUES_AT_ONCE = 100


class Edges:
    """Which conditions hold, by key, and when each was told last."""

    def __init__(self, quiet_ms: int = QUIET_MS) -> None:
        self._quiet_ms = quiet_ms
        self._told: dict[Hashable, tuple[int, bool]] = {}
        """when, and whether it has held ever since"""
        self._asked: set[Hashable] = set()
        """in this round"""

    def __len__(self) -> int:
        return len(self._told)

    def begins(self, key: Hashable, holds: bool, now_ms: int) -> bool:
        """Whether to tell: it holds, did not when it was looked at before, and was not told of late."""
        self._asked.add(key)
        told_ms, still_holds = self._told.get(key, (None, False))
        is_quiet = told_ms is not None and now_ms - told_ms < self._quiet_ms
        if holds and not still_holds and not is_quiet:
            self._told[key] = now_ms, True
            return True
        if not holds and told_ms is not None:
            self._told[key] = told_ms, False
        return False

    def end_round(self, now_ms: int) -> None:
        """All were asked for: what was not is no more, and what does not hold is forgotten after a while."""
        self._told = {
            key: (told_ms, holds)
            for key, (told_ms, holds) in self._told.items()
            if key in self._asked and (holds or now_ms - told_ms < self._quiet_ms)
        }
        self._asked.clear()


class Watch:
    """Of one broker, on its loop. Costs nothing while no hook wants what it looks for."""

    def __init__(
        self,
        webhooks: Webhooks,
        shard: Shard,
        queues: Callable[[], list[Queue]],
        alarms: Alarms,
        now: Callable[[], int],
    ) -> None:
        self._webhooks, self._shard, self._queues, self._alarms = webhooks, shard, queues, alarms
        self._of_shard, self._of_queues = Edges(), Edges()
        self._refused: dict[int, int] | None = {}
        """by queue: how many messages it had refused when it was looked at last; None while nobody wants to know"""
        self._looks = 0
        self._task: asyncio.Task[None] | None = None
        alarms.set(self, now() + LOOK_MS, self._look)

    async def finish(self) -> None:
        """Returns when the look that is under way is over."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _look(self, now: int) -> None:
        self._alarms.set(self, now + LOOK_MS, self._look)
        self._look_at_shard(now)
        self._looks += 1
        is_wanted = self._webhooks.wants(Event.QUEUE_FULL) or self._webhooks.wants(Event.LAG)
        if is_wanted and self._looks % _QUEUES_EVERY == 0 and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._look_at_queues(now))
        elif not is_wanted:
            self._refused = None

    def _look_at_shard(self, now: int) -> None:
        if self._webhooks.wants(Event.DISK_LOW):
            low = self._shard.disk_low
            if self._of_shard.begins(Event.DISK_LOW, low is not None, now) and low is not None:
                facts = {"free_bytes": low.free_bytes, "reserve_bytes": low.reserve_bytes}
                self._webhooks.tell(Event.DISK_LOW, facts)
        if self._webhooks.wants(Event.LOG_POISONED):
            self._look_at_logs(now)

    def _look_at_logs(self, now: int) -> None:
        """A journal that failed stops every log, so it is told alone."""
        failure = self._shard.failure
        if self._of_shard.begins("journal", failure is not None, now) and failure is not None:
            self._webhooks.tell(Event.LOG_POISONED, {"log": None, "reason": str(failure)})
        for log in self._shard.faulty_logs if failure is None else ():
            if isinstance(log.fault, LogPoisoned) and self._of_shard.begins(("log", log.number), True, now):
                self._webhooks.tell(Event.LOG_POISONED, {"log": log.name, "reason": str(log.fault)})

    async def _look_at_queues(self, now: int) -> None:
        refused: dict[int, int] = {}
        for number, queue in enumerate(self._queues()):
            if number % _QUEUES_AT_ONCE == 0:
                await asyncio.sleep(0)
            if not queue.is_deleted:
                refused[queue.incarnation] = queue.refused
                self._look_at_queue(queue, now)
        self._of_queues.end_round(now)
        self._refused = refused if self._webhooks.wants(Event.QUEUE_FULL) else None

    def _look_at_queue(self, queue: Queue, now: int) -> None:
        if self._webhooks.wants(Event.QUEUE_FULL):
            before = queue.refused if self._refused is None else self._refused.get(queue.incarnation, 0)
            limit = queue.settings.limits.max_queue_depth
            is_full = queue.refused > before or (limit is not None and queue.depth() >= limit)
            if self._of_queues.begins(("full", queue.incarnation), is_full, now):
                facts = {"depth": queue.depth(), "limit": limit, "refused": queue.refused}
                self._webhooks.tell(Event.QUEUE_FULL, {**_named(queue), **facts})
        thresholds = self._webhooks.lag_thresholds
        for group in queue.groups.values() if thresholds else ():
            self._look_at_group(group, thresholds, now)

    def _look_at_group(self, group: Group, thresholds: list[int], now: int) -> None:
        lag = group.depth()
        for threshold in thresholds:
            if self._of_queues.begins(("lag", threshold, group.queue.incarnation, group.number), lag > threshold, now):
                facts = {"group": str(group.key), "lag": lag, "threshold": threshold}
                self._webhooks.tell(Event.LAG, {**_named(group.queue), **facts}, threshold)


def _named(queue: PartitionedQueue) -> dict[str, object]:
    return {"queue": queue.name, "namespace": queue.namespace}
