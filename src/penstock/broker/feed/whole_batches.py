"""Batches that come next in their partitions and are in memory, handed out whole: those of many partitions together,
because what a small one costs is mostly calls."""

from __future__ import annotations

from array import array
from itertools import repeat

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.member import GroupMember
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.group import Group
from penstock.kernels.windows import Handed, hand_out
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
    timeout_ms = queue.settings.performance.delivery_timeout_ms
    by_key, limit = queue.settings.ordering is not Ordering.NONE, group.limits.window
    bounds = room, limit, _MOST_MESSAGES, group.too_old(now)
    try:
        hand_out(consumer, queue.units, group.number, by_key, now, *bounds, timeout_ms, handed)
    finally:
        found += _deliveries(group, consumer, handed)
    if handed.messages:
        queue.used_ms = now
        for hold in handed.unwatched:
            group.watch_clock(consumer, hold)
        shifted = now + group.timeline.shift
        for time_ms, messages in zip(handed.times, handed.amounts, strict=True):
            queue.delivery_latency.observe(max(shifted - time_ms, 0) / 1000, messages)
    return handed.messages


def _deliveries(group: Group, consumer: GroupMember, handed: Handed) -> list[Delivery]:
    stored = [StoredBatch(batch.data, batch.first, batch.end, True) for batch in handed.batches]
    rows = [_FIRST_ROWS[count] if count <= 32 else _ALL_ROWS[:count] for count in handed.counts]
    return list(map(Delivery, repeat(group), handed.units, repeat(consumer.number), stored, rows))
