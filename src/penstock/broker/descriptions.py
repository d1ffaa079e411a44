"""Queues and groups described: what the command line, the embedded API, MQTT and HTTP show."""

from __future__ import annotations

from penstock.broker.feed.member import GroupMember
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.broker.webhooks.events import without_secrets
from penstock.core.descriptions import (
    GroupDescription,
    MemberDescription,
    PartitionDescription,
    ProgressDescription,
    QueueDescription,
    Tally,
)
from penstock.core.errors import OffsetOutOfRange
from penstock.kernels.window import Window
from penstock.queues.names import GroupName
from penstock.queues.settings import queue_json

_DEFAULT = GroupName("default")


def shown_settings(queue: Queue) -> dict[str, object]:
    """As people write them, without what is secret in them: nobody is shown that, whatever their role."""
    shown = without_secrets(queue_json(queue.own))
    assert isinstance(shown, dict)
    return shown


def default_group(queue: Queue) -> Group | None:
    """Whose messages are counted where there is one number: those of AMQP, or of the group that has most to do."""
    if (found := queue.groups.get(_DEFAULT)) is not None:
        return found
    return max(queue.groups.values(), key=lambda group: group.depth(), default=None)


def ready_and_held(queue: Queue) -> tuple[int, int]:
    """How many are ready for that group, and how many are with a consumer or wait for another try."""
    if (group := default_group(queue)) is None:
        return sum([_partition(unit).messages for unit in queue.units.values()]), 0
    ready = group.ready()
    return ready, max(group.depth() - ready, 0)


async def describe_queue(queue: Queue, now: int) -> QueueDescription:
    """Reads a message of each group and partition, for its age."""
    partitions = [_partition(queue.units[number]) for number in sorted(queue.units)]
    return QueueDescription(
        name=queue.name,
        namespace=queue.namespace,
        incarnation=queue.incarnation,
        created_ms=queue.record.created_ms,
        is_auto=queue.record.is_auto,
        is_paused=queue.is_paused,
        messages=sum([partition.messages for partition in partitions]),
        depth=queue.depth(),
        published=queue.published,
        refused=queue.refused,
        dead_letter_queue=queue.settings.dead_letter_queue,
        partitions=partitions,
        groups=[await describe_group(group, now) for group in list(queue.groups.values())],
        settings=shown_settings(queue),
        is_volatile=queue.is_volatile,
    )


async def describe_group(group: Group, now: int) -> GroupDescription:
    units = [group.queue.units[number] for number in sorted(group.queue.units)]
    oldest = [time for unit in units if (time := await _oldest_unsettled_ms(group, unit)) is not None]
    partitions = [_progress(group, unit) for unit in units]
    windows = [group.cursor(unit).window for unit in units]
    return GroupDescription(
        queue=group.queue.name,
        namespace=group.queue.namespace,
        name=group.key.name,
        filter=group.key.filter,
        created_ms=group.record.created_ms,
        is_paused=group.record.is_paused,
        is_derived=group.record.is_derived,
        members=[_member(group, consumer) for consumer in group.consumers.values()],
        generation=group.members.generation,
        rebalances=group.members.metrics.rebalances,
        is_rebalancing=group.members.is_rebalancing,
        depth=group.depth(),
        lag=sum([partition.lag for partition in partitions]),
        lag_s=max(now - min(oldest, default=now), 0) / 1000,
        in_flight=sum([window.held for window in windows]),
        waiting=sum([window.waiting for window in windows]),
        ready=sum([window.ready for window in windows]),
        parked=sum([window.parked for window in windows]),
        counts=_counts([group.cursor(unit).tally for unit in units]),
        partitions=partitions,
    )


def _partition(unit: Unit) -> PartitionDescription:
    start, end = unit.start, unit.end
    return PartitionDescription(unit.partition, start, end, max(end - start - unit.missing(start), 0))


def _progress(group: Group, unit: Unit) -> ProgressDescription:
    window = group.cursor(unit).window
    return ProgressDescription(
        partition=unit.partition,
        floor=window.floor,
        next=window.next,
        end=unit.end,
        lag=lag_of(window, unit),
        in_flight=window.held,
        waiting=window.waiting,
        owner=group.members.owner_of(unit.partition),
    )


def lag_of(window: Window, unit: Unit) -> int:
    """Messages there that its group has not settled."""
    ahead = max(window.next, unit.start)
    return max(unit.end - ahead - unit.missing(ahead), 0) + window.pending


def _member(group: Group, consumer: GroupMember) -> MemberDescription:
    is_suspended = consumer.number in group.members.suspended
    return MemberDescription(consumer.number, consumer.partitions, consumer.prefetch, consumer.held, is_suspended)


def _counts(tallies: list[Tally]) -> Tally:
    counts = Tally()
    counts.add(*tallies)
    return counts


async def _oldest_unsettled_ms(group: Group, unit: Unit) -> int | None:
    """When that was published which the group has not settled for longest, in one partition."""
    floor = max(group.cursor(unit).window.floor, unit.start)
    if floor >= unit.end:
        return None
    try:
        stored = await unit.stored(floor)
    except OffsetOutOfRange:
        return None
    if stored is None:
        return None
    row = stored.row_from(floor)
    return stored.batch.timestamps()[row] if row < len(stored) else stored.batch.header.max_timestamp
