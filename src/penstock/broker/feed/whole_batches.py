"""Batches that come next in their partitions and are in memory, handed out whole, or in parts to those who compete:
those of many partitions together, because what a small one costs is mostly calls."""

from __future__ import annotations

from array import array
from itertools import repeat

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.member import GroupMember
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.group import NEVER, Group
from penstock.kernels.windows import Handed, hand_out, hand_out_parts
from penstock.queues.settings import Ordering

# Batches of more messages are looked at row by row: what a call costs is nothing beside them.
_MOST_MESSAGES = 1024
_ALL_ROWS = array("i", range(_MOST_MESSAGES))
# Nothing of a delivery is ever changed.
_FIRST_ROWS = [_ALL_ROWS[:count] for count in range(33)]


def take_whole(group: Group, consumer: GroupMember, room: int, found: list[Delivery]) -> int:
    """Up to `room` messages of the partitions that are ready to `found`; how many. Partitions that have no more are
    struck off; what needs a closer look stays."""
    if not group.takes_all:
        return 0
    handed = Handed()
    now, queue = group.now(), group.queue
    timeout_ms = queue.settings.performance.delivery_timeout_ms or NEVER
    by_key, limit = queue.settings.ordering is not Ordering.NONE, group.limits.window
    bounds = room, limit, _MOST_MESSAGES, group.too_old(now)
    try:
        hand_out(consumer, queue.units, group.number, by_key, now, *bounds, timeout_ms, handed)
    finally:
        found += _deliveries(group, consumer, handed)
    if handed.messages:
        for hold in handed.unwatched:
            group.watch_clock(consumer, hold)
        _note_handed(group, handed, now)
    return handed.messages


def take_parts(group: Group, consumer: GroupMember, room: int, found: list[Delivery]) -> int:
    """The same for one who shares partitions with others, and may get a part of a batch. No clock runs for it."""
    if not group.takes_all:
        return 0
    handed = Handed()
    now, queue = group.now(), group.queue
    by_key, bounds = queue.settings.ordering is not Ordering.NONE, (room, group.limits.window, group.too_old(now))
    try:
        hand_out_parts(consumer, queue.units, group.number, by_key, now, *bounds, handed)
    finally:
        found += _parts(group, consumer, handed)
    if handed.messages:
        _note_handed(group, handed, now)
    return handed.messages


def _note_handed(group: Group, handed: Handed, now: int) -> None:
    group.queue.used_ms = now
    if group.queue.head is not None:
        group.queue.head.returned([unit.partition for unit in handed.units])
    shifted, latency = now + group.timeline.shift, group.queue.delivery_latency
    for time_ms, messages in zip(handed.times, handed.amounts, strict=True):
        latency.observe(max(shifted - time_ms, 0) / 1000, messages)


def _parts(group: Group, consumer: GroupMember, handed: Handed) -> list[Delivery]:
    number, found = consumer.number, []
    for unit, batch, row, count in zip(handed.units, handed.batches, handed.rows, handed.counts, strict=True):
        stored = StoredBatch(batch.data, batch.first, batch.end, True)
        found.append(Delivery(group, unit, number, stored, _rows(row, count)))
    return found


def _rows(row: int, count: int) -> array[int]:
    stop = row + count
    if not row and count <= 32:
        return _FIRST_ROWS[count]
    return _ALL_ROWS[row:stop] if stop <= _MOST_MESSAGES else array("i", range(row, stop))


def _deliveries(group: Group, consumer: GroupMember, handed: Handed) -> list[Delivery]:
    stored = [StoredBatch(batch.data, batch.first, batch.end, True) for batch in handed.batches]
    rows = [_FIRST_ROWS[count] if count <= 32 else _ALL_ROWS[:count] for count in handed.counts]
    return list(map(Delivery, repeat(group), handed.units, repeat(consumer.number), stored, rows))
