"""Numbers of consumer groups, each for itself up to a limit, the others of a queue in sum."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.broker.descriptions import lag_of
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.telemetry import families as names
from penstock.telemetry.ages import not_begun
from penstock.telemetry.breather import Breather
from penstock.telemetry.samples import Labels, Samples
from penstock.telemetry.sources import MetricOptions, MetricSources

OTHERS = "(others)"


@dataclass(slots=True)
class Progress:
    """How far one group is, or many."""

    members: int = 0
    suspended: int = 0
    committed: int = 0
    lag: int = 0
    lag_s: float = 0.0
    in_flight: int = 0
    waiting: int = 0


class GroupNumbers:
    """Of one collection. Groups that came first have numbers of their own."""

    def __init__(self, sources: MetricSources, options: MetricOptions, out: Samples, breather: Breather) -> None:
        self._sources, self._options, self._out, self._breather = sources, options, out, breather
        self._now_ms = sources.broker.wall()
        self._groups_left, self._partitions_left = options.max_groups, options.max_partitions

    def takes_partition(self) -> bool:
        """Whether one more may have numbers of its own."""
        self._partitions_left -= 1
        return self._partitions_left >= 0

    async def collect(self, queue: Queue, labels: Labels, mqtt_labels: Labels) -> None:
        rest = Progress()
        has_rest = False
        for group in list(queue.groups.values()):
            self._groups_left -= 1
            if self._groups_left < 0:
                has_rest = True
                await self._look_at(group, rest, None)
                continue
            named, mine = ("group", group.name), Progress()
            own = labels.having(named)
            await self._look_at(group, mine, own if self._options.partitions else None)
            self._put(own, mqtt_labels.having(named), mine)
            self._out[names.REBALANCES].put(own, group.members.metrics.rebalances)
        if has_rest:
            self._put(labels.having(("group", OTHERS)), mqtt_labels.having(("group", OTHERS)), rest)

    async def _look_at(self, group: Group, progress: Progress, labels: Labels | None) -> None:
        """`labels`: of the group, if its partitions are to be put down each."""
        progress.members += len(group.consumers)
        progress.suspended += len(group.members.suspended)
        rest = Progress()
        for unit in list(group.queue.units.values()):
            cursor = unit.cursors.get(group.number)
            if cursor is None:
                committed = not_begun(group, unit)
                lag = max(unit.end - committed - unit.missing(committed), 0)
            else:
                committed, lag = cursor.window.floor, lag_of(cursor.window, unit)
                progress.in_flight += cursor.window.held
                progress.waiting += cursor.window.waiting
            progress.committed += committed
            progress.lag += lag
            if labels is not None and self.takes_partition():
                self._put_partition(labels.having(("partition", str(unit.partition))), committed, lag)
            else:
                rest.committed += committed
                rest.lag += lag
            await self._breather.turn()
        if labels is not None and rest.committed + rest.lag:
            self._put_partition(labels.having(("partition", OTHERS)), rest.committed, rest.lag)
        ages = self._sources.memory.ages
        oldest_s = await ages.oldest_s(self._sources.broker.shard, group, self._now_ms)
        progress.lag_s = max(progress.lag_s, oldest_s)

    def _put(self, labels: Labels, mqtt_labels: Labels, progress: Progress) -> None:
        out = self._out
        out[names.MEMBERS].put(labels, progress.members)
        out[names.SUSPENDED].put(labels, progress.suspended)
        out[names.MQTT_CONSUMERS].put(mqtt_labels, progress.members)
        out[names.LAG_SECONDS].put(labels, progress.lag_s)
        out[names.IN_FLIGHT].put(labels, progress.in_flight)
        out[names.WAITING].put(labels, progress.waiting)
        if not self._options.partitions:
            self._put_partition(labels, progress.committed, progress.lag)

    def _put_partition(self, labels: Labels, committed: int, lag: int) -> None:
        self._out[names.COMMITTED].put(labels, committed)
        self._out[names.LAG].put(labels, lag)
