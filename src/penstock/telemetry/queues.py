"""Numbers of queues, each for itself up to a limit, the others in sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from penstock.broker.queues.queue import Queue
from penstock.core.queue_paths import queue_topic
from penstock.queues.deadletter import Reason
from penstock.telemetry import families as names
from penstock.telemetry.breather import Breather
from penstock.telemetry.groups import OTHERS, GroupNumbers
from penstock.telemetry.memory import Slots
from penstock.telemetry.quantiles import Recent
from penstock.telemetry.samples import NO_LABELS, Labels, Samples, distribution
from penstock.telemetry.sources import MetricOptions, MetricSources
from penstock.telemetry.totals import Totals

_MQTT_REASONS = {
    Reason.MAX_RETRIES: "max_retries",
    Reason.TOTAL_TIMEOUT: "timeout",
    Reason.MAX_DELIVERIES: "max_deliveries",
    Reason.REJECTED: "rejected",
    Reason.EXPIRED: "expired",
    Reason.MAX_LENGTH: "maxlen",
}


@dataclass(slots=True)
class Standing:
    """What is so now, of one queue or of many."""

    depth: int = 0
    messages: int = 0
    size_bytes: int = 0
    partitions: int = 0
    paused: int = 0
    log_start: int = 0
    log_end: int = 0


class QueueNumbers:
    """Of one collection."""

    def __init__(self, sources: MetricSources, options: MetricOptions, out: Samples, breather: Breather) -> None:
        self._sources, self._options, self._out, self._breather = sources, options, out, breather
        self._shard = sources.broker.shard
        self._groups = GroupNumbers(sources, options, out, breather)

    async def collect(self) -> None:
        memory, queues = self._sources.memory, self._sources.broker.queues
        named, others = await memory.slots.divide(queues, self._options.max_queues, self._breather)
        past: Totals | None = memory.slots.past
        if (only := self._options.namespace) is not None:
            # What deleted queues have counted is not told apart by namespaces.
            past = None
            queues, named, others = (
                [queue for queue in some if queue.namespace == only] for some in (queues, named, others)
            )
        self._out[names.QUEUES].put(NO_LABELS, len(queues))
        for queue in named:
            await self._collect_one(queue)
        if others or (past is not None and past.published):
            await self._collect_others(others, past)

    async def _collect_one(self, queue: Queue) -> None:
        if queue.is_deleted:
            return
        labels, mqtt_labels = labels_of(queue), mqtt_labels_of(queue)
        totals, standing = Totals(), Standing()
        await totals.add(queue, self._breather)
        await self._look_at(queue, standing)
        self._put(labels, mqtt_labels, totals, standing, queue)
        if self._options.partitions:
            await self._put_partitions(queue, labels)
        else:
            self._put_offsets(labels, standing)
        await self._groups.collect(queue, labels, mqtt_labels)

    async def _collect_others(self, others: Sequence[Queue], past: Totals | None) -> None:
        labels, mqtt_labels = Labels(("namespace", OTHERS), ("queue", OTHERS)), Labels(("queue", OTHERS))
        totals, standing = Totals(), Standing()
        if past is not None:
            totals.add_totals(past)
        for queue in others:
            await totals.add(queue, self._breather)
            await self._look_at(queue, standing)
        self._put(labels, mqtt_labels, totals, standing, self._sources.memory.slots if past is not None else None)
        self._put_offsets(labels.having(("partition", OTHERS)) if self._options.partitions else labels, standing)

    async def _look_at(self, queue: Queue, standing: Standing) -> None:
        standing.depth += queue.depth()
        standing.partitions += queue.settings.partitions
        standing.paused += queue.is_paused
        for unit in list(queue.units.values()):
            start, end = unit.start, unit.end
            standing.log_start += start
            standing.log_end += end
            standing.messages += max(end - start - unit.missing(start), 0)
            standing.size_bytes += self._shard.stored_bytes(unit.data)
            await self._breather.turn()

    def _put(
        self, labels: Labels, mqtt_labels: Labels, totals: Totals, standing: Standing, whose: Queue | Slots | None
    ) -> None:
        self._put_totals(labels, totals)
        out = self._out
        for family, value in (
            (names.DEPTH, standing.depth),
            (names.MESSAGES, standing.messages),
            (names.SIZE, standing.size_bytes),
            (names.PARTITIONS, standing.partitions),
            (names.PAUSED, standing.paused),
        ):
            out[family].put(labels, value)
        out[names.MQTT_DEPTH].put(mqtt_labels, standing.depth)
        self._put_mqtt_totals(mqtt_labels, totals, whose)

    def _put_totals(self, labels: Labels, totals: Totals) -> None:
        out, tally = self._out, totals.tally
        for family, value in (
            (names.PUBLISHED, totals.published),
            (names.REFUSED, totals.refused),
            (names.DELIVERED, tally.delivered),
            (names.REDELIVERED, tally.redelivered),
            (names.ACKED, tally.acked),
            (names.FAILED, tally.failed),
            (names.RETURNED, tally.returned),
            (names.STALE, tally.stale),
            (names.DROPPED, tally.dropped),
            (names.EXPIRED, tally.expired),
            (names.FILTERED, tally.filtered),
            (names.LOST, tally.lost),
        ):
            out[family].put(labels, value)
        for reason in Reason:
            out[names.DEAD_LETTERED].put(labels.having(("reason", reason)), totals.dead_lettered[reason])
        out[names.DELIVERY_LATENCY].put(labels, distribution(totals.latency))

    def _put_mqtt_totals(self, labels: Labels, totals: Totals, whose: Queue | Slots | None) -> None:
        out, tally, now_s = self._out, totals.tally, monotonic()
        out[names.MQTT_ENQUEUED].put(labels, totals.published)
        out[names.MQTT_DEQUEUED].put(labels, tally.delivered + tally.redelivered)
        out[names.MQTT_ACKED].put(labels, tally.acked)
        out[names.MQTT_NACKED].put(labels, tally.failed)
        recent = Recent(now_s) if whose is None else self._sources.memory.recent.setdefault(whose, Recent(now_s))
        out[names.MQTT_LATENCY].put(labels, recent.quantiles(totals.latency, now_s))
        for reason, word in _MQTT_REASONS.items():
            out[names.MQTT_DEAD].put(labels.having(("reason", word)), totals.dead_lettered[reason])

    def _put_offsets(self, labels: Labels, standing: Standing) -> None:
        self._out[names.LOG_START].put(labels, standing.log_start)
        self._out[names.LOG_END].put(labels, standing.log_end)

    async def _put_partitions(self, queue: Queue, labels: Labels) -> None:
        rest = Standing()
        for unit in list(queue.units.values()):
            if self._groups.takes_partition():
                mine = labels.having(("partition", str(unit.partition)))
                self._put_offsets(mine, Standing(log_start=unit.start, log_end=unit.end))
            else:
                rest.log_start += unit.start
                rest.log_end += unit.end
            await self._breather.turn()
        if rest.log_end:
            self._put_offsets(labels.having(("partition", OTHERS)), rest)


def labels_of(queue: Queue) -> Labels:
    return Labels(("namespace", queue.namespace), ("queue", queue.name))


def mqtt_labels_of(queue: Queue) -> Labels:
    """By the topic that names the queue."""
    named = ("queue", queue_topic(queue.name))
    return Labels(named) if queue.namespace == "default" else Labels(named, ("namespace", queue.namespace))
